"""Bounded looks at what an actor has waiting: so many times of each source, and never a row's content.

The oldest rows of a source come first, by the order in which they were made.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Table, bindparam, or_, select

from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction

# The keys of messages that tell an actor of its abandoned effect.
_RECOVERY = "effect:%:recovery"


class Samples:
    """Reads for diagnostics; each source is one statement, and nothing is locked."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        t, self._dialect = tables, dialect
        ready, claimed, effects, broadcasts = t.ready_messages, t.claimed_messages, t.effects, t.broadcasts
        reminders, dead, m = t.reminders, t.dead_letters, t.messages
        recovery = select(m.c.id).where(
            m.c.id == dead.c.message_id,
            m.c.delivery_mode == "internal",
            m.c.idempotency_key.like(bindparam("recovery", type_=m.c.idempotency_key.type)),
        )
        self._sources: dict[str, list[Statement]] = {
            "mailbox": [
                self._times(ready, ready.c.available_at, order=ready.c.sequence),
                self._times(claimed, claimed.c.claimed_at),
            ],
            "outbox": [
                self._times(effects, effects.c.available_at, _is_one_of(effects.c.status, "pending", "processing")),
                self._times(
                    broadcasts, broadcasts.c.available_at, _is_one_of(broadcasts.c.status, "pending", "processing")
                ),
            ],
            "reminders": [
                self._times(reminders, reminders.c.next_run_at, _is_one_of(reminders.c.status, "scheduled", "paused"))
            ],
            "retries": [self._times(ready, ready.c.available_at, ready.c.blocking.is_(True), order=ready.c.sequence)],
            "recovery_failures": [self._times(dead, dead.c.last_failed_at, recovery.exists())],
        }

    def take(self, tx: Transaction, source: str, instance_id: int, most: int) -> list[datetime]:
        """When what waits was due, or failed: up to ``most`` times of each table of a source."""
        given = {"recovery": self._dialect.encode_text(_RECOVERY)} if source == "recovery_failures" else {}
        found = [
            self._dialect.decode_time(row[0])
            for statement in self._sources[source]
            for row in tx.rows(statement, instance_id=instance_id, most=most, **given)
        ]
        return [each for each in found if each is not None]

    def _times(
        self,
        table: Table,
        time: ColumnElement[datetime],
        *only: ColumnElement[bool],
        order: ColumnElement[int] | None = None,
    ) -> Statement:
        rows = select(time).where(table.c.instance_id == bindparam("instance_id"), *only)
        return self._dialect.compile(rows.order_by(table.c.id if order is None else order).limit(bindparam("most")))


def _is_one_of(column: ColumnElement[str], *values: str) -> ColumnElement[bool]:
    return or_(*(column == value for value in values))
