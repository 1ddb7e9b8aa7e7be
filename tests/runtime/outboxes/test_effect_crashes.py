"""Processes killed while they run an effect: another one finishes it under the same id, and tells it once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.actors import RuntimeUnderTest
from tests.processes import wait_until
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.crashing import crash
from tests.runtime.outboxes import actors, effect_child
from tests.runtime.outboxes.actors import Roles, Till
from tests.runtime.outboxes.effect_child import NotedOutside
from tests.runtime.outboxes.rows import find_effect


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which all processes note what they did outside."""
    path = tmp_path / "outside"
    monkeypatch.setattr(actors, "OUTSIDE", NotedOutside(path))
    return path


@pytest.fixture
def rt(make_runtime: MakeRuntime) -> RuntimeUnderTest:
    return make_runtime(own=(Till,), process_heartbeat_interval=0.1, process_alive_threshold=0.3)


@pytest.fixture
def survivor(rt: RuntimeUnderTest, make_roles: Callable[..., Roles]) -> Roles:
    """The roles of the process that goes on."""
    return make_roles(rt)


@pytest.mark.parametrize(
    ("step", "calls", "attempts"),
    [
        ("claim_effect.committing", 1, 1),
        ("claim_effect.committed", 1, 2),
        ("effect.claimed", 1, 2),
        ("effect.handled", 2, 2),
        ("end_effect.committing", 2, 2),
        ("end_effect.committed", 1, 1),
    ],
)
def test_killed_process(survivor: Roles, noted: Path, database_url: URL, step: str, calls: int, attempts: int) -> None:
    """Wherever the process dies, the work is done at least once, under one id, and the actor hears of it once."""
    rt = survivor.rt
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    crash(database_url, str(noted), step, main=effect_child.main)
    _finish(survivor, ["paid 5"])

    assert noted.read_text().split() == [effect_id] * calls
    row = find_effect(rt, effect_id)
    assert (row.status, row.attempts, row.result) == ("completed", attempts, '"paid 5"')


@pytest.mark.parametrize(
    ("step", "expected", "calls"),
    [
        ("claim_effect.committing", "paid 5", 1),
        ("claim_effect.committed", "retired 5", 0),
        ("effect.handled", "retired 5", 1),
        ("end_effect.committing", "retired 5", 1),
        ("end_effect.committed", "paid 5", 1),
    ],
)
def test_killed_process_of_an_effect_that_opted_in(
    survivor: Roles, noted: Path, database_url: URL, step: str, expected: str, calls: int
) -> None:
    """With on_recovery= no second run is begun: the actor hears either how it ended, or that it was abandoned."""
    rt = survivor.rt
    rt.ref("Till", "a").pay_with_recovery(amount=5)
    crash(database_url, str(noted), step, main=effect_child.main)
    _finish(survivor, [expected])

    assert len(noted.read_text().split() if noted.exists() else []) == calls


def _finish(survivor: Roles, expected: list[str]) -> None:
    """Do what a living process does until the actor has heard of it, and a little longer."""

    def is_told() -> bool:
        survivor.rt.runtime.operators.clean_up()
        survivor.effects._recovering.retire_abandoned()
        survivor.settle()
        return bool(survivor.rt.ref("Till", "a").snapshot().log == expected)

    wait_until(is_told, f"{expected} in the log")
    assert is_told()
