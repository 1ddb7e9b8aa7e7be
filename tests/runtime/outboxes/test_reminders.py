"""Reminders: armed, moved and cancelled with a turn, rung once when due, and seen by the code of their actor."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import Rejected
from flask_solid_objects.store.reminders import ReminderRow
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Roles
from tests.runtime.outboxes.looking import make_due

MakeRoles = Callable[[RuntimeUnderTest], Roles]
HOUR = 3600.0


@pytest.fixture
def alarm(rt: RuntimeUnderTest) -> Any:
    return rt.ref("Alarm", "a")


def rows(rt: RuntimeUnderTest) -> list[ReminderRow]:
    """All reminders, by id."""
    page = rt.store.reminders.page
    return rt.database.read(lambda tx: page(tx, actor_type=None, status=None, after=0, most=200))


def row(rt: RuntimeUnderTest) -> ReminderRow:
    """The only reminder that there is."""
    (found,) = rows(rt)
    return found


def test_one_shot_rings_once(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """A reminder without a recurrence rings once when it is due, and is completed."""
    alarm.arm(delay=HOUR)
    due_at = row(rt).due_at
    early = roles.scheduler.ring_due(due_at - timedelta(seconds=1))
    rung = [roles.scheduler.ring_due(due_at) for _ in range(2)]
    rt.drain()

    assert (early, rung) == (0, [1, 0])
    assert alarm.rung == ["ring"]
    assert (row(rt).reminder.status, row(rt).reminder.occurrence) == ("completed", 1)


def test_keys_are_reminders_of_their_own(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """Reminders of one operation with different keys, and the one without a key, ring each for itself."""
    for key in (None, "x", "y"):
        alarm.arm(delay=0.0, key=key, note=str(key))
    roles.settle()

    assert sorted(alarm.rung) == ["None", "x", "y"]


def test_arming_again_moves_it(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """A reminder that is armed again is the same one, at another time, in its next generation."""
    alarm.arm(delay=0.0, note="first")
    first = row(rt)
    alarm.arm(delay=HOUR, note="second")
    second = row(rt)
    roles.scheduler.ring_due()
    rt.drain()

    assert (second.id, second.generation) == (first.id, first.generation + 1)
    assert alarm.rung == []
    roles.scheduler.ring_due(second.due_at)
    rt.drain()
    assert alarm.rung == ["second"]


def test_rung_one_shot_can_be_armed_again(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """A reminder that has rung for good rings again when it is armed anew."""
    for note in ("one", "two"):
        alarm.arm(delay=0.0, note=note)
        roles.settle()

    assert alarm.rung == ["one", "two"]
    assert (row(rt).reminder.occurrence, row(rt).generation) == (2, 1)


def test_unschedule(rt: RuntimeUnderTest, alarm: Any) -> None:
    """Cancelling removes the reminder of that key only; there need not be one."""
    for key in (None, "x", "y"):
        alarm.arm(delay=HOUR, key=key)
    alarm.disarm(key="x")
    alarm.disarm(key="unknown")

    assert [each.reminder.key for each in rows(rt)] == [None, "y"]


def test_unschedule_all(rt: RuntimeUnderTest, alarm: Any) -> None:
    """Cancelling all of an operation leaves none, whatever its key."""
    for key in (None, "x", "y"):
        alarm.arm(delay=HOUR, key=key)
    alarm.disarm_all()

    assert rows(rt) == []


def test_arm_and_cancel_in_one_turn(rt: RuntimeUnderTest, alarm: Any) -> None:
    """What a turn arms and then cancels is not there, for the turn itself and after it."""
    assert alarm.arm_then_cancel(delay=0.0) == 0
    assert rows(rt) == []


def test_cancel_and_arm_in_one_turn(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """What a turn cancels and then arms is a new reminder that has never rung, for the turn itself and after it."""
    alarm.arm(delay=0.0)
    roles.settle()

    assert alarm.cancel_then_arm(delay=HOUR) == 0
    assert (row(rt).reminder.occurrence, row(rt).reminder.status) == (0, "scheduled")


def test_cancel_all_and_arm_in_one_turn(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """A turn that cancels all and arms one sees that one, and that one rings."""
    alarm.arm(delay=HOUR, key="old")

    assert alarm.rearm(delay=0.0) == ["ring"]
    roles.settle()
    assert alarm.rung == ["again"]


def test_turn_that_does_not_commit_arms_nothing(rt: RuntimeUnderTest, alarm: Any) -> None:
    """A rejected turn arms nothing."""
    with pytest.raises(Rejected):
        alarm.arm_and_raise()

    assert rows(rt) == []


def test_reads_of_committed_reminders(rt: RuntimeUnderTest, alarm: Any) -> None:
    """A query sees a committed reminder with its time, and none under another key."""
    alarm.arm(delay=HOUR, key="x")

    assert HOUR - 60 < alarm.due_in(key="x") <= HOUR
    assert alarm.due_in(key="y") is None


def test_reads_are_ordered_by_time(alarm: Any) -> None:
    """The reminders of an operation are listed with the next one first."""
    for delay in (300.0, 100.0, 200.0):
        alarm.arm(delay=delay, key=str(delay))

    assert alarm.look() == ["100.0", "200.0", "300.0"]


def test_missed_latest(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """Of occurrences that were missed one rings, which knows how many it stands for, and the next is in the future."""
    alarm.arm_every(every=60.0)
    due_at = row(rt).due_at
    rung = [roles.scheduler.ring_due(due_at + timedelta(seconds=330)) for _ in range(2)]
    rt.drain()

    assert rung == [1, 0]
    assert alarm.contexts == [{"missed": 5, "due_at": due_at.isoformat()}]
    assert row(rt).due_at == due_at + timedelta(seconds=360)


def test_missed_all(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """With missed="all" every occurrence that was missed rings, each with its own time."""
    alarm.arm_every(every=60.0, missed="all")
    due_at = row(rt).due_at
    rung = [roles.scheduler.ring_due(due_at + timedelta(seconds=150)) for _ in range(4)]
    rt.drain()

    assert rung == [1, 1, 1, 0]
    times = [(due_at + timedelta(seconds=60 * number)).isoformat() for number in range(3)]
    assert alarm.contexts == [{"missed": 0, "due_at": time} for time in times]


def test_cron_rings_in_its_zone(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """A cron expression is read in its zone, and after ringing the next day's time is next."""
    zone = ZoneInfo("Europe/Berlin")
    first = datetime.fromisoformat(alarm.arm_cron(cron="30 9 * * *", timezone="Europe/Berlin")).astimezone(zone)
    roles.scheduler.ring_due(first)
    second = row(rt).due_at.astimezone(zone)

    assert [(each.hour, each.minute) for each in (first, second)] == [(9, 30)] * 2
    assert second.date() - first.date() == timedelta(days=1)


