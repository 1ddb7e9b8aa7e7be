"""Actors by type, by the beginning of their id, and by what holds them; each page with a cursor, none with an offset.

Of a type actors come in the order of their ids, which an index gives; what has no index is looked for in windows.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, bindparam, func, select

from flask_solid_objects.store.administration import Administration, InstanceReport
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.windows import WINDOW, Page, place_of, window

LeaseFilter: TypeAlias = Literal["held", "paused", "parked"]
# Behind every id with the same beginning: no character is greater, and none is longer.
_LAST = "\U0010ffff" * 191


class ActorPages:
    """Statements that list actors for operators."""

    def __init__(self, tables: Tables, dialect: Dialect, administration: Administration) -> None:
        self._tables, self._dialect, self._administration = tables, dialect, administration
        i = tables.instances
        rows, after = administration.select_reports(), bindparam("after", type_=i.c.id.type)
        most: ColumnElement[int] = bindparam("most")
        self._all = dialect.compile(rows.where(i.c.id > after).order_by(i.c.id).limit(most))
        actor_id = i.c.actor_id.type
        self._of_type = dialect.compile(
            rows.where(
                i.c.actor_type == bindparam("actor_type"),
                i.c.actor_id > bindparam("after_id", type_=actor_id),
                i.c.actor_id >= bindparam("first", type_=actor_id),
                i.c.actor_id <= bindparam("last", type_=actor_id),
            )
            .order_by(i.c.actor_id)
            .limit(most)
        )
        ids = window(select(i.c.id).where(i.c.id > after), i.c.id)
        self._end = dialect.compile(select(func.max(ids.c.id), func.count()))
        self._windows: dict[tuple[LeaseFilter, bool], Statement] = {}

    def every(self, tx: Transaction, *, after: str | None, most: int) -> Page[InstanceReport]:
        """All actors, by id of their row."""
        found = self._reports(tx, tx.rows(self._all, after=place_of(after, 0), most=most + 1))
        return Page(rows=found[:most], next=str(found[most - 1].id) if len(found) > most else None)

    def of_type(
        self, tx: Transaction, actor_type: str, *, prefix: str, after: str | None, most: int
    ) -> Page[InstanceReport]:
        """Actors of a type whose id begins with a prefix, by actor id."""
        encode = self._dialect.encode_text
        given = {"first": encode(prefix), "last": encode(prefix + _LAST), "after_id": encode(after or "")}
        found = self._reports(tx, tx.rows(self._of_type, actor_type=actor_type, most=most + 1, **given))
        return Page(rows=found[:most], next=found[most - 1].key.actor_id if len(found) > most else None)

    def by_lease(
        self, tx: Transaction, lease: LeaseFilter, *, actor_type: str | None, after: str | None, most: int
    ) -> Page[InstanceReport]:
        """Actors that something holds, among the next :data:`~.windows.WINDOW` rows by id."""
        start = place_of(after, 0)
        row = tx.one(self._end, after=start)
        end, searched = row if row is not None and row[1] else (start, 0)
        given: dict[str, Any] = {"after": start, "end": end, "now": self._dialect.encode_time(tx.now())}
        typed = {"actor_type": actor_type} if actor_type is not None else {}
        found = self._reports(tx, tx.rows(self._window(lease, bool(typed)), most=most + 1, **given, **typed))
        if len(found) > most:
            return Page(rows=found[:most], next=str(found[most - 1].id), searched=searched)
        return Page(rows=found, next=str(end) if searched == WINDOW else None, searched=searched)

    def _reports(self, tx: Transaction, rows: list[tuple[Any, ...]]) -> list[InstanceReport]:
        return [self._administration.report_of(row, tx.now()) for row in rows]

    def _window(self, lease: LeaseFilter, typed: bool) -> Statement:
        statement = self._windows.get((lease, typed))
        if statement is None:
            i = self._tables.instances
            held = {
                "held": i.c.activation_owner_id.is_not(None),
                "paused": i.c.paused_at.is_not(None),
                "parked": i.c.parked_until > bindparam("now", type_=i.c.parked_until.type),
            }[lease]
            here = (i.c.id > bindparam("after", type_=i.c.id.type), i.c.id <= bindparam("end", type_=i.c.id.type))
            rows = self._administration.select_reports().where(*here, held)
            if typed:
                rows = rows.where(i.c.actor_type == bindparam("actor_type"))
            statement = self._windows[lease, typed] = self._dialect.compile(
                rows.order_by(i.c.id).limit(bindparam("most"))
            )
        return statement
