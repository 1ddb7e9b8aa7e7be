"""The turns of one actor as an operator reads them: newest first, each with what it staged and what it led to.

A message links to its cause by ``caused_by``, and its effects and broadcasts link to it; all of them have an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, bindparam, func, select

from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.message_status import message_status
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, MessageStatus

_NEWEST = 2**63 - 1
_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A message as it stands, without its payloads; ``ended_at`` is when it completed, was rejected or died."""

    id: int
    instance_id: int
    key: ActorKey
    sequence: int
    operation: str
    delivery_mode: str
    status: MessageStatus
    attempts: int
    max_attempts: int
    enqueued_at: datetime
    available_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    revision: int | None
    caused_by: int | None
    reminder_id: int | None
    reminder_due_at: datetime | None

    @property
    def duration(self) -> timedelta | None:
        """From the claim of its last attempt to its end."""
        if self.started_at is None or self.ended_at is None:
            return None
        # Of two statements; the clock may have been set back between them.
        return max(self.ended_at - self.started_at, timedelta())

    @property
    def delay(self) -> timedelta | None:
        """From when it could run to the claim of its last attempt."""
        return None if self.started_at is None else max(self.started_at - self.available_at, timedelta())


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetail:
    """One message with its payloads, as JSON text."""

    turn: Turn
    request_id: str
    idempotency_key: str | None
    arguments: str
    result: str | None
    error: str | None
    rejection: str | None
    first_failed_at: datetime | None
    last_failed_at: datetime | None


@dataclass(slots=True, kw_only=True)
class Staged:
    """How much a turn left to be done after its commit."""

    effects: int = 0
    sends: int = 0
    broadcasts: int = 0


class Timeline:
    """Reads of the messages of one actor, of one message, and of what came of them."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._tables, self._dialect = tables, dialect
        m = tables.messages
        turns = self._turns()
        self._of_actor = dialect.compile(
            turns.where(m.c.instance_id == bindparam("instance_id"), m.c.sequence < bindparam("before"))
            .order_by(m.c.sequence.desc())
            .limit(bindparam("most"))
        )
        mine, claims = m.c.instance_id == bindparam("instance_id"), tables.claimed_messages.alias()
        self._running = dialect.compile(turns.where(mine).join(claims, claims.c.message_id == m.c.id).limit(1))
        self._at = dialect.compile(turns.where(mine, m.c.sequence == bindparam("sequence")))
        details = turns.add_columns(
            *(m.c.request_id, m.c.idempotency_key, m.c.arguments, m.c.result, m.c.error, m.c.rejection),
            *(m.c.first_failed_at, m.c.last_failed_at),
        )
        self._detail = dialect.compile(details.where(m.c.id == bindparam("id")))
        self._caused = dialect.compile(
            turns.where(m.c.caused_by == bindparam("id")).order_by(m.c.id).limit(bindparam("most"))
        )
        self._lists: dict[tuple[str, int], Statement] = {}

    def turns(self, tx: Transaction, instance_id: int, *, before: int | None, most: int) -> list[Turn]:
        """Messages of an actor, newest first; those below a sequence, which is the last of the page before."""
        below = _NEWEST if before is None else before
        return [self._turn(row) for row in tx.rows(self._of_actor, instance_id=instance_id, before=below, most=most)]

    def running(self, tx: Transaction, instance_id: int) -> Turn | None:
        """The turn that runs, or the first of those that run in one group."""
        row = tx.one(self._running, instance_id=instance_id)
        return None if row is None else self._turn(row)

    def at(self, tx: Transaction, instance_id: int, sequence: int) -> Turn | None:
        row = tx.one(self._at, instance_id=instance_id, sequence=sequence)
        return None if row is None else self._turn(row)

    def detail(self, tx: Transaction, message_id: int) -> TurnDetail | None:
        row = tx.one(self._detail, id=message_id)
        if row is None:
            return None
        request_id, key, arguments, result, error, rejection, first, last = row[18:]
        return TurnDetail(
            turn=self._turn(row),
            request_id=request_id,
            idempotency_key=self._dialect.decode_text(key),
            arguments=arguments,
            result=self._dialect.decode_json(result),
            error=error,
            rejection=rejection,
            first_failed_at=self._dialect.decode_time(first),
            last_failed_at=self._dialect.decode_time(last),
        )

    def caused(self, tx: Transaction, message_id: int, *, most: int) -> list[Turn]:
        """The messages that a message led to: sends, callbacks of its effects, retries of its dead letter."""
        return [self._turn(row) for row in tx.rows(self._caused, id=message_id, most=most)]

    def staged(self, tx: Transaction, message_ids: Sequence[int]) -> dict[int, Staged]:
        """How much each of these turns staged, in two statements however many they are."""
        found = {message_id: Staged() for message_id in message_ids}
        if not found:
            return found
        for message_id, total, sends in self._many(tx, "effects", message_ids):
            found[message_id].effects, found[message_id].sends = total - sends, sends
        for message_id, total in self._many(tx, "broadcasts", message_ids):
            found[message_id].broadcasts = total
        return found

    def _many(self, tx: Transaction, what: str, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        # One length, so that one statement is compiled; the rest is filled up with an id twice.
        chunk = [*ids[:_AT_ONCE], *[ids[0]] * (_AT_ONCE - len(ids))]
        statement = self._lists.get((what, _AT_ONCE))
        if statement is None:
            statement = self._lists[what, _AT_ONCE] = self._count(what)
        return tx.rows(statement, **{f"id_{n}": row_id for n, row_id in enumerate(chunk)})

    def _count(self, what: str) -> Statement:
        table = getattr(self._tables, what)
        ids = [bindparam(f"id_{n}", type_=table.c.message_id.type) for n in range(_AT_ONCE)]
        counts = [func.count(), *([func.count(table.c.target)] if what == "effects" else [])]
        grouped = select(table.c.message_id, *counts).where(table.c.message_id.in_(ids)).group_by(table.c.message_id)
        return self._dialect.compile(grouped)

    def _turns(self) -> Select[*tuple[Any, ...]]:
        m, d = self._tables.messages, self._tables.dead_letters
        # A message that died keeps no end of its own; its dead letter has it.
        died_at = select(d.c.last_failed_at).where(d.c.message_id == m.c.id).scalar_subquery()
        return select(
            *(m.c.id, m.c.instance_id, m.c.actor_type, m.c.actor_id, m.c.sequence, m.c.operation, m.c.delivery_mode),
            *(message_status(self._tables), m.c.attempt_count, m.c.max_attempts, m.c.enqueued_at, m.c.available_at),
            *(m.c.started_at, func.coalesce(m.c.completed_at, m.c.rejected_at, died_at), m.c.revision),
            *(m.c.caused_by, m.c.reminder_id, m.c.reminder_due_at),
        )

    def _turn(self, row: tuple[Any, ...]) -> Turn:
        decode = self._dialect.decode_time
        enqueued_at, available_at = decode(row[10]), decode(row[11])
        assert enqueued_at is not None and available_at is not None, "both are NOT NULL"
        return Turn(
            id=row[0],
            instance_id=row[1],
            key=ActorKey(actor_type=row[2], actor_id=self._dialect.decode_text(row[3])),
            sequence=row[4],
            operation=row[5],
            delivery_mode=row[6],
            status=MessageStatus(row[7]),
            attempts=row[8],
            max_attempts=row[9],
            enqueued_at=enqueued_at,
            available_at=available_at,
            started_at=decode(row[12]),
            ended_at=decode(row[13]),
            revision=row[14],
            caused_by=row[15],
            reminder_id=row[16],
            reminder_due_at=decode(row[17]),
        )
