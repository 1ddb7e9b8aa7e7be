"""Redrives: durable tasks that revive dead effects, broadcasts or messages, one batch and one transaction at a time.

A batch locks its task first and its rows by id after that, so that two runners of one task take turns and never exceed
its limit. Only what was dead when the task started is revived: what dies again meanwhile waits for another one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import bindparam, select, update

from flask_solid_objects.payloads import decode, encode
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.revivals import Batch, LetterRevivals, OutboxRevivals, Revivals, Selection
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.windows import MOST_COUNTED

RedriveKind: TypeAlias = Literal["effect", "broadcast", "message"]
RedriveStatus: TypeAlias = Literal["running", "completed", "cancelled"]
KINDS: tuple[RedriveKind, ...] = ("effect", "broadcast", "message")
_START_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a redrive is about; ``operation`` and ``exception_class`` are of messages only."""

    actor_type: str | None = None
    failed_after: datetime | None = None
    operation: str | None = None
    exception_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """A task; ``remaining`` is what it would still revive, counted when it was read, and 0 once it has ended."""

    id: str
    kind: RedriveKind
    actor_type: str | None
    failed_after: datetime | None
    operation: str | None
    exception_class: str | None
    limit: int | None
    status: RedriveStatus
    moved: int
    remaining: int
    started_by: str | None
    started_at: datetime
    finished_at: datetime | None

    @property
    def is_running(self) -> bool:
        return self.status == "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedrivePreview:
    """What a task of these filters would revive if it started now; with ``is_capped``, at least so many."""

    kind: RedriveKind
    actor_type: str | None
    failed_after: datetime | None
    operation: str | None
    exception_class: str | None
    limit: int | None
    count: int
    is_capped: bool


