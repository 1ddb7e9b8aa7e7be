"""The rows of broadcasts: claimed in batches, delivered, superseded by newer ones of the same observable.

Receivers drop what is not newer, so a delivered revision makes every older one of its observable superfluous, and a
row that cannot be delivered blocks nobody (protocol 8.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, and_, bindparam, case, exists, or_, select, update

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastRow:
    """A stored broadcast; ``attempts`` includes the one that runs, also when that is one too many."""

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
        self._by_id = dialect.compile(self.select_rows().where(b.c.broadcast_id == bindparam("broadcast_id")))
        self._prepare_lists()

    def _prepare_lists(self) -> None:
        b, dialect = self._table, self._dialect
        self._read = Listed(dialect, b.c.id, lambda ids: self.select_rows().where(b.c.id.in_(ids)).order_by(b.c.id))
        changed = update(b).values(updated_at=dialect.now)
        claimed = changed.values(status="processing", attempt_count=b.c.attempt_count + 1, claimed_at=dialect.now)
        self._claim = Listed(dialect, b.c.id, lambda ids: claimed.where(b.c.id.in_(ids)), "claimed_by")
        mine = changed.where(b.c.status == "processing", b.c.claimed_by == bindparam("w_process"))
        freed = mine.values(claimed_by=None, claimed_at=None)
        delivered = freed.values(status="delivered", delivered_at=dialect.now, error=None)
        self._deliver = Listed(dialect, b.c.id, lambda ids: delivered.where(b.c.id.in_(ids)))
        untried = freed.values(status="pending", attempt_count=b.c.attempt_count - 1)
        self._hand_back = Listed(dialect, b.c.id, lambda ids: untried.where(b.c.id.in_(ids)))
        begun = case((b.c.attempt_count > b.c.max_attempts, b.c.max_attempts), else_=b.c.attempt_count)
        failed = freed.values(attempt_count=begun)
        self._fail = Listed(
            dialect, b.c.id, lambda ids: failed.where(b.c.id.in_(ids)), "status", "available_at", "error"
        )
        n = b.alias("newer")
        # Revisions rise with ids, so that only what came later is looked at.
        later = (n.c.instance_id == b.c.instance_id, n.c.id > b.c.id, n.c.observable_name == b.c.observable_name)
        newer = exists(select(n.c.id).where(*later, n.c.revision > b.c.revision, n.c.status == "delivered"))
        self._superseded = Listed(
            dialect, b.c.id, lambda ids: select(b.c.id).where(b.c.id.in_(ids), newer.correlate(b))
        )

    def claim(self, tx: Transaction, process_id: str, most: int, *, stale_seconds: float) -> list[BroadcastRow]:
        """Claim what is due, or one row that was claimed too long ago by somebody who never came back.

        It may have been what ended them, and must not take the attempts of others along.
        """
        now = tx.now()
        ids = [row[0] for row in tx.rows(self._stale, stale=self._stale_at(now, stale_seconds), most=1)]
        if not ids:
            ids = [row[0] for row in tx.rows(self._due, now=self._dialect.encode_time(now), most=most)]
        if not ids:
            return []
        self._claim.write(tx, ids, claimed_by=process_id)
        return [self.row_of(row) for row in self._read.rows(tx, ids)]

    def has_work(self, tx: Transaction, *, stale_seconds: float) -> bool:
        """A look without locks, so that an idle role does not write, nor one while others deliver."""
        now = tx.now()
        found = tx.one(self._any, now=self._dialect.encode_time(now), stale=self._stale_at(now, stale_seconds))
        return found is not None

    def deliver(self, tx: Transaction, rows: Sequence[BroadcastRow], process_id: str) -> None:
        """Mark rows delivered that this process still has."""
        self._deliver.write(tx, [row.id for row in rows], w_process=process_id)

    def fail(
        self, tx: Transaction, rows: Sequence[BroadcastRow], process_id: str, *, until: datetime | None, error: str
    ) -> None:
        """Let rows that this process still has be tried again at a time, or end them as dead."""
        self._fail.write(
            tx,
            [row.id for row in rows],
            w_process=process_id,
            status="dead" if until is None else "pending",
            available_at=self._dialect.encode_time(until or tx.now()),
            error=error,
        )

    def hand_back(self, tx: Transaction, rows: Sequence[BroadcastRow], process_id: str) -> None:
        """Give back rows that were not tried, uncounted."""
        self._hand_back.write(tx, [row.id for row in rows], w_process=process_id)

    def superseded(self, tx: Transaction, rows: Sequence[BroadcastRow]) -> set[int]:
        """The ids of those of which a newer revision of the same observable was delivered already."""
        return {row[0] for row in self._superseded.rows(tx, [row.id for row in rows])}

    def release(self, tx: Transaction, process_id: str) -> int:
        """Free what a process held."""
        return tx.write(self._release, w_process=process_id)

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
