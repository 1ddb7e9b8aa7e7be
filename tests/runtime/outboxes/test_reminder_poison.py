"""Reminders that cannot ring: they back off, say why, die after their attempts, and are in nobody's way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.store.reminders import ReminderRow
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Roles
from tests.runtime.outboxes.looking import errors, make_due

MakeRoles = Callable[[RuntimeUnderTest], Roles]


class Bell(Alarm):
    """Another type, whose reminders are in order."""


class Silent(Actor):
    """An alarm of a process that runs other code, which does not know ``ring``."""


Silent.__name__ = "Alarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """What makes a reminder impossible: the process that would ring it, or a change behind its back."""

    error: str
    own: tuple[type[Actor], ...]
    limit: int = 10
    change: str | None = None
    least_pause: float = 0.0


POISONS = [
    Poison(error="UnknownOperation", own=(Silent, Bell)),
    Poison(error="UnknownActorType", own=(Bell,), least_pause=50.0),
    Poison(error="MailboxFull", own=(Alarm, Bell), limit=1),
    Poison(error="ZoneInfoNotFoundError", own=(Alarm, Bell), change="timezone = 'Gone/Zone', cron = '0 9 * * *'"),
]


def poisoned(rt: RuntimeUnderTest) -> ReminderRow:
    """The reminder of the alarm."""
    page = rt.store.reminders.page
    (found,) = rt.database.read(lambda tx: page(tx, actor_type="Alarm", status=None, after=0, most=9))
    return found


@pytest.fixture(params=POISONS, ids=lambda poison: poison.error)
def poison(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def ringing(make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine, poison: Poison) -> Roles:
    """Roles of a process for which the alarm's reminder is poison; it is due, before a bell's."""
    rt = make_runtime(own=(Alarm, Bell))
    alarm = rt.ref("Alarm", "a")
    alarm.arm(delay=0.0)
    if poison.limit == 1:
        alarm.disarm.send(key="nothing")
    if poison.change is not None:
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE solid_objects_reminders SET {poison.change}"))
    rt.ref("Bell", "b").arm(delay=0.0)
    return make_roles(make_runtime(own=poison.own, max_mailbox_length=poison.limit, max_attempts=3))


def test_others_ring_meanwhile(ringing: Roles, poison: Poison, engine: Engine) -> None:
    """A poison reminder backs off with its error, and the one behind it rings in the same pass."""
    before = poisoned(ringing.rt)
    ringing.scheduler.ring_due()
    after = poisoned(ringing.rt)
    ringing.rt.drain()

    assert errors(engine, "reminders") == [poison.error, None]
    assert (after.attempts, after.due_at, after.reminder.status) == (1, before.due_at, "scheduled")
    pause = after.reminder.next_run_at - before.reminder.next_run_at
    assert pause.total_seconds() >= poison.least_pause
    assert ringing.rt.ref("Bell", "b").rung == ["ring"]


def test_dead_after_its_attempts(ringing: Roles, poison: Poison, engine: Engine) -> None:
    """A poison reminder is dead after its attempts, and still says why and when it was meant."""
    before = poisoned(ringing.rt)
    for _ in range(5):
        ringing.scheduler.ring_due()
        make_due(engine, "reminders", "next_run_at")
    after = poisoned(ringing.rt)

    assert (after.attempts, after.reminder.status, after.due_at) == (3, "dead", before.due_at)
    assert errors(engine, "reminders")[0] == poison.error


@pytest.mark.parametrize("poison", POISONS[:3], indirect=True, ids=lambda poison: poison.error)
def test_rings_at_last_with_its_own_time(
    ringing: Roles, make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine
) -> None:
    """A reminder that was postponed and can ring again tells the time that it was meant for."""
    before = poisoned(ringing.rt)
    ringing.scheduler.ring_due()
    make_due(engine, "reminders", "next_run_at")
    rt = make_runtime(own=(Alarm, Bell))
    make_roles(rt).settle()
    (context,) = rt.ref("Alarm", "a").contexts

    assert datetime.fromisoformat(context["due_at"]) == before.due_at
    assert (poisoned(ringing.rt).attempts, errors(engine, "reminders")[0]) == (0, None)
