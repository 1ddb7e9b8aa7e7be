"""Outboxes with dead rows, and the events of the acts on them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, text

from flask_solid_objects.runtime.redriving import Redriving
from flask_solid_objects.store.effects import EffectRow
from flask_solid_objects.store.redrives import Redrive
from flask_solid_objects.values import Access
from tests.actors import RuntimeUnderTest
from tests.runtime.outboxes.actors import Outside, Roles
from tests.runtime.outboxes.answers import raises
from tests.runtime.outboxes.rows import execute

KILL = "UPDATE solid_objects_{} SET status = 'dead', attempt_count = 2, error = '{{\"class\":\"X\"}}' WHERE {}"
LOST = ConnectionResetError("the connection is gone")


class Denying:
    """An administration policy that denies some actions, and remembers what it was asked."""

    def __init__(self, *actions: str) -> None:
        self.denied, self.asked = set(actions), list[tuple[str, str | None, str | None]]()

    def __call__(self, access: Access) -> bool:
        self.asked.append((access.action, access.resource, access.resource_id))
        return access.action not in self.denied


def kill_effects(rt: RuntimeUnderTest, roles: Roles, outside: Outside, *actors: str) -> list[str]:
    """One dead effect per actor, whose work works from now on; their ids."""
    outside.answer = raises(RuntimeError("broken"))
    ids = [rt.ref("Till", actor).pay_quietly(amount=number) for number, actor in enumerate(actors)]
    roles.settle()
    outside.answer = lambda context, amount: f"paid {amount}"
    outside.calls.clear()
    return ids


def dead(rt: RuntimeUnderTest, **options: Any) -> list[str]:
    return [row.effect_id for row in rt.runtime.operators.effects.dead(**options)]


def events(engine: Engine) -> list[tuple[str, str, str | None, str | None]]:
    """Action, kind, subject and operator of each event."""
    statement = "SELECT action, kind, subject_id, actor FROM solid_objects_administration_events ORDER BY id"
    with engine.connect() as connection:
        return [(row[0], row[1], row[2], row[3]) for row in connection.execute(text(statement))]


def actions(engine: Engine) -> list[str]:
    return [event[0] for event in events(engine)]


def only_reminder(rt: RuntimeUnderTest) -> int:
    """The id of the only reminder."""
    (row,) = rt.runtime.operators.reminders.list()
    return row.id


def look(rt: RuntimeUnderTest, redrive: Redrive) -> tuple[str, int, int]:
    """How a redrive stands: status, moved, remaining."""
    found = rt.runtime.operators.redrives.find(redrive.id)
    return found.status, found.moved, found.remaining


def stands(row: EffectRow) -> tuple[str, int, str | None]:
    return row.status, row.attempts, row.claimed_by


def kill(rt: RuntimeUnderTest, table: str, condition: str = "1 = 1") -> None:
    """Let rows have died."""
    execute(rt, KILL.format(table, condition))


def broadcast_id(rt: RuntimeUnderTest) -> str:
    """One dead broadcast; its id."""
    rt.ref("Till", "a").add()
    kill(rt, "broadcasts", "observable_name = 'total'")
    (row,) = rt.runtime.operators.broadcasts.dead()
    return row.broadcast_id


def runner_of(rt: RuntimeUnderTest) -> Redriving:
    return Redriving(rt.runtime.core, rt.runtime.wake_ups)


def finish(runner: Redriving) -> int:
    """Run until nothing is left; how many steps that were."""
    for steps in range(100):
        if not runner.step():
            return steps
    raise AssertionError("still busy after 100 steps")
