"""Messages that ended without a result: how one is buried, listed, and retried as a new, linked message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, func, insert, or_, select, update

from flask_solid_objects.payloads import decode, encode
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, StoredMessage

_CLASS_LENGTH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One permanently failed message; JSON is text."""

    id: int
    message_id: int
    instance_id: int
    key: ActorKey
    operation: str
    arguments: str
    attempts: int
    exception_class: str
    exception_message: str
    backtrace: str
    first_failed_at: datetime
    last_failed_at: datetime
    retried_message_id: int | None


class DeadLetters:
    """Statements on ``dead_letters``."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        d, m = tables.dead_letters, tables.messages
        self._table, self._dialect = d, dialect
        self._bury_message = dialect.compile(
            update(m).where(m.c.id == bindparam("w_id")).values(last_failed_at=dialect.now, updated_at=dialect.now),
            "error",
        )
        now = bindparam("now", type_=m.c.last_failed_at.type)
        first = select(func.coalesce(m.c.first_failed_at, m.c.last_failed_at, now)).where(
            m.c.id == bindparam("of_message")
        )
        self._insert = dialect.compile(
            insert(d).values(
                first_failed_at=first.scalar_subquery(),
                last_failed_at=bindparam("now", type_=d.c.last_failed_at.type),
                created_at=dialect.now,
                updated_at=dialect.now,
            ),
            *("message_id", "instance_id", "actor_type", "actor_id", "operation", "arguments"),
            *("attempts", "exception_class", "exception_message", "backtrace"),
        )
        rows = self.select_rows()
        self._find = dialect.compile(rows.where(d.c.id == bindparam("id")))
        kind = bindparam("actor_type", type_=d.c.actor_type.type)
        self._page = dialect.compile(
            rows.where(d.c.id < bindparam("before"), or_(kind.is_(None), d.c.actor_type == kind))
            .order_by(d.c.id.desc())
            .limit(bindparam("most"))
        )
        self._link = dialect.compile(
            update(d).where(d.c.id == bindparam("w_id")).values(updated_at=dialect.now), "retried_message_id"
        )

    def bury(self, tx: Transaction, key: ActorKey, message: StoredMessage, *, error: str) -> None:
        """Record that a message ended for good; the caller has removed its ready or claim row."""
        details = decode(error)
        assert isinstance(details, dict), "an error is stored as an object"
        tx.write(
            self._insert,
            message_id=message.id,
            of_message=message.id,
            instance_id=message.instance_id,
            actor_type=key.actor_type,
            actor_id=self._dialect.encode_text(key.actor_id),
            operation=message.operation,
            arguments=message.arguments,
            attempts=max(1, message.attempt),
            exception_class=str(details.get("class"))[:_CLASS_LENGTH],
            exception_message=str(details.get("message")),
            backtrace=encode(details.get("backtrace") or [], path="backtrace"),
            now=self._dialect.encode_time(tx.now()),
        )
        tx.write(self._bury_message, w_id=message.id, error=error)

    def find(self, tx: Transaction, dead_letter_id: int) -> DeadLetter | None:
        row = tx.one(self._find, id=dead_letter_id)
        return None if row is None else self.row_of(row)

    def page(self, tx: Transaction, *, actor_type: str | None, before: int | None, most: int) -> list[DeadLetter]:
        """The newest dead letters below an id, which is the last one of the page before."""
        rows = tx.rows(self._page, actor_type=actor_type, before=before or 2**63 - 1, most=most)
        return [self.row_of(row) for row in rows]

    def link(self, tx: Transaction, dead_letter_id: int, message_id: int) -> None:
        tx.write(self._link, w_id=dead_letter_id, retried_message_id=message_id)

    def select_rows(self) -> Select[*tuple[Any, ...]]:
        """The columns that :meth:`row_of` reads."""
        d = self._table
        return select(
            *(d.c.id, d.c.message_id, d.c.instance_id, d.c.actor_type, d.c.actor_id, d.c.operation, d.c.arguments),
            *(d.c.attempts, d.c.exception_class, d.c.exception_message, d.c.backtrace, d.c.first_failed_at),
            *(d.c.last_failed_at, d.c.retried_message_id),
        )

    def row_of(self, row: tuple[Any, ...]) -> DeadLetter:
        first, last = self._dialect.decode_time(row[11]), self._dialect.decode_time(row[12])
        assert first is not None and last is not None, "both are NOT NULL"
        return DeadLetter(
            id=row[0],
            message_id=row[1],
            instance_id=row[2],
            key=ActorKey(actor_type=row[3], actor_id=self._dialect.decode_text(row[4])),
            operation=row[5],
            arguments=row[6],
            attempts=row[7],
            exception_class=row[8],
            exception_message=row[9],
            backtrace=row[10],
            first_failed_at=first,
            last_failed_at=last,
            retried_message_id=row[13],
        )
