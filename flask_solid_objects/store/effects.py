"""The rows of external effects: found by the names that a process can run, claimed, ended under their claim.

A claim is a status with the name of a process and the number of the attempt; whoever ends an effect proves both, so
that a process that was declared dead meanwhile changes nothing. The actor's row is locked before (protocol 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, bindparam, literal, select, union_all, update

from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """A stored effect; ``attempts`` includes the one that runs."""

    id: int
    effect_id: str
    name: str
    instance_id: int
    message_id: int
    actor: ActorKey
    arguments: str
    attempts: int
    max_attempts: int
    on_success: str | None
    on_failure: str | None
    status: str
    claimed_by: str | None
    available_at: datetime
    created_at: datetime
    updated_at: datetime
    result: str | None
    error: str | None
    # Every attempt was begun already, and the last one ended without a word.
    is_exhausted: bool = False


class Effects:
    """Statements on ``effects`` whose work is outside."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        e = self._table = tables.effects
        self._tables, self._dialect = tables, dialect
        self._looks: dict[int, Statement] = {}
        first = self._probe("name").add_columns(e.c.attempt_count, e.c.max_attempts)
        self._lock_first = dialect.compile(first.with_for_update(skip_locked=True))
        self._by_id = dialect.compile(self.select_rows().where(e.c.id == bindparam("id")))
        self._by_effect_id = dialect.compile(self.select_rows().where(e.c.effect_id == bindparam("effect_id")))
        self._lock = dialect.compile(select(e.c.id).where(e.c.effect_id == bindparam("effect_id")).with_for_update())
        changed = update(e).values(updated_at=dialect.now)
        claimed = changed.where(e.c.id == bindparam("w_id")).values(status="processing", claimed_at=dialect.now)
        self._claim = dialect.compile(claimed, "claimed_by", "attempt_count")
        mine = (
            e.c.id == bindparam("w_id"),
            e.c.status == "processing",
            e.c.claimed_by == bindparam("w_process"),
            e.c.attempt_count == bindparam("w_attempt"),
        )
        free = {"claimed_by": None, "claimed_at": None}
        self._finish = dialect.compile(
            changed.where(*mine).values(**free, completed_at=dialect.now), "status", "result", "error"
        )
        self._retry = dialect.compile(changed.where(*mine).values(**free, status="pending"), "available_at", "error")
        uncounted = e.c.attempt_count - 1
        self._hand_back = dialect.compile(
            changed.where(*mine).values(**free, status="pending", attempt_count=uncounted)
        )
        r, p = tables.effect_recoveries, tables.processes
        opted_in = select(literal(1)).where(r.c.effect_id == e.c.effect_id, r.c.recovery_operation.is_not(None))
        held = (e.c.claimed_by == bindparam("w_process"), e.c.status == "processing", ~opted_in.exists())
        released = changed.where(*held).values(**free, status="pending", available_at=dialect.now)
        self._release = dialect.compile(released)
        self._give_back = dialect.compile(
            changed.where(e.c.claimed_by == bindparam("w_process"), e.c.status == "processing").values(
                **free, status="pending", attempt_count=uncounted
            )
        )
        self._release_uncounted = dialect.compile(released.values(attempt_count=uncounted))
        self._give_free = Listed(
            dialect,
            e.c.id,
            lambda ids: changed.where(e.c.id.in_(ids)).values(**free, status="pending", available_at=dialect.now),
        )
        self._lock_running = Listed(
            dialect,
            e.c.id,
            lambda ids: (
                select(e.c.id)
                .where(e.c.id.in_(ids), e.c.status == "processing")
                .order_by(e.c.id)
                .with_for_update(skip_locked=True)
            ),
        )
        cutoff = bindparam("cutoff", type_=p.c.last_heartbeat_at.type)
        alive = select(literal(1)).where(
            p.c.id == e.c.claimed_by, p.c.shutdown_state != "stopped", p.c.last_heartbeat_at > cutoff
        )
        orphaned = select(e.c.id).where(e.c.status == "processing", ~alive.exists(), ~opted_in.exists())
        self._orphans = dialect.compile(orphaned.order_by(e.c.id).limit(bindparam("most")))
        self._still_orphaned = Listed(dialect, e.c.id, lambda ids: orphaned.where(e.c.id.in_(ids)))

    # -- delivery -----------------------------------------------------------------------------

    def ready_names(self, tx: Transaction, names: Sequence[str]) -> list[str]:
        """Those of the names that have an effect due, the longest due first; one look, whatever waits."""
        if not names:
            return []
        statement = self._looks.get(len(names))
        if statement is None:
            parts = []
            for number in range(len(names)):
                part = self._probe(f"name_{number}").subquery(f"probe_{number}")
                parts.append(select(literal(number), part.c.available_at))
            statement = self._looks[len(names)] = self._dialect.compile(union_all(*parts))
        given = {f"name_{number}": name for number, name in enumerate(names)}
        found = tx.rows(statement, now=self._dialect.encode_time(tx.now()), **given)
        return [names[int(number)] for number, _ in sorted(found, key=lambda row: row[1])]

    def claim_first(self, tx: Transaction, name: str, process_id: str) -> EffectRow | None:
        """Claim the longest due effect of a name that nobody else has locked; counts the attempt that begins."""
        found = tx.one(self._lock_first, name=name, now=self._dialect.encode_time(tx.now()))
        if found is None:
            return None
        effect_row_id, _, attempts, most = found
        tx.write(self._claim, w_id=effect_row_id, claimed_by=process_id, attempt_count=min(attempts + 1, most))
        row = self._row(tx.one(self._by_id, id=effect_row_id))
        return None if row is None else replace(row, is_exhausted=attempts >= most)

    def finish(self, tx: Transaction, row: EffectRow, *, status: str, result: str | None, error: str | None) -> bool:
        """End an effect for good, as completed or dead; False when it is no longer ours."""
        return tx.write(self._finish, **self._mine(row), status=status, result=result, error=error) == 1

    def retry(self, tx: Transaction, row: EffectRow, *, at: datetime, error: str) -> bool:
        """Let it be tried again at a time; False when it is no longer ours."""
        return tx.write(self._retry, **self._mine(row), available_at=self._dialect.encode_time(at), error=error) == 1

    def hand_back(self, tx: Transaction, row: EffectRow) -> bool:
        """Give it back uncounted: its run was interrupted before it said anything."""
        return tx.write(self._hand_back, **self._mine(row)) == 1

    def release(self, tx: Transaction, process_id: str, *, counted: bool) -> int:
        """Free what a process held, but for effects that opted into recovery; how many there were."""
        return tx.write(self._release if counted else self._release_uncounted, w_process=process_id)

    def orphans(self, tx: Transaction, threshold: float, most: int) -> list[int]:
        """Row ids of what is held by nobody alive, such as a claim that committed after its process was swept."""
        return [row[0] for row in tx.rows(self._orphans, cutoff=self._silent_before(tx, threshold), most=most)]

    def release_orphans(self, tx: Transaction, row_ids: Sequence[int], threshold: float) -> int:
        """Free those that are still held by nobody alive; counted.

        Judged by a plain read under their locks: what the registry says must be newer than the row, and MySQL would
        lock the rows of the registry that an UPDATE looks at (protocol 3.1, 3.2).
        """
        locked = [row[0] for row in self._lock_running.rows(tx, row_ids)]
        cutoff = self._silent_before(tx, threshold)
        return self._give_free.write(tx, [row[0] for row in self._still_orphaned.rows(tx, locked, cutoff=cutoff)])

    def _silent_before(self, tx: Transaction, threshold: float) -> Any:
        return self._dialect.encode_time(tx.now() - timedelta(seconds=threshold))

    def give_back(self, tx: Transaction, process_id: str) -> int:
        """After an unknown claim: whatever this process holds has not begun to run."""
        return tx.write(self._give_back, w_process=process_id)

    # -- looks --------------------------------------------------------------------------------

    def find(self, tx: Transaction, effect_id: str) -> EffectRow | None:
        return self._row(tx.one(self._by_effect_id, effect_id=effect_id))

    def lock(self, tx: Transaction, effect_id: str) -> EffectRow | None:
        """Read an effect for a change; the actor's row is locked before."""
        if tx.one(self._lock, effect_id=effect_id) is None:
            return None
        return self.find(tx, effect_id)

    def select_rows(self) -> Select[*tuple[Any, ...]]:
        """The columns that :meth:`row_of` reads."""
        e, i = self._tables.effects, self._tables.instances
        return select(
            *(e.c.id, e.c.effect_id, e.c.name, e.c.instance_id, e.c.message_id, i.c.actor_type, i.c.actor_id),
            *(e.c.arguments, e.c.attempt_count, e.c.max_attempts, e.c.success_operation, e.c.failure_operation),
            *(e.c.status, e.c.claimed_by, e.c.available_at, e.c.created_at, e.c.updated_at, e.c.result, e.c.error),
        ).join(i, i.c.id == e.c.instance_id)

    def row_of(self, row: tuple[Any, ...]) -> EffectRow:
        decode = self._dialect.decode_time
        available_at, created_at, updated_at = decode(row[14]), decode(row[15]), decode(row[16])
        assert available_at is not None and created_at is not None and updated_at is not None, "all are NOT NULL"
        return EffectRow(
            id=row[0],
            effect_id=row[1],
            name=row[2],
            instance_id=row[3],
            message_id=row[4],
            actor=ActorKey(actor_type=row[5], actor_id=self._dialect.decode_text(row[6])),
            arguments=row[7],
            attempts=row[8],
            max_attempts=row[9],
            on_success=row[10],
            on_failure=row[11],
            status=row[12],
            claimed_by=row[13],
            available_at=available_at,
            created_at=created_at,
            updated_at=updated_at,
            result=self._dialect.decode_json(row[17]),
            error=row[18],
        )

    # -- parts --------------------------------------------------------------------------------

    def _row(self, row: tuple[Any, ...] | None) -> EffectRow | None:
        return None if row is None else self.row_of(row)

    @staticmethod
    def _mine(row: EffectRow) -> dict[str, Any]:
        return {"w_id": row.id, "w_process": row.claimed_by, "w_attempt": row.attempts}

    def _probe(self, name: str) -> Select[*tuple[Any, ...]]:
        e = self._table
        return (
            select(e.c.id, e.c.available_at)
            .where(
                e.c.status == "pending",
                e.c.name == bindparam(name, type_=e.c.name.type),
                e.c.available_at <= bindparam("now", type_=e.c.available_at.type),
            )
            .order_by(e.c.available_at, e.c.id)
            .limit(1)
        )
