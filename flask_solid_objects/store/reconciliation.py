"""Reads that compare actors with the rest of an application: who is in use, who rests, whose owner is gone.

Pages go by the number of the incarnation, so that each costs the same however many actors there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy
from sqlalchemy import ColumnElement, Select, and_, bindparam, cast, exists, func, or_, select

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorEntry, ActorKey


class Reconciliation:
    """Statements on ``instances`` and on a column of the application's own."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        i = tables.instances
        self._tables, self._dialect = tables, dialect
        used = func.coalesce(i.c.last_used_at, i.c.created_at)
        self._columns = (i.c.id, i.c.actor_type, i.c.actor_id, used.label("used_at"))
        self._active = dialect.compile(self._page(i.c.paused_at.is_(None)))
        quiet = used <= bindparam("before", type_=i.c.created_at.type)
        self._resting = dialect.compile(self._page(and_(quiet, *(~each for each in self._pending()))))
        of_type = i.c.actor_type == bindparam("actor_type", type_=i.c.actor_type.type)
        state = select(i.c.actor_id, i.c.state).where(of_type)
        self._states = Listed(dialect, i.c.actor_id, lambda ids: state.where(i.c.actor_id.in_(ids)))

    def active(self, tx: Transaction, actor_type: str, *, after: int, most: int) -> list[ActorEntry]:
        """Actors that are not paused."""
        return self._entries(tx.rows(self._active, actor_type=actor_type, after=after, most=most))

    def without_pending_work(
        self, tx: Transaction, actor_type: str, *, quiet_for: float, after: int, most: int
    ) -> list[ActorEntry]:
        """Actors that were not used for so many seconds, and have nothing waiting, running, armed or undelivered."""
        before = self._dialect.encode_time(tx.now() - timedelta(seconds=quiet_for))
        return self._entries(tx.rows(self._resting, actor_type=actor_type, before=before, after=after, most=most))

    def orphaned(
        self, tx: Transaction, actor_type: str, owner: ColumnElement[Any], *, after: int, most: int
    ) -> list[ActorEntry]:
        """Actors whose id is not among the values of a column, which are compared as text, byte for byte."""
        i = self._tables.instances
        same = self._as_id(owner) == i.c.actor_id
        statement = self._dialect.compile(self._page(~exists(select(sqlalchemy.literal(1)).where(same)).correlate(i)))
        return self._entries(tx.rows(statement, actor_type=actor_type, after=after, most=most))

    def states(self, tx: Transaction, actor_type: str, actor_ids: Sequence[str]) -> dict[str, str]:
        """The stored state of actors by id, as JSON text; those that were never used are left out."""
        encode, decode = self._dialect.encode_text, self._dialect.decode_text
        found = self._states.rows(tx, [encode(each) for each in actor_ids], actor_type=actor_type)
        return {decode(actor_id): state for actor_id, state in found}

    def _page(self, condition: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
        i = self._tables.instances
        mine = i.c.actor_type == bindparam("actor_type", type_=i.c.actor_type.type)
        after = i.c.id > bindparam("after", type_=i.c.id.type)
        return select(*self._columns).where(mine, after, condition).order_by(i.c.id).limit(bindparam("most"))

    def _pending(self) -> list[ColumnElement[bool]]:
        t = self._tables
        i, e, r = t.instances, t.effects, t.reminders

        def some(table: Any, *conditions: Any) -> ColumnElement[bool]:
            return exists(select(table.c.id).where(table.c.instance_id == i.c.id, *conditions)).correlate(i)

        return [
            some(t.ready_messages),
            some(t.claimed_messages),
            some(r, or_(r.c.status == "scheduled", r.c.status == "paused")),
            some(e, or_(e.c.status == "pending", e.c.status == "processing")),
        ]

    def _as_id(self, owner: ColumnElement[Any]) -> ColumnElement[Any]:
        if self._dialect.name == "mysql":
            return cast(cast(owner, sqlalchemy.CHAR(191)), sqlalchemy.BINARY())
        return cast(owner, sqlalchemy.String)

    def _entries(self, rows: list[tuple[Any, ...]]) -> list[ActorEntry]:
        entries = []
        for row in rows:
            used_at: datetime | None = self._dialect.decode_time(row[3])
            assert used_at is not None, "one of both is NOT NULL"
            key = ActorKey(actor_type=row[1], actor_id=self._dialect.decode_text(row[2]))
            entries.append(ActorEntry(id=row[0], actor_type=key.actor_type, actor_id=key.actor_id, used_at=used_at))
        return entries
