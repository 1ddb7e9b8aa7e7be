"""Reminders that ring while they are cancelled, moved or destroyed, under many schedulers, and after crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import URL, Engine, text

from flask_solid_objects.errors import CommitUnknown
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.crashing import crash
from tests.runtime.outboxes import child
from tests.runtime.outboxes.actors import Alarm, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.looking import Beside

MakeRoles = Callable[[RuntimeUnderTest], Roles]
ALL = (Till, Sender, Receiver, Alarm)
HOUR = 3600.0
LOST = ConnectionResetError("the connection is gone")
# What makes a ringing out of date, as a verb of the alarm with its arguments.
CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("disarm", {}),
    ("disarm_all", {}),
    ("arm", {"delay": HOUR}),
    ("cancel_then_arm", {"delay": HOUR}),
]


@pytest.fixture(autouse=True)
def watched(invariants_beside: None) -> None:
    """Nothing else: the checker runs as long as the test."""


@pytest.fixture
def alarm(rt: RuntimeUnderTest) -> Any:
    return rt.ref("Alarm", "a")


def messages(rt: RuntimeUnderTest, engine: Engine, operation: str = "ring") -> list[str]:
    """The status of each message of an operation, in order."""
    found = text("SELECT id FROM solid_objects_messages WHERE operation = :operation ORDER BY id")
    with engine.connect() as connection:
        ids = list(connection.execute(found, {"operation": operation}).scalars())
    records = [rt.database.read(lambda tx, each=each: rt.store.mailbox.find(tx, each)) for each in ids]  # type: ignore[misc]
    return [record.status.value for record in records if record is not None]


@pytest.mark.parametrize(("verb", "arguments"), CHANGES)
def test_change_before_the_ringing_locks(
    rt: RuntimeUnderTest,
    roles: Roles,
    alarm: Any,
    checkpoints: HeldCheckpoints,
    engine: Engine,
    verb: str,
    arguments: dict[str, Any],
) -> None:
    """A reminder that is cancelled or moved after it was seen due, and before it rings, does not ring."""
    alarm.arm(delay=0.0)
    with checkpoints.hold("reminder.due") as hold:
        ringing = Beside(roles.scheduler.run_once)
        hold.wait_reached()
        getattr(alarm, verb)(**arguments)
        hold.release()
        ringing.join()
    roles.settle()

    assert (messages(rt, engine), alarm.rung) == ([], [])


@pytest.mark.parametrize(("verb", "arguments"), CHANGES)
def test_change_while_it_rings(
    rt: RuntimeUnderTest,
    roles: Roles,
    alarm: Any,
    checkpoints: HeldCheckpoints,
    engine: Engine,
    verb: str,
    arguments: dict[str, Any],
) -> None:
    """A change that is ordered before the message of a reminder that rings meanwhile makes that message skipped."""
    alarm.arm(delay=0.0)
    getattr(alarm, verb).send(**arguments)
    with checkpoints.hold("reminder.locked") as hold:
        ringing = Beside(roles.scheduler.run_once)
        hold.wait_reached()
        changing = Beside(rt.drain)
        hold.release()
        ringing.join()
        changing.join()
    roles.settle()

    rung = messages(rt, engine)
    assert alarm.rung == []
    assert rung in ([], ["skipped"])


@pytest.mark.parametrize(("verb", "arguments"), CHANGES)
def test_change_after_it_rang(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, engine: Engine, verb: str, arguments: dict[str, Any]
) -> None:
    """A message that has rung and waits is skipped without running when its reminder is cancelled or moved first."""
    alarm.arm(delay=0.0)
    getattr(alarm, verb).send(**arguments)
    assert roles.scheduler.ring_due() == 1
    roles.settle()

    assert (messages(rt, engine), alarm.rung) == (["skipped"], [])


@pytest.mark.parametrize("step", ["reminder.due", "reminder.locked"])
def test_destroy_against_ringing(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, checkpoints: HeldCheckpoints, engine: Engine, step: str
) -> None:
    """An actor that is destroyed while its reminder rings is gone with it, and the scheduler goes on."""
    alarm.arm(delay=0.0)
    with checkpoints.hold(step) as hold:
        ringing = Beside(roles.scheduler.run_once)
        hold.wait_reached()
        destroying = Beside(alarm.destroy)
        if step == "reminder.due":
            destroying.join()
        hold.release()
        ringing.join()
        destroying.join()
    roles.settle()

    with engine.connect() as connection:
        left = connection.execute(text("SELECT count(*) FROM solid_objects_reminders")).scalar_one()
    assert (left, messages(rt, engine), alarm.snapshot().rung) == (0, [], [])


def test_ten_schedulers(rt: RuntimeUnderTest, make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine) -> None:
    """Ten schedulers that find a hundred due reminders make a hundred messages."""
    for number in range(10):
        rt.ref("Alarm", str(number)).arm_many(count=10)
    schedulers = [make_roles(make_runtime(own=ALL)).scheduler for _ in range(10)]

    def ring(roles: Any) -> None:
        while roles.ring_due():
            pass

    working = [Beside(lambda each=each: ring(each)) for each in schedulers]  # type: ignore[misc]
    for each in working:
        each.join()
    rt.drain()

    assert messages(rt, engine) == ["completed"] * 100
    for number in range(10):
        rung = rt.ref("Alarm", str(number)).snapshot().rung
        assert sorted(rung, key=int) == [str(key) for key in range(10)]


@pytest.mark.parametrize("when", ["committing", "acknowledging"])
def test_unknown_commit_rings_once(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, checkpoints: HeldCheckpoints, engine: Engine, when: str
) -> None:
    """A ringing whose commit is unknown makes one message in the end."""
    alarm.arm(delay=0.0)
    checkpoints.fail(f"ring.{when}", LOST)
    if when == "acknowledging":
        with pytest.raises(CommitUnknown):
            roles.scheduler.run_once()
    roles.settle()

    assert (messages(rt, engine), alarm.rung) == (["completed"], ["ring"])


@pytest.mark.parametrize("step", ["reminder.due", "ring.committing", "ring.acknowledging", "ring.committed"])
def test_killed_scheduler(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, database_url: URL, engine: Engine, step: str
) -> None:
    """A scheduler that is killed at any step of a ringing loses nothing and doubles nothing."""
    alarm.arm(delay=0.0)
    crash(database_url, "scheduler", step, main=child.main)

    assert len(messages(rt, engine)) == (step in ("ring.acknowledging", "ring.committed"))
    roles.settle()
    assert (messages(rt, engine), alarm.rung) == (["completed"], ["ring"])
