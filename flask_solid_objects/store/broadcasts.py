"""The rows of broadcasts: claimed in batches, delivered, superseded by newer ones of the same observable.

Receivers drop what is not newer, so a delivered revision makes every older one of its observable superfluous, and a
row that cannot be delivered blocks nobody (protocol 8.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, and_, bindparam, or_, select, update

from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastRow:
    """A stored broadcast; ``attempts`` includes the one that runs."""

    id: int
    broadcast_id: str
    instance_id: int
    message_id: int
    actor: ActorKey
    observable: str
    revision: int
    attempts: int
    max_attempts: int
    status: str
    available_at: datetime
    created_at: datetime
    updated_at: datetime
    error: str | None


class Broadcasts:
    """Statements on ``broadcasts``."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        b = tables.broadcasts
        self._tables, self._dialect = tables, dialect
        self._table = b
        due = b.c.available_at <= bindparam("now", type_=b.c.available_at.type)
        self._due = dialect.compile(
            select(b.c.id)
            .where(b.c.status == "pending", due)
            .order_by(b.c.available_at, b.c.id)
            .limit(bindparam("most"))
            .with_for_update(skip_locked=True)
        )
        stale = b.c.claimed_at <= bindparam("stale", type_=b.c.claimed_at.type)
        waits = or_(and_(b.c.status == "pending", due), and_(b.c.status == "processing", stale))
        self._any = dialect.compile(select(b.c.id).where(waits).limit(1))
        self._stale = dialect.compile(
            select(b.c.id)
            .where(b.c.status == "processing", stale)
            .order_by(b.c.id)
            .limit(bindparam("most"))
            .with_for_update(skip_locked=True)
        )
        self._release = dialect.compile(
            update(b)
            .where(b.c.claimed_by == bindparam("w_process"), b.c.status == "processing")
            .values(status="pending", claimed_by=None, claimed_at=None, available_at=dialect.now)
        )
        self._newer = dialect.compile(
            select(b.c.id)
            .where(
                b.c.instance_id == bindparam("instance_id"),
                b.c.observable_name == bindparam("observable"),
                b.c.status == "delivered",
                b.c.revision > bindparam("revision"),
            )
            .limit(1)
        )
        self._value = dialect.compile(
            select(b.c.value, b.c.revision)
            .where(b.c.instance_id == bindparam("instance_id"), b.c.observable_name == bindparam("observable"))
            .order_by(b.c.revision.desc())
            .limit(1)
        )
        self._lists: dict[tuple[str, int], Statement] = {}
        self._by_id = dialect.compile(self.select_rows().where(b.c.broadcast_id == bindparam("broadcast_id")))

    def claim(self, tx: Transaction, process_id: str, most: int, *, stale_seconds: float) -> list[BroadcastRow]:
        """Claim what is due, or was claimed too long ago by somebody who never came back."""
        now = tx.now()
        ids = [row[0] for row in tx.rows(self._due, now=self._dialect.encode_time(now), most=most)]
        if len(ids) < most:
            stale = self._stale_at(now, stale_seconds)
            ids += [row[0] for row in tx.rows(self._stale, stale=stale, most=most - len(ids))]
        if not ids:
            return []
        given = self._numbered(ids)
        tx.write(self._list("claim", len(ids)), claimed_by=process_id, **given)
        return [self.row_of(row) for row in tx.rows(self._list("read", len(ids)), **given)]

    def has_work(self, tx: Transaction, *, stale_seconds: float) -> bool:
        """A look without locks, so that an idle role does not write, nor one while others deliver."""
        now = tx.now()
        found = tx.one(self._any, now=self._dialect.encode_time(now), stale=self._stale_at(now, stale_seconds))
        return found is not None

    def deliver(self, tx: Transaction, rows: Sequence[BroadcastRow], process_id: str) -> None:
        """Mark rows delivered that this process still has."""
        if rows:
            statement = self._list("deliver", len(rows))
            tx.write(statement, w_process=process_id, **self._numbered([row.id for row in rows]))

    def fail(self, tx: Transaction, row: BroadcastRow, process_id: str, *, until: datetime | None, error: str) -> None:
        """Let a row be tried again at a time, or end it as dead."""
        tx.write(
            self._list("fail", 1),
            w_process=process_id,
            status="dead" if until is None else "pending",
            available_at=self._dialect.encode_time(until or tx.now()),
            error=error,
            **self._numbered([row.id]),
        )

    def is_superseded(self, tx: Transaction, row: BroadcastRow) -> bool:
        """Whether a newer revision of the same observable was delivered already."""
        found = tx.one(self._newer, instance_id=row.instance_id, observable=row.observable, revision=row.revision)
        return found is not None

    def release(self, tx: Transaction, process_id: str) -> int:
        """Free what a process held."""
        return tx.write(self._release, w_process=process_id)

    def latest_value(self, tx: Transaction, instance_id: int, observable: str) -> tuple[str, int] | None:
        """The newest shared value of an observable and its revision; transports carry metadata only."""
        row = tx.one(self._value, instance_id=instance_id, observable=observable)
        return None if row is None else (self._dialect.decode_json(row[0]), row[1])

    def find(self, tx: Transaction, broadcast_id: str) -> BroadcastRow | None:
        row = tx.one(self._by_id, broadcast_id=broadcast_id)
        return None if row is None else self.row_of(row)

    def select_rows(self) -> Select[*tuple[Any, ...]]:
        """The columns that :meth:`row_of` reads."""
        b, i = self._tables.broadcasts, self._tables.instances
        return select(
            *(b.c.id, b.c.broadcast_id, b.c.instance_id, i.c.actor_type, i.c.actor_id, b.c.observable_name),
            *(b.c.revision, b.c.attempt_count, b.c.max_attempts, b.c.status, b.c.available_at, b.c.created_at),
            *(b.c.updated_at, b.c.error, b.c.message_id),
        ).join(i, i.c.id == b.c.instance_id)

    def row_of(self, row: tuple[Any, ...]) -> BroadcastRow:
        decode = self._dialect.decode_time
        available_at, created_at, updated_at = decode(row[10]), decode(row[11]), decode(row[12])
        assert available_at is not None and created_at is not None and updated_at is not None, "all are NOT NULL"
        return BroadcastRow(
            id=row[0],
            broadcast_id=row[1],
            instance_id=row[2],
            actor=ActorKey(actor_type=row[3], actor_id=self._dialect.decode_text(row[4])),
            observable=row[5],
            revision=row[6],
            attempts=row[7],
            max_attempts=row[8],
            status=row[9],
            available_at=available_at,
            created_at=created_at,
            updated_at=updated_at,
            error=row[13],
            message_id=row[14],
        )

    def _stale_at(self, now: datetime, seconds: float) -> Any:
        return self._dialect.encode_time(now - timedelta(seconds=seconds))

    def _list(self, act: str, count: int) -> Statement:
        """A statement on a number of rows by id, compiled once for each number."""
        statement = self._lists.get((act, count))
        if statement is None:
            statement = self._lists[act, count] = self._compile(act, count)
        return statement

    def _compile(self, act: str, count: int) -> Statement:
        b, now = self._table, self._dialect.now
        ids = b.c.id.in_([bindparam(f"w_id_{n}", type_=b.c.id.type) for n in range(count)])
        if act == "read":
            return self._dialect.compile(self.select_rows().where(ids).order_by(b.c.id))
        changed = update(b).where(ids).values(updated_at=now)
        if act == "claim":
            claimed = changed.values(status="processing", attempt_count=b.c.attempt_count + 1, claimed_at=now)
            return self._dialect.compile(claimed, "claimed_by")
        mine = changed.where(b.c.status == "processing", b.c.claimed_by == bindparam("w_process"))
        freed = mine.values(claimed_by=None, claimed_at=None)
        if act == "deliver":
            return self._dialect.compile(freed.values(status="delivered", delivered_at=now, error=None))
        return self._dialect.compile(freed, "status", "available_at", "error")

    @staticmethod
    def _numbered(ids: Sequence[int]) -> dict[str, int]:
        return {f"w_id_{n}": row_id for n, row_id in enumerate(ids)}
