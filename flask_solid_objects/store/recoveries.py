"""Effects that opted into recovery: which of them were abandoned, and their retirement.

An effect is abandoned when the process that ran it gave no sign of life for long enough. It is never run again, since
nobody knows how far it came; its actor is told instead. Lock order: actor, effect, binding.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, or_, select, update

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.effects import EffectRow
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What an effect opted into; it outlives the effect's row."""

    instance_id: int
    on_recovery: str | None
    on_status: str | None
    timeout: float | None
    retired_at: datetime | None


class Recoveries:
    """Statements on ``effect_recoveries`` and the effects that they bind."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        e, r, p = tables.effects, tables.effect_recoveries, tables.processes
        self._dialect = dialect
        silent = or_(p.c.id.is_(None), p.c.last_heartbeat_at <= bindparam("cutoff", type_=p.c.last_heartbeat_at.type))
        self._suspects = dialect.compile(
            select(e.c.id, e.c.instance_id, e.c.effect_id, r.c.recovery_timeout, p.c.last_heartbeat_at)
            .join(r, r.c.effect_id == e.c.effect_id)
            .outerjoin(p, p.c.id == e.c.claimed_by)
            .where(e.c.status == "processing", e.c.id > bindparam("after"))
            .where(r.c.recovery_operation.is_not(None), r.c.retired_at.is_(None), silent)
            .order_by(e.c.id)
            .limit(bindparam("most"))
        )
        self._binding = dialect.compile(
            select(r.c.instance_id, r.c.recovery_operation, r.c.status_operation, r.c.recovery_timeout, r.c.retired_at)
            .where(r.c.effect_id == bindparam("effect_id"))
            .with_for_update()
        )
        self._heartbeat = dialect.compile(select(p.c.last_heartbeat_at).where(p.c.id == bindparam("id")))
        self._end = dialect.compile(
            update(e)
            .where(e.c.id == bindparam("w_id"), e.c.status == "processing")
            .values(
                status="completed",
                claimed_by=None,
                claimed_at=None,
                completed_at=dialect.now,
                updated_at=dialect.now,
                result=None,
                error=None,
            )
        )
        self._retire = dialect.compile(
            update(r)
            .where(r.c.effect_id == bindparam("w_effect_id"), r.c.retired_at.is_(None))
            .values(retired_at=dialect.now, updated_at=dialect.now)
        )

    def suspects(self, tx: Transaction, *, threshold: float, after: int, most: int) -> list[tuple[int, int, str]]:
        """Row id, actor and effect id of those whose process is silent for the threshold, after an id; no lock.

        Some may have a longer timeout of their own, which :meth:`is_abandoned` judges.
        """
        cutoff = self._dialect.encode_time(tx.now() - timedelta(seconds=threshold))
        rows = tx.rows(self._suspects, cutoff=cutoff, after=after, most=most)
        return [(row[0], row[1], row[2]) for row in rows]

    def binding(self, tx: Transaction, effect_id: str) -> Binding | None:
        """Read a binding for a change; actor and effect are locked before."""
        row = tx.one(self._binding, effect_id=effect_id)
        if row is None:
            return None
        return Binding(
            instance_id=row[0],
            on_recovery=row[1],
            on_status=row[2],
            timeout=row[3],
            retired_at=self._dialect.decode_time(row[4]),
        )

    def is_abandoned(self, tx: Transaction, row: EffectRow, binding: Binding, threshold: float) -> bool:
        """Whether the process of a running effect is gone, or was silent for longer than both limits allow."""
        if row.status != "processing" or binding.on_recovery is None or binding.retired_at is not None:
            return False
        found: tuple[Any, ...] | None = None
        if row.claimed_by is not None:
            found = tx.one(self._heartbeat, id=row.claimed_by)
        if found is None:
            return True
        heartbeat = self._dialect.decode_time(found[0])
        assert heartbeat is not None, "it is NOT NULL"
        return heartbeat <= tx.now() - timedelta(seconds=max(threshold, binding.timeout or 0.0))

    def retire(self, tx: Transaction, row: EffectRow) -> bool:
        """End an abandoned effect without a result, once and for all."""
        if tx.write(self._end, w_id=row.id) != 1:
            return False
        return tx.write(self._retire, w_effect_id=row.effect_id) == 1
