"""The rows of a mailbox: a message, its place among the waiting ones, and look-ups by id and key.

The caller holds the lock of the actor's row, under which sequences are given without gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, delete, func, insert, literal, select, update

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.message_status import message_status
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, MessageRecord, MessageStatus, NewMessage, RungReminder, StoredMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Where a message belongs among the waiting ones, and whether it was sent with a delay."""

    sequence: int
    due: datetime
    delayed: bool


class Mailbox:
    """Statements on ``messages`` and ``ready_messages``."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        m, r = tables.messages, tables.ready_messages
        self._tables = tables
        self._dialect = dialect
        inserted = insert(m).values(created_at=dialect.now, updated_at=dialect.now)
        waiting = insert(r).values(created_at=dialect.now)
        if dialect.has_writable_cte:
            inserted = inserted.returning(m.c.id)
        self._insert = dialect.compile(
            inserted,
            *("instance_id", "actor_type", "actor_id", "operation", "delivery_mode", "arguments", "sequence"),
            *("attempt_count", "max_attempts", "request_id", "idempotency_key", "enqueued_at", "available_at"),
            *("started_at", "caused_by", "reminder_id", "reminder_generation", "reminder_due_at", "missed_count"),
            returns_id=True,
        )
        self._insert_ready = dialect.compile(
            waiting, "message_id", "instance_id", "sequence", "available_at", "delayed", "blocking"
        )
        here = (r.c.instance_id == bindparam("instance_id"), r.c.sequence == bindparam("sequence"))
        self._delete_ready = dialect.compile(delete(r).where(*here))
        self._make_due = dialect.compile(update(r).where(*here), "available_at")
        self._lowest = dialect.compile(select(func.min(r.c.sequence)).where(here[0]))
        some = select(literal(1)).where(here[0]).limit(bindparam("most")).subquery()
        self._count = dialect.compile(select(func.count()).select_from(some))
        stored = select(
            m.c.id,
            m.c.instance_id,
            m.c.operation,
            m.c.delivery_mode,
            m.c.arguments,
            m.c.sequence,
            m.c.attempt_count,
            m.c.max_attempts,
            m.c.request_id,
            m.c.idempotency_key,
            m.c.enqueued_at,
            m.c.reminder_id,
            m.c.reminder_generation,
            m.c.reminder_due_at,
            m.c.missed_count,
        )
        self._stored_by_sequence = dialect.compile(
            stored.where(m.c.instance_id == bindparam("instance_id"), m.c.sequence == bindparam("sequence"))
        )
        self._placing = dialect.compile(
            select(m.c.sequence, m.c.available_at, m.c.enqueued_at).where(m.c.id == bindparam("id"))
        )
        self._stored_by_id = dialect.compile(stored.where(m.c.id == bindparam("id")))
        record = self._record_select()
        self._by_id = dialect.compile(record.where(m.c.id == bindparam("id")))
        self._by_request = dialect.compile(record.where(m.c.request_id == bindparam("request_id")))
        by_key = record.where(m.c.instance_id == bindparam("instance_id"), m.c.idempotency_key == bindparam("key"))
        self._by_idempotency = dialect.compile(by_key)
        # Under repeatable read a key that was committed meanwhile is only seen by a locking read.
        self._by_idempotency_now = dialect.compile(
            by_key.with_for_update(read=True) if dialect.reads_old_rows else by_key
        )
        self._start = dialect.compile(
            update(m)
            .where(m.c.id == bindparam("w_id"))
            .values(attempt_count=m.c.attempt_count + 1, updated_at=dialect.now),
            "started_at",
        )

    def insert(
        self,
        tx: Transaction,
        new: NewMessage,
        instance_id: int,
        sequence: int,
        *,
        available_at: datetime,
        attempts: int,
    ) -> int:
        """Store a message under its sequence and return its id; ``attempts`` is 1 when it is claimed at once."""
        now, rung = self._dialect.encode_time(tx.now()), new.reminder
        return tx.insert(
            self._insert,
            instance_id=instance_id,
            actor_type=new.key.actor_type,
            actor_id=self._dialect.encode_text(new.key.actor_id),
            operation=new.operation,
            delivery_mode=new.delivery_mode,
            arguments=new.arguments,
            sequence=sequence,
            attempt_count=attempts,
            max_attempts=new.max_attempts,
            request_id=new.request_id,
            idempotency_key=self._dialect.encode_text(new.idempotency_key),
            enqueued_at=now,
            available_at=self._dialect.encode_time(available_at),
            started_at=now if attempts else None,
            caused_by=new.caused_by,
            reminder_id=None if rung is None else rung.id,
            reminder_generation=None if rung is None else rung.generation,
            reminder_due_at=None if rung is None else self._dialect.encode_time(rung.due_at),
            missed_count=None if rung is None else rung.missed,
        )

    def make_ready(
        self,
        tx: Transaction,
        *,
        message_id: int,
        instance_id: int,
        sequence: int,
        available_at: datetime,
        delayed: bool,
        blocking: bool,
    ) -> None:
        tx.write(
            self._insert_ready,
            message_id=message_id,
            instance_id=instance_id,
            sequence=sequence,
            available_at=self._dialect.encode_time(available_at),
            delayed=delayed,
            blocking=blocking,
        )

    def take_ready(self, tx: Transaction, instance_id: int, sequence: int) -> StoredMessage:
        """Take a waiting message out of the waiting ones and count the attempt that begins now (protocol 4.8)."""
        tx.write(self._delete_ready, instance_id=instance_id, sequence=sequence)
        row = tx.one(self._stored_by_sequence, instance_id=instance_id, sequence=sequence)
        assert row is not None, "a ready row has a message"
        tx.write(self._start, w_id=row[0], started_at=self._dialect.encode_time(tx.now()))
        return self._stored(row, attempt=row[6] + 1)

    def remove_ready(self, tx: Transaction, instance_id: int, sequence: int) -> None:
        tx.write(self._delete_ready, instance_id=instance_id, sequence=sequence)

    def make_due(self, tx: Transaction, instance_id: int, sequence: int) -> None:
        """Let a message in retry back-off run now; it keeps its place."""
        available_at = self._dialect.encode_time(tx.now())
        tx.write(self._make_due, instance_id=instance_id, sequence=sequence, available_at=available_at)

    def stored(self, tx: Transaction, message_id: int) -> StoredMessage | None:
        row = tx.one(self._stored_by_id, id=message_id)
        return None if row is None else self._stored(row, attempt=row[6])

    def placing(self, tx: Transaction, message_id: int) -> Placing:
        row = tx.one(self._placing, id=message_id)
        assert row is not None, "a claimed message exists"
        sequence, available_at, enqueued_at = row
        due = self._dialect.decode_time(available_at)
        assert due is not None, "available_at is NOT NULL"
        return Placing(sequence=sequence, due=due, delayed=available_at > enqueued_at)

    def is_full(self, tx: Transaction, instance_id: int, next_sequence: int, limit: int) -> bool:
        """Soft cap: rows are counted only when the span of sequences reaches the limit (protocol 4.10)."""
        row = tx.one(self._lowest, instance_id=instance_id)
        if row is None or row[0] is None or next_sequence - row[0] < limit:
            return False
        counted = tx.one(self._count, instance_id=instance_id, most=limit)
        return counted is not None and counted[0] >= limit

    def find(self, tx: Transaction, message_id: int) -> MessageRecord | None:
        return self._record(tx.one(self._by_id, id=message_id))

    def find_by_request(self, tx: Transaction, request_id: str) -> MessageRecord | None:
        return self._record(tx.one(self._by_request, request_id=request_id))

    def find_by_idempotency_key(
        self, tx: Transaction, instance_id: int, key: str, *, locked: bool = False
    ) -> MessageRecord | None:
        """The message of a key; ``locked`` when the decision to store another one rests on it."""
        statement = self._by_idempotency_now if locked else self._by_idempotency
        return self._record(tx.one(statement, instance_id=instance_id, key=self._dialect.encode_text(key)))

    def _record_select(self) -> Select[*tuple[Any, ...]]:
        m = self._tables.messages
        return select(
            m.c.id,
            m.c.instance_id,
            m.c.actor_type,
            m.c.actor_id,
            m.c.operation,
            m.c.delivery_mode,
            m.c.arguments,
            m.c.sequence,
            m.c.request_id,
            m.c.idempotency_key,
            message_status(self._tables),
            m.c.attempt_count,
            m.c.max_attempts,
            m.c.result,
            m.c.error,
            m.c.rejection,
            m.c.enqueued_at,
            m.c.available_at,
            m.c.completed_at,
        )

    def _stored(self, row: tuple[Any, ...], *, attempt: int) -> StoredMessage:
        enqueued_at = self._dialect.decode_time(row[10])
        assert enqueued_at is not None, "enqueued_at is NOT NULL"
        return StoredMessage(
            id=row[0],
            instance_id=row[1],
            operation=row[2],
            delivery_mode=row[3],
            arguments=row[4],
            sequence=row[5],
            attempt=attempt,
            max_attempts=row[7],
            request_id=row[8],
            idempotency_key=self._dialect.decode_text(row[9]),
            enqueued_at=enqueued_at,
            reminder=self._rung(*row[11:15]),
        )

    def _rung(
        self, reminder_id: int | None, generation: int | None, due_at: Any, missed: int | None
    ) -> RungReminder | None:
        if reminder_id is None:
            return None
        due = self._dialect.decode_time(due_at)
        assert generation is not None and due is not None, "they are stored together"
        return RungReminder(id=reminder_id, generation=generation, due_at=due, missed=missed or 0)

    def _record(self, row: tuple[Any, ...] | None) -> MessageRecord | None:
        if row is None:
            return None
        decode = self._dialect.decode_time
        enqueued_at, available_at = decode(row[16]), decode(row[17])
        assert enqueued_at is not None and available_at is not None, "both are NOT NULL"
        return MessageRecord(
            id=row[0],
            instance_id=row[1],
            key=ActorKey(actor_type=row[2], actor_id=self._dialect.decode_text(row[3])),
            operation=row[4],
            delivery_mode=row[5],
            arguments=row[6],
            sequence=row[7],
            request_id=row[8],
            idempotency_key=self._dialect.decode_text(row[9]),
            status=MessageStatus(row[10]),
            attempts=row[11],
            max_attempts=row[12],
            result=self._dialect.decode_json(row[13]),
            error=row[14],
            rejection=row[15],
            enqueued_at=enqueued_at,
            available_at=available_at,
            completed_at=decode(row[18]),
        )
