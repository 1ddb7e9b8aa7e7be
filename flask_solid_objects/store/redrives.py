"""Redrives: durable tasks that revive dead effects or broadcasts, one batch and one transaction at a time.

A batch locks its task first and its rows by id after that, so that two runners of one task take turns and never exceed
its limit. Only what was dead when the task started is revived: what dies again meanwhile waits for another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import Table, bindparam, func, select, update

from flask_solid_objects.payloads import decode, encode
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.outbox_administration import revival
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction

RedriveKind: TypeAlias = Literal["effect", "broadcast"]
RedriveStatus: TypeAlias = Literal["running", "completed", "cancelled"]
KINDS: tuple[RedriveKind, ...] = ("effect", "broadcast")
_START_TRIES = 3
_FAR_BACK = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """A task; ``remaining`` is what it would still revive, counted when it was read, and 0 once it has ended."""

    id: str
    kind: RedriveKind
    actor_type: str | None
    failed_after: datetime | None
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


class Redrives:
    """Statements on ``redrives``, and on the rows that they revive."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
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
        self._outboxes = {
            "effect": _Outbox(tables.effects, tables, dialect),
            "broadcast": _Outbox(tables.broadcasts, tables, dialect),
        }

    # -- tasks --------------------------------------------------------------------------------

    def start(
        self,
        tx: Transaction,
        redrive_id: str,
        kind: RedriveKind,
        *,
        actor_type: str | None,
        failed_after: datetime | None,
        limit: int | None,
        operator: str | None,
    ) -> Redrive:
        """Make a task, or find and lock the one of the same kind and filters that runs; the id tells which."""
        known = tx.one(self._lock, id=redrive_id)
        if known is not None:
            # Made by a commit that was in doubt; it may have ended meanwhile.
            return self._redrive(tx, known)
        since = None if failed_after is None else failed_after.astimezone(UTC).isoformat(timespec="microseconds")
        filters = encode({"actor_type": actor_type, "failed_after": since}, path="filters")
        scope = f"{kind}:{hashlib.sha256(filters.encode()).hexdigest()}"
        for _ in range(_START_TRIES):
            tx.write(
                self._insert,
                id=redrive_id,
                kind=kind,
                filters=filters,
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

    def move(self, tx: Transaction, redrive: Redrive, after: int, most: int) -> tuple[int, int | None]:
        """Revive the next dead rows of a locked task above an id: how many, and the last id that was looked at."""
        outbox = self._outboxes[redrive.kind]
        ids = outbox.find(tx, self._values(redrive), after, most)
        if not ids:
            return 0, None
        tx.checkpoints.reach("redrive.found", redrive_id=redrive.id, ids=ids)
        moved = outbox.revive(tx, self._values(redrive), ids)
        tx.write(self._advance, w_id=redrive.id, moved=redrive.moved + moved)
        return moved, ids[-1]

    # -- parts --------------------------------------------------------------------------------

    def _values(self, redrive: Redrive) -> dict[str, Any]:
        encode_time = self._dialect.encode_time
        return {
            "started_at": encode_time(redrive.started_at),
            "failed_after": encode_time(redrive.failed_after or _FAR_BACK),
            "actor_type": redrive.actor_type,
        }

    def _redrive(self, tx: Transaction, row: tuple[Any, ...], *, counted: bool = True) -> Redrive:
        filters, started_at = decode(row[2]), self._dialect.decode_time(row[7])
        assert started_at is not None, "started_at is NOT NULL"
        since, limit, moved = filters["failed_after"], row[5], row[4]
        found = Redrive(
            id=row[0],
            kind=row[1],
            actor_type=filters["actor_type"],
            failed_after=None if since is None else datetime.fromisoformat(since),
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
        remaining = self._outboxes[found.kind].count(tx, self._values(found))
        return replace(found, remaining=remaining if limit is None else min(remaining, limit - moved))


class _Outbox:
    """The dead rows of one table that a task is about."""

    def __init__(self, table: Table, tables: Tables, dialect: Dialect) -> None:
        i, c = tables.instances, table.c
        dead = (
            c.status == "dead",
            c.updated_at <= bindparam("started_at", type_=c.updated_at.type),
            c.updated_at >= bindparam("failed_after", type_=c.updated_at.type),
        )
        of_type = c.instance_id.in_(select(i.c.id).where(i.c.actor_type == bindparam("actor_type")))
        next_ids = select(c.id).where(*dead, c.id > bindparam("after")).order_by(c.id).limit(bindparam("most"))
        counted = select(func.count()).select_from(table).where(*dead)
        self._next, self._next_of_type = dialect.compile(next_ids), dialect.compile(next_ids.where(of_type))
        self._count, self._count_of_type = dialect.compile(counted), dialect.compile(counted.where(of_type))
        self._lock = Listed(
            dialect, c.id, lambda ids: select(c.id).where(c.id.in_(ids), *dead).order_by(c.id).with_for_update()
        )
        self._revive = Listed(dialect, c.id, lambda ids: revival(table, dialect).where(c.id.in_(ids)))

    def find(self, tx: Transaction, values: Mapping[str, Any], after: int, most: int) -> list[int]:
        """Ids in their order; nothing is locked, since a look by actor type would lock actors too."""
        return [
            row[0] for row in self._rows(tx, self._next, self._next_of_type, {**values, "after": after, "most": most})
        ]

    def count(self, tx: Transaction, values: Mapping[str, Any]) -> int:
        return int(self._rows(tx, self._count, self._count_of_type, values)[0][0])

    def revive(self, tx: Transaction, values: Mapping[str, Any], ids: Sequence[int]) -> int:
        """Lock those that are still as they were found, in the order of their ids, and revive them."""
        given = {name: values[name] for name in ("started_at", "failed_after")}
        locked = [row[0] for row in self._lock.rows(tx, ids, **given)]
        return self._revive.write(tx, locked)

    @staticmethod
    def _rows(tx: Transaction, all_types: Statement, one_type: Statement, values: Mapping[str, Any]) -> list[Any]:
        given = dict(values)
        if given["actor_type"] is not None:
            return tx.rows(one_type, **given)
        del given["actor_type"]
        return tx.rows(all_types, **given)
