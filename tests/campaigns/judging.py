"""What a campaign must have left: each operation once, in order, with its result, and nobody who complained."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Engine, select

from flask_solid_objects.store.tables import Tables

# What a process may print when another one was killed. All else is a complaint: an error of user code, a role that
# failed or paused, a deadlock, a locked file, a turn that lost its lease although its process lived.
_EXPECTED = ("issued", "stopped", "Stopping; ", "recovery.reclaimed ", "process.pruned ", "send.no_worker ")


def complaints(lines: Iterable[str]) -> list[str]:
    """The lines that nothing in a campaign gives a reason for."""
    return [line[:600] for line in lines if line.strip() and not line.startswith(_EXPECTED)]


def judge(engine: Engine, tables: Tables, operations: int) -> tuple[list[str], int]:
    """What is wrong with what is stored, and how many attempts were made beyond the first ones."""
    problems, entries, repeated = [], list[str](), 0
    with engine.connect() as connection:
        for row in connection.execute(select(tables.instances.c.id, tables.instances.c.state)).all():
            state = decoded(row.state)
            ordered, results, extra = _messages_of(connection, tables, row.id)
            repeated += extra
            entries += state["entries"]
            if state["entries"] != ordered:
                problems.append(f"actor {row.id}: committed {state['entries']}, in sequence {ordered}")
            if results != list(range(1, len(ordered) + 1)):
                problems.append(f"actor {row.id}: the stored results are {results}")
            if state["total"] != len(ordered):
                problems.append(f"actor {row.id}: a total of {state['total']} for {len(ordered)} operations")
        left = (tables.ready_messages, tables.claimed_messages, tables.dead_letters)
        full = [table.name for table in left if connection.execute(select(table.c.id).limit(1)).first() is not None]
        problems += [f"{name} is not empty" for name in full]
    if sorted(entries, key=int) != [str(number) for number in range(operations)]:
        problems.append(f"{len(entries)} commits, {len(set(entries))} different, of {operations} operations")
    return problems, repeated


def _messages_of(connection: Connection, tables: Tables, instance_id: int) -> tuple[list[str], list[Any], int]:
    messages = tables.messages
    query = (
        select(messages.c.arguments, messages.c.result, messages.c.attempt_count)
        .where(messages.c.instance_id == instance_id)
        .order_by(messages.c.sequence)
    )
    rows = connection.execute(query).all()
    extra = sum(row.attempt_count - 1 for row in rows)
    return [decoded(row.arguments)["entry"] for row in rows], [decoded(row.result) for row in rows], extra


def decoded(stored: Any) -> Any:
    """A JSON column, which MySQL gives as text."""
    return json.loads(stored) if isinstance(stored, str) else stored
