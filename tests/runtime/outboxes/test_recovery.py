"""Effects whose process died: run again, dead, or retired when they opted into that."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from flask_solid_objects.errors import CommitUnknown
from flask_solid_objects.runtime.deregistration import Deregistration
from flask_solid_objects.values import EffectContext
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Outside, Roles, Till
from tests.runtime.outboxes.dying import Crashing
from tests.runtime.outboxes.rows import error_of, execute, find_effect


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=(Till,), max_attempts=2)


@pytest.fixture
def crashing(rt: RuntimeUnderTest, make_runtime: MakeRuntime, make_roles: Callable[..., Roles]) -> Crashing:
    return Crashing(make_roles(make_runtime(own=(Till,))), make_roles(rt))


# -- opted in ----------------------------------------------------------------------------------


def test_abandoned_effect_is_retired(rt: RuntimeUnderTest, crashing: Crashing, outside: Outside) -> None:
    """An effect that opted in is not run again when its process died: its actor is told, once."""
    effect_id = rt.ref("Till", "a").pay_with_recovery(amount=5)
    crashing.claim()
    crashing.silence()
    for _ in range(3):
        crashing.recover()
        crashing.alive.settle()

    assert rt.ref("Till", "a").log == ["retired 5"]
    assert (find_effect(rt, effect_id).status, find_effect(rt, effect_id).result) == ("completed", None)
    assert outside.calls == []


def test_two_that_retire_tell_it_once(rt: RuntimeUnderTest, crashing: Crashing, checkpoints: HeldCheckpoints) -> None:
    """Two processes that find the same abandoned effect at once tell its actor once."""
    rt.ref("Till", "a").pay_with_recovery(amount=5)
    crashing.claim()
    crashing.silence()
    recovering = crashing.alive.effects._recovering
    with checkpoints.hold("retire.committing") as hold, ThreadPoolExecutor(2) as pool:
        first = pool.submit(recovering.retire_abandoned)
        hold.wait_reached()
        second = pool.submit(crashing.dead.effects._recovering.retire_abandoned)
        hold.release()

        assert first.result(20) + second.result(20) == 1
    crashing.alive.settle()
    assert rt.ref("Till", "a").log == ["retired 5"]


@pytest.mark.parametrize("when", ["committing", "acknowledging"])
def test_unknown_commit_of_a_retirement(
    rt: RuntimeUnderTest, crashing: Crashing, checkpoints: HeldCheckpoints, when: str
) -> None:
    """A retirement whose commit is unknown is told once, whether it was done or not."""
    rt.ref("Till", "a").pay_with_recovery(amount=5)
    crashing.claim()
    crashing.silence()
    checkpoints.fail(f"retire.{when}", ConnectionResetError("gone"))
    # The role would only pause.
    with suppress(CommitUnknown):
        crashing.recover()
    crashing.recover()
    crashing.alive.settle()

    assert rt.ref("Till", "a").log == ["retired 5"]


def test_late_end_of_a_retired_effect(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """The process that was thought dead and comes back with a result changes nothing any more."""
    effect_id = rt.ref("Till", "a").pay_with_recovery(amount=5)
    row = crashing.claim()
    crashing.silence()
    crashing.recover()
    crashing.dead.effects._execute(row)
    crashing.alive.settle()

    assert rt.ref("Till", "a").log == ["retired 5"]
    assert find_effect(rt, effect_id).result is None


def test_late_failure_of_a_retired_effect(rt: RuntimeUnderTest, crashing: Crashing, outside: Outside) -> None:
    """A late failure does not make a retired effect run again."""
    effect_id = rt.ref("Till", "a").pay_with_recovery(amount=5)
    row = crashing.claim()
    crashing.silence()
    crashing.recover()
    outside.answer = _fails
    crashing.dead.effects._execute(row)
    crashing.alive.settle()

    assert (find_effect(rt, effect_id).status, len(outside.calls)) == ("completed", 1)


def test_fresh_heartbeat_keeps_it(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """An effect whose process gives signs of life is not retired."""
    effect_id = rt.ref("Till", "a").pay_with_recovery(amount=5)
    crashing.claim()
    crashing.recover()

    assert find_effect(rt, effect_id).status == "processing"


def test_longer_timeout_is_respected(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """A recovery_timeout beyond the threshold keeps an effect of a silent process for that long."""
    effect_id = rt.ref("Till", "a").pay_with_recovery(amount=5, timeout=7200.0)
    crashing.claim()
    crashing.silence(3600)
    crashing.recover()
    assert find_effect(rt, effect_id).status == "processing"

    crashing.silence(7300)
    crashing.recover()
    assert find_effect(rt, effect_id).status == "completed"


def test_shorter_timeout_is_the_threshold(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """A recovery_timeout below the threshold does not retire an effect before it."""
    effect_id = rt.ref("Till", "a").pay_with_recovery(amount=5, timeout=1.0)
    crashing.claim()
    crashing.silence(30)
    crashing.recover()

    assert find_effect(rt, effect_id).status == "processing"


def test_pruned_process_counts_as_dead(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """An effect whose process has no row any more is retired."""
    rt.ref("Till", "a").pay_with_recovery(amount=5)
    crashing.claim()
    process_id = crashing.dead.effects.registration.id
    execute(rt, "DELETE FROM solid_objects_processes WHERE id = :id", id=process_id)
    crashing.recover()
    crashing.alive.settle()

    assert rt.ref("Till", "a").log == ["retired 5"]


def test_many_suspects_are_all_looked_at(
    rt: RuntimeUnderTest, crashing: Crashing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspects that may wait longer do not hide those behind them, however many there are."""
    monkeypatch.setattr("flask_solid_objects.runtime.recovering._AT_ONCE", 2)
    for number in range(5):
        rt.ref("Till", "a").pay_with_recovery(amount=number, timeout=7200.0 if number < 4 else None)
    for _ in range(5):
        crashing.claim()
    crashing.silence(3600)
    crashing.recover()
    crashing.alive.settle()

    assert rt.ref("Till", "a").log == ["retired 4"]