def test_late_reminder_rings_after_a_restart(
    rt: RuntimeUnderTest, make_runtime: MakeRuntime, make_roles: MakeRoles, alarm: Any, engine: Engine
) -> None:
    """What was due while nobody ran rings when somebody does, and knows when it was due."""
    alarm.arm(delay=HOUR)
    make_due(engine, "reminders", "next_run_at")
    rt.close()
    again = make_runtime(own=(Alarm,))
    make_roles(again).settle()

    assert again.ref("Alarm", "a").contexts == [{"missed": 0, "due_at": "2020-01-01T00:00:00+00:00"}]


def test_trailing_spaces_tell_keys_apart(rt: RuntimeUnderTest, roles: Roles, alarm: Any) -> None:
    """Keys that differ in trailing spaces or in case are different reminders."""
    keys = ["k", "k ", "k  ", "K"]
    for key in keys:
        alarm.arm(delay=HOUR, key=key)
    alarm.disarm(key="k ")

    assert [each.reminder.key for each in rows(rt)] == ["k", "k  ", "K"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "TypeError: Alarm.ring.schedule() needs to know when: .using(at=, delay=, every= or cron=)."),
        ({"delay": -1}, "ValueError: delay must be from 0 seconds to 100 years, not -1."),
        ({"at": "2030-01-01T00:00:00"}, "ValueError: at has no time zone; use datetime.now(UTC) or give it tzinfo=."),
        (
            {"at": "2030-01-01T00:00:00Z", "delay": 1},
            "TypeError: delay and at exclude each other: one is from now on, the other a time.",
        ),
        (
            {"every": 0},
            "ValueError: every must be from 1 millisecond to 100 years, not 0; give seconds or a timedelta.",
        ),
        ({"every": 60, "cron": "* * * * *"}, "TypeError: every and cron exclude each other; give one of them."),
        ({"delay": 1, "timezone": "Europe/Berlin"}, "TypeError: timezone belongs to cron=; leave it out."),
        ({"delay": 1, "missed": "all"}, "TypeError: missed belongs to recurring reminders: every= or cron=."),
        ({"every": 1, "missed": "some"}, 'ValueError: missed must be "latest" or "all", not \'some\'.'),
        (
            {"cron": "* * * *"},
            "ValueError: cron='* * * *' has 4 fields; give five: minute, hour, day of month, month, day of week.",
        ),
        (
            {"delay": 1, "key": "k" * 187},
            "ValueError: key is too long: with the operation's name, 190 characters are possible.",
        ),
        ({"delay": 1, "key": ""}, "ValueError: key has 0 characters; 1 to 191 are possible."),
        ({"delay": 1, "key": "k" * 186}, "nothing"),
        ({"delay": 1, "key": "\N{ALARM CLOCK}\N{GRINNING FACE}" * 93}, "nothing"),
        ({"at": "2000-01-01T00:00:00Z"}, "nothing"),
    ],
)
def test_options_are_checked(rt: RuntimeUnderTest, alarm: Any, options: dict[str, Any], complaint: str) -> None:
    """Times, recurrences and keys that cannot be are refused where they are given, and nothing is armed."""
    assert alarm.try_arm(options=options) == complaint
    assert len(rows(rt)) == (complaint == "nothing")
