"""Effects and broadcasts as operators see them: pages, newest first, and the revival of a dead one.

A revived row keeps its public id and its last error; only a dead one changes, so that pressing twice does it once.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, bindparam, func, select, update

from flask_solid_objects.store.broadcasts import BroadcastRow, Broadcasts
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.effects import EffectRow, Effects
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction

_NEWEST = 2**63 - 1


class _Pages:
    """Pages of one table, by status and below an id, of all actor types or of one."""

    def __init__(self, rows: Select[*tuple[Any, ...]], table: Table, actor_type: ColumnElement[str], dialect: Dialect):
        page = (
            rows.where(table.c.status == bindparam("status"), table.c.id < bindparam("before"))
            .order_by(table.c.id.desc())
            .limit(bindparam("most"))
        )
        self._all = dialect.compile(page)
        self._of_type = dialect.compile(page.where(actor_type == bindparam("actor_type")))

    def read(
        self, tx: Transaction, *, status: str, actor_type: str | None, before: int | None, most: int
    ) -> list[tuple[Any, ...]]:
        given = {"status": status, "before": _NEWEST if before is None else before, "most": most}
        if actor_type is None:
            return tx.rows(self._all, **given)
        return tx.rows(self._of_type, **given, actor_type=actor_type)


class OutboxAdministration:
    """Statements for operators on ``effects`` and ``broadcasts``."""

    def __init__(self, tables: Tables, dialect: Dialect, effects: Effects, broadcasts: Broadcasts) -> None:
        e, b, actor_type = tables.effects, tables.broadcasts, tables.instances.c.actor_type
        self._effects, self._broadcasts = effects, broadcasts
        self._effect_pages = _Pages(effects.select_rows(), e, actor_type, dialect)
        self._broadcast_pages = _Pages(broadcasts.select_rows(), b, actor_type, dialect)
        self._effect_revival = dialect.compile(revival(e, dialect).where(e.c.id == bindparam("w_id")))
        self._broadcast_revival = dialect.compile(revival(b, dialect).where(b.c.id == bindparam("w_id")))
        self._lock_broadcast = _lock(dialect, b, b.c.broadcast_id)

    # -- effects ------------------------------------------------------------------------------

    def effects(
        self, tx: Transaction, *, status: str, actor_type: str | None, before: int | None, most: int
    ) -> list[EffectRow]:
        """Effects of a status, messages to actors included; those below an id, which is the last of the page before."""
        rows = self._effect_pages.read(tx, status=status, actor_type=actor_type, before=before, most=most)
        return [self._effects.row_of(row) for row in rows]

    def revive_effect(self, tx: Transaction, row: EffectRow) -> EffectRow:
        """Let a dead effect start from the beginning, now; its row is locked."""
        if row.status == "dead":
            tx.write(self._effect_revival, w_id=row.id)
        return self._effects.find(tx, row.effect_id) or row

    # -- broadcasts ---------------------------------------------------------------------------

    def broadcasts(
        self, tx: Transaction, *, status: str, actor_type: str | None, before: int | None, most: int
    ) -> list[BroadcastRow]:
        """Broadcasts of a status; those below an id, which is the last of the page before."""
        rows = self._broadcast_pages.read(tx, status=status, actor_type=actor_type, before=before, most=most)
        return [self._broadcasts.row_of(row) for row in rows]

    def lock_broadcast(self, tx: Transaction, broadcast_id: str) -> BroadcastRow | None:
        """Read a broadcast for a change; the actor's row is locked before."""
        if tx.one(self._lock_broadcast, public_id=broadcast_id) is None:
            return None
        return self._broadcasts.find(tx, broadcast_id)

    def revive_broadcast(self, tx: Transaction, row: BroadcastRow) -> BroadcastRow:
        """Let a dead broadcast start from the beginning, now; its row is locked."""
        if row.status == "dead":
            tx.write(self._broadcast_revival, w_id=row.id)
        return self._broadcasts.find(tx, row.broadcast_id) or row


def revival(table: Table, dialect: Dialect) -> Any:
    """The UPDATE that makes dead rows of an outbox pending again, with all their attempts before them.

    The time of their end stays: it tells the checker that a message that comes after later ones was revived.
    """
    values = {
        "status": "pending",
        "attempt_count": 0,
        "available_at": dialect.now,
        "claimed_by": None,
        "claimed_at": None,
        "updated_at": dialect.now,
    }
    if "completed_at" in table.c:
        values["completed_at"] = func.coalesce(table.c.completed_at, dialect.now)
    return update(table).where(table.c.status == "dead").values(values)


def _lock(dialect: Dialect, table: Table, public_id: ColumnElement[str]) -> Statement:
    return dialect.compile(select(table.c.id).where(public_id == bindparam("public_id")).with_for_update())