# -- not opted in ------------------------------------------------------------------------------


def test_effect_of_a_dead_process_runs_again(rt: RuntimeUnderTest, crashing: Crashing, outside: Outside) -> None:
    """An effect that did not opt in returns to pending with its attempt counted, and is run by another."""
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    crashing.claim()
    crashing.silence()
    crashing.recover()
    row = find_effect(rt, effect_id)

    assert (row.status, row.attempts, row.claimed_by) == ("pending", 1, None)
    crashing.alive.settle()
    assert [context.attempt for context, _ in outside.calls] == [2]
    assert outside.ids == [effect_id]


def test_late_end_of_an_effect_that_was_taken(rt: RuntimeUnderTest, crashing: Crashing, outside: Outside) -> None:
    """The process that was thought dead and comes back after another's end adds nothing to it."""
    rt.ref("Till", "a").pay(amount=5)
    row = crashing.claim()
    crashing.silence()
    crashing.recover()
    outside.answer = lambda context, amount: f"attempt {context.attempt}"
    crashing.alive.settle()
    crashing.dead.effects._execute(row)
    crashing.alive.settle()

    assert len(outside.calls) == 2
    assert rt.ref("Till", "a").log == ["attempt 2"]


def test_exhausted_effect_is_dead(rt: RuntimeUnderTest, crashing: Crashing, outside: Outside) -> None:
    """An effect whose every attempt ended with its process is dead with the class CrashedWorker, and is not run."""
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    for _ in range(2):
        crashing.claim()
        crashing.silence()
        crashing.recover()
        crashing.dead.effects.registration.forget()
    crashing.alive.settle()
    row = find_effect(rt, effect_id)

    assert (row.status, row.attempts, outside.calls) == ("dead", 2, [])
    error = error_of(rt, effect_id)
    assert (error["class"], error["outcome"]) == ("CrashedWorker", "unknown")
    assert rt.ref("Till", "a").log == ["declined 5: CrashedWorker"]


def test_leaving_process_hands_back_uncounted(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """An effect of a process that left in good order returns to pending, uncounted."""
    effect_id = rt.ref("Till", "a").pay_quietly(amount=5)
    crashing.claim()
    process_id = crashing.dead.effects.registration.id
    Deregistration(rt.runtime.core).deregister(process_id, crashed=False)
    row = find_effect(rt, effect_id)

    assert (row.status, row.attempts) == ("pending", 0)


def _fails(context: EffectContext, amount: int) -> str:
    raise RuntimeError("outside")
