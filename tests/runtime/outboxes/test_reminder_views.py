"""Reminders as hooks, observables and snapshots of their actor see them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.actors.observable import observable
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.errors import MessageFailed
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm

HOUR = 3600.0


class Watchful(Alarm):
    """Looks at its reminders wherever its code runs."""

    seen: list[int] = []

    @observable
    def armed(self) -> int:
        return len(self.ring.reminders())

    def on_activate(self) -> None:
        self.ring.using(delay=HOUR, key="hook").schedule(note="hook")
        self.seen.append(len(self.ring.reminders()))

    @operation
    def count_seen(self) -> list[int]:
        return [*self.seen, len(self.ring.reminders())]


class Meddling(Alarm):
    """Has an observable that schedules."""

    @observable
    def armed(self) -> str:
        return self.ring.using(delay=HOUR).schedule(note="x").operation


@pytest.fixture
def rt(make_runtime: MakeRuntime) -> RuntimeUnderTest:
    return make_runtime(own=(Watchful, Meddling))


@pytest.fixture
def actor(rt: RuntimeUnderTest) -> Any:
    return rt.ref("Watchful", "a")


def told(engine: Engine) -> list[tuple[str, int]]:
    """The observables that were told of, with their revisions."""
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT observable_name, revision FROM solid_objects_broadcasts ORDER BY revision, observable_name")
        )
        return [(name, revision) for name, revision in found]


def test_hook_sees_what_it_stages(actor: Any) -> None:
    """on_activate sees the reminder that it arms itself, and the turn after it sees it too."""
    assert actor.count_seen() == [1, 1]


def test_hook_sees_committed_ones(actor: Any) -> None:
    """on_activate sees what earlier turns have armed."""
    actor.arm(delay=HOUR, key="x")

    assert actor.count_seen() == [1, 2, 2]


def test_observable_sees_this_turn(actor: Any, engine: Engine) -> None:
    """An observable of reminders changes with the turn that arms or cancels one, and only then."""
    actor.arm(delay=HOUR, key="x")
    actor.arm(delay=2 * HOUR, key="x")
    actor.disarm(key="x")

    assert [name for name, _ in told(engine)] == ["armed", "armed"]
    assert [revision for _, revision in told(engine)] == [1, 3]


def test_ordered_read_of_an_observable(actor: Any) -> None:
    """An observable of reminders that is read in order sees the committed ones."""
    actor.arm(delay=HOUR, key="x")

    # The hook's own goes with a turn that changes something; a read changes nothing.
    assert actor.armed == 2


def test_snapshot_sees_committed_ones(actor: Any) -> None:
    """The observables of a snapshot see the committed reminders; an actor that was never used has none."""
    before = actor.snapshot().armed
    actor.arm(delay=HOUR, key="x")

    assert (before, actor.snapshot().armed) == (0, 2)


def test_observable_must_not_schedule(rt: RuntimeUnderTest, engine: Engine) -> None:
    """An observable that arms a reminder fails, and nothing is armed."""
    with pytest.raises(Exception, match="Meddling") as raised:
        rt.ref("Meddling", "a").arm(delay=HOUR)

    assert not isinstance(raised.value, MessageFailed)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM solid_objects_reminders")).scalar_one() == 0
