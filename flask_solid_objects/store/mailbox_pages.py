"""What waits and what runs, over all actors: the messages that are due longest come first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, select, tuple_

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.windows import Page, place_of
from flask_solid_objects.values import ActorKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A message in a mailbox; ``since`` is when it is due, or was claimed."""

    message_id: int
    key: ActorKey
    sequence: int
    operation: str
    attempts: int
    since: datetime
    is_delayed: bool
    is_blocking: bool
    process_id: str | None


class MailboxPages:
    """Statements that list the mailboxes of all actors for operators."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._dialect = dialect
        m, r, c = tables.messages, tables.ready_messages, tables.claimed_messages
        message = (m.c.id, m.c.actor_type, m.c.actor_id, m.c.sequence, m.c.operation, m.c.attempt_count)
        place = tuple_(r.c.available_at, r.c.instance_id, r.c.sequence)
        after = tuple_(
            bindparam("after_at", type_=r.c.available_at.type),
            bindparam("after_instance", type_=r.c.instance_id.type),
            bindparam("after_sequence", type_=r.c.sequence.type),
        )
        ready = (
            select(*message, r.c.available_at, r.c.delayed, r.c.blocking, r.c.instance_id)
            .join(m, m.c.id == r.c.message_id)
            .order_by(r.c.available_at, r.c.instance_id, r.c.sequence)
            .limit(bindparam("most"))
        )
        # Not by the tuple alone, which MySQL does not look up in an index.
        from_there = r.c.available_at >= bindparam("after_at", type_=r.c.available_at.type)
        self._first = dialect.compile(ready)
        self._ready = dialect.compile(ready.where(from_there, place > after))
        self._running = dialect.compile(
            select(*message, c.c.claimed_at, c.c.process_id, c.c.id)
            .join(m, m.c.id == c.c.message_id)
            .where(c.c.id > bindparam("after", type_=c.c.id.type))
            .order_by(c.c.id)
            .limit(bindparam("most"))
        )

    def ready(self, tx: Transaction, *, after: str | None, most: int) -> Page[Waiting]:
        """Messages that wait, the one that is due longest first."""
        if after is None:
            rows = tx.rows(self._first, most=most + 1)
        else:
            since, instance_id, sequence = _place_of(after)
            rows = tx.rows(
                self._ready,
                most=most + 1,
                after_at=self._dialect.encode_time(since),
                after_instance=instance_id,
                after_sequence=sequence,
            )
        found = [self._waiting(row, is_delayed=bool(row[7]), is_blocking=bool(row[8])) for row in rows[:most]]
        last = f"{found[-1].since.isoformat()}_{rows[most - 1][9]}_{found[-1].sequence}" if len(rows) > most else None
        return Page(rows=found, next=last)

    def running(self, tx: Transaction, *, after: str | None, most: int) -> Page[Waiting]:
        """Messages whose turn runs now, in the order of their claims."""
        rows = tx.rows(self._running, after=place_of(after, 0), most=most + 1)
        found = [self._waiting(row, process_id=row[7]) for row in rows[:most]]
        return Page(rows=found, next=str(rows[most - 1][8]) if len(rows) > most else None)

    def _waiting(
        self,
        row: tuple[Any, ...],
        *,
        is_delayed: bool = False,
        is_blocking: bool = False,
        process_id: str | None = None,
    ) -> Waiting:
        since = self._dialect.decode_time(row[6])
        assert since is not None, "it is NOT NULL"
        return Waiting(
            message_id=row[0],
            key=ActorKey(actor_type=row[1], actor_id=self._dialect.decode_text(row[2])),
            sequence=row[3],
            operation=row[4],
            attempts=row[5],
            since=since,
            is_delayed=is_delayed,
            is_blocking=is_blocking,
            process_id=process_id,
        )


def _place_of(cursor: str) -> tuple[datetime, int, int]:
    """Where the page before ended.

    :raises ValueError: no page was ever given this cursor.
    """
    moment, instance_id, sequence = cursor.split("_")
    since = datetime.fromisoformat(moment)
    if since.utcoffset() != timedelta():
        raise ValueError(f"{moment!r} is no time of a cursor.")
    return since, place_of(instance_id, 0), place_of(sequence, 0)
