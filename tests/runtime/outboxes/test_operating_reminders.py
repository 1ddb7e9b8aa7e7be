"""What operators do with reminders: pause, resume, ring at once, cancel, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import (
    MailboxFull,
    ReminderCompleted,
    UnknownReminder,
)
from flask_solid_objects.runtime.operators import Operators
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Outside, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.looking import Beside
from tests.runtime.outboxes.operating import (
    actions,
    events,
    kill,
    only_reminder,
)

ALL = (Till, Sender, Receiver, Alarm)
HOUR = 3600.0


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=ALL, max_attempts=1)


@pytest.fixture
def operators(rt: RuntimeUnderTest) -> Operators:
    return rt.runtime.operators


@pytest.fixture
def alarm(rt: RuntimeUnderTest) -> Any:
    return rt.ref("Alarm", "a")


def status_of(rt: RuntimeUnderTest, reminder_id: int) -> str:
    (row,) = [row for row in rt.runtime.operators.reminders.list() if row.id == reminder_id]
    return row.reminder.status


def test_reminders_are_listed_by_id(rt: RuntimeUnderTest, operators: Operators) -> None:
    """Reminders are listed after an id, by type and status."""
    for actor in ("a", "b", "c"):
        rt.ref("Alarm", actor).arm(delay=HOUR)
    first, second, third = operators.reminders.list()
    operators.reminders.pause(second.id)

    assert [row.id for row in operators.reminders.list(after=first.id, most=1)] == [second.id]
    assert [row.id for row in operators.reminders.list(actor_type="Alarm", status="scheduled")] == [first.id, third.id]
    assert operators.reminders.list(actor_type="Till") == []


def test_paused_reminder_does_not_ring(rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators) -> None:
    """A paused reminder does not ring when it is due, and rings late when it is resumed."""
    alarm.arm(delay=0.0)
    reminder_id = only_reminder(rt)

    assert operators.reminders.pause(reminder_id) is True
    assert operators.reminders.pause(reminder_id) is False
    roles.settle()
    assert alarm.rung == []
    assert operators.reminders.resume(reminder_id) is True
    assert operators.reminders.resume(reminder_id) is False
    roles.settle()
    assert alarm.rung == ["ring"]


def test_dead_reminder_is_revived(rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators) -> None:
    """Resuming a dead reminder forgets its attempts and its error, and it rings."""
    alarm.arm(delay=0.0)
    kill(rt, "reminders")
    reminder_id = only_reminder(rt)

    assert operators.reminders.pause(reminder_id) is False
    assert operators.reminders.resume(reminder_id) is True
    assert [(row.attempts, row.error) for row in operators.reminders.list()] == [(0, None)]
    roles.settle()
    assert alarm.rung == ["ring"]


def test_one_shot_that_is_run_is_completed(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators
) -> None:
    """A one-shot that is run now rings once and is completed, with the time of the act as its time."""
    alarm.arm(delay=HOUR)
    reminder_id, before = only_reminder(rt), datetime.now(UTC)
    message = operators.reminders.run_now(reminder_id)
    roles.settle()

    assert (message.actor_id, status_of(rt, reminder_id), alarm.rung) == ("a", "completed", ["ring"])
    assert abs(datetime.fromisoformat(alarm.contexts[0]["due_at"]) - before).total_seconds() < 60


def test_recurring_one_that_is_run_keeps_its_time(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators
) -> None:
    """A recurring reminder that is run now rings once more, and its row stays as it is, also while it is paused."""
    alarm.arm_every(every=HOUR, delay=HOUR)
    reminder_id, (row,) = only_reminder(rt), operators.reminders.list()
    operators.reminders.run_now(reminder_id)
    operators.reminders.pause(reminder_id)
    operators.reminders.run_now(reminder_id)
    operators.reminders.resume(reminder_id)
    roles.settle()

    assert alarm.rung == ["tick", "tick"]
    assert operators.reminders.list() == [row]


def test_completed_reminder(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators, engine: Engine
) -> None:
    """A completed reminder can only be cancelled; everything else is a clear error that is not recorded."""
    alarm.arm(delay=0.0)
    roles.settle()
    reminder_id = only_reminder(rt)

    for act in (operators.reminders.pause, operators.reminders.resume, operators.reminders.run_now):
        with pytest.raises(ReminderCompleted, match="rung for the last time"):
            act(reminder_id)
    assert events(engine) == []
    operators.reminders.cancel(reminder_id)
    assert (operators.reminders.list(), actions(engine)) == ([], ["reminder.cancel"])


def test_message_of_a_cancelled_reminder_is_skipped(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators
) -> None:
    """What a reminder had rung before an operator cancelled it does not run."""
    alarm.arm(delay=0.0)
    reminder_id = only_reminder(rt)
    roles.scheduler.run_once()
    operators.reminders.cancel(reminder_id)
    roles.settle()

    assert alarm.rung == []


def test_unknown_reminder(operators: Operators, engine: Engine) -> None:
    """Each act on a reminder that is not there is an error that is not recorded."""
    reminders = operators.reminders
    for act in (reminders.pause, reminders.resume, reminders.run_now, reminders.cancel):
        with pytest.raises(UnknownReminder, match="no reminder 7"):
            act(7)

    assert events(engine) == []


def test_full_mailbox_refuses_the_ringing(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A reminder that is run into a full mailbox stays as it is, and nothing is recorded."""
    rt = make_runtime(own=ALL, max_mailbox_length=1)
    rt.ref("Alarm", "a").arm(delay=HOUR)
    rt.ref("Alarm", "a").look.send()
    (row,) = rt.runtime.operators.reminders.list()
    with pytest.raises(MailboxFull):
        rt.runtime.operators.reminders.run_now(row.id)

    assert (rt.runtime.operators.reminders.list(), events(engine)) == ([row], [])


def test_cancelled_while_the_operator_waits(
    rt: RuntimeUnderTest, alarm: Any, operators: Operators, checkpoints: HeldCheckpoints, engine: Engine
) -> None:
    """An act that waited for a turn which cancelled the reminder finds that out."""
    alarm.arm(delay=HOUR)
    reminder_id, found = only_reminder(rt), list[BaseException]()

    def pause() -> None:
        with pytest.raises(UnknownReminder) as raised:
            operators.reminders.pause(reminder_id)
        found.append(raised.value)

    with checkpoints.hold("commit.committing") as hold:
        turn = Beside(alarm.disarm)
        hold.wait_reached()
        pausing = Beside(pause)
        hold.release()
        turn.join()
        pausing.join()

    assert (len(found), events(engine)) == (1, [])