class Redrives:
    """Statements on ``redrives``, and on the rows that they revive."""

    def __init__(self, tables: Tables, dialect: Dialect, letters: LetterRevivals) -> None:
        r = self._table = tables.redrives
        self._dialect = dialect
        self._insert = dialect.compile(
            dialect.insert_unless_present(
                r,
                {
                    **{name: bindparam(name) for name in ("id", "kind", "active_scope", "move_limit", "actor")},
                    "filters": bindparam("filters", type_=r.c.filters.type),
                    **dict.fromkeys(("started_at", "created_at", "updated_at"), dialect.now),
                },
                [r.c.active_scope],
            )
        )
        columns = [
            *(r.c.id, r.c.kind, r.c.filters, r.c.status, r.c.moved, r.c.move_limit, r.c.actor),
            *(r.c.started_at, r.c.finished_at),
        ]
        rows, by_id, status = select(*columns), r.c.id == bindparam("id"), r.c.status == bindparam("status")
        self._find = dialect.compile(rows.where(by_id))
        self._lock = dialect.compile(rows.where(by_id).with_for_update())
        self._lock_scope = dialect.compile(rows.where(r.c.active_scope == bindparam("active_scope")).with_for_update())
        newest = rows.order_by(r.c.started_at.desc(), r.c.id.desc()).limit(bindparam("most"))
        self._page, self._page_of_status = dialect.compile(newest), dialect.compile(newest.where(status))
        self._oldest = dialect.compile(
            select(r.c.id).where(r.c.status == "running").order_by(r.c.started_at, r.c.id).limit(1)
        )
        changed = update(r).where(r.c.id == bindparam("w_id")).values(updated_at=dialect.now)
        self._advance = dialect.compile(changed, "moved")
        self._end = dialect.compile(changed.values(active_scope=None, finished_at=dialect.now), "status")
        self._revivals: dict[RedriveKind, Revivals] = {
            "effect": OutboxRevivals(tables.effects, tables, dialect),
            "broadcast": OutboxRevivals(tables.broadcasts, tables, dialect),
            "message": letters,
        }

    # -- tasks --------------------------------------------------------------------------------

    def start(
        self,
        tx: Transaction,
        redrive_id: str,
        kind: RedriveKind,
        filters: Filters,
        *,
        limit: int | None,
        operator: str | None,
    ) -> Redrive:
        """Make a task, or find and lock the one of the same kind and filters that runs; the id tells which."""
        known = tx.one(self._lock, id=redrive_id)
        if known is not None:
            # Made by a commit that was in doubt; it may have ended meanwhile.
            return self._redrive(tx, known)
        text = _text(kind, filters)
        scope = f"{kind}:{hashlib.sha256(text.encode()).hexdigest()}"
        for _ in range(_START_TRIES):
            tx.write(
                self._insert,
                id=redrive_id,
                kind=kind,
                filters=text,
                active_scope=scope,
                move_limit=limit,
                actor=operator,
            )
            tx.checkpoints.reach("redrive.inserted", redrive_id=redrive_id)
            row = tx.one(self._lock_scope, active_scope=scope)
            if row is not None:
                return self._redrive(tx, row)
        raise AssertionError("redrives of one scope ended three times between two statements")

    def find(self, tx: Transaction, redrive_id: str) -> Redrive | None:
        row = tx.one(self._find, id=redrive_id)
        return None if row is None else self._redrive(tx, row)

    def lock(self, tx: Transaction, redrive_id: str, *, counted: bool = True) -> Redrive | None:
        """Read a task for a change; ``remaining`` is 0 unless it is to be counted."""
        row = tx.one(self._lock, id=redrive_id)
        return None if row is None else self._redrive(tx, row, counted=counted)

    def page(self, tx: Transaction, *, status: str | None, most: int) -> list[Redrive]:
        """The tasks that were started last."""
        if status is None:
            rows = tx.rows(self._page, most=most)
        else:
            rows = tx.rows(self._page_of_status, status=status, most=most)
        return [self._redrive(tx, row) for row in rows]

    def end(self, tx: Transaction, redrive_id: str, status: RedriveStatus) -> None:
        """End a locked task, so that another one of its filters may start."""
        tx.write(self._end, w_id=redrive_id, status=status)

    # -- batches ------------------------------------------------------------------------------

    def oldest_running(self, tx: Transaction) -> str | None:
        row = tx.one(self._oldest)
        return None if row is None else row[0]

    def move(self, tx: Transaction, redrive: Redrive, after: int, most: int, refused: frozenset[int]) -> Batch:
        """Revive the next dead rows of a locked task above an id.

        :param refused: the actors that had no room earlier in this pass.
        """
        revivals, selection = self._revivals[redrive.kind], _selection(redrive, redrive.started_at)
        ids = revivals.find(tx, selection, after, most)
        if not ids:
            return Batch(refused=refused)
        tx.checkpoints.reach("redrive.found", redrive_id=redrive.id, ids=ids)
        batch = revivals.revive(tx, selection, ids, refused)
        tx.write(self._advance, w_id=redrive.id, moved=redrive.moved + batch.moved)
        return batch

    def preview(self, tx: Transaction, kind: RedriveKind, filters: Filters, *, limit: int | None) -> RedrivePreview:
        """Count, up to a cap, what a task would revive that started now."""
        found = self._revivals[kind].preview(tx, _selection(filters, tx.now()))
        count = min(found, MOST_COUNTED) if limit is None else min(found, MOST_COUNTED, limit)
        return RedrivePreview(
            kind=kind,
            actor_type=filters.actor_type,
            failed_after=filters.failed_after,
            operation=filters.operation,
            exception_class=filters.exception_class,
            limit=limit,
            count=count,
            is_capped=found > MOST_COUNTED and (limit is None or limit > MOST_COUNTED),
        )

    # -- parts --------------------------------------------------------------------------------

    def _redrive(self, tx: Transaction, row: tuple[Any, ...], *, counted: bool = True) -> Redrive:
        filters, started_at = decode(row[2]), self._dialect.decode_time(row[7])
        assert started_at is not None, "started_at is NOT NULL"
        since, limit, moved = filters["failed_after"], row[5], row[4]
        found = Redrive(
            id=row[0],
            kind=row[1],
            actor_type=filters["actor_type"],
            failed_after=None if since is None else datetime.fromisoformat(since),
            operation=filters.get("operation"),
            exception_class=filters.get("exception_class"),
            limit=limit,
            status=row[3],
            moved=moved,
            remaining=0,
            started_by=row[6],
            started_at=started_at,
            finished_at=self._dialect.decode_time(row[8]),
        )
        if not counted or not found.is_running:
            return found
        remaining = self._revivals[found.kind].count(tx, _selection(found, started_at))
        return replace(found, remaining=remaining if limit is None else min(remaining, limit - moved))


def _selection(filters: Filters | Redrive, before: datetime) -> Selection:
    return Selection(
        before=before,
        failed_after=filters.failed_after,
        actor_type=filters.actor_type,
        operation=filters.operation,
        exception_class=filters.exception_class,
    )


def _text(kind: RedriveKind, filters: Filters) -> str:
    """The filters as they are stored; equal ones have equal texts, in whatever zone their time was given."""
    since = filters.failed_after
    stored = {
        "actor_type": filters.actor_type,
        "failed_after": None if since is None else since.astimezone(UTC).isoformat(timespec="microseconds"),
    }
    if kind == "message":
        stored |= {"operation": filters.operation, "exception_class": filters.exception_class}
    return encode(stored, path="filters")
