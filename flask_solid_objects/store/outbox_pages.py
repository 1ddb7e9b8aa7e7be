"""Effects, broadcasts, reminders and dead letters as the dashboard lists them: newest first, by status and filters.

No index leads with a filter and then the id, so a filtered page looks through a window of rows (hazard H111).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Select, Table, bindparam, func, select

from flask_solid_objects.store.broadcasts import BroadcastRow, Broadcasts
from flask_solid_objects.store.dead_letters import DeadLetter, DeadLetters
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.effects import EffectRow, Effects
from flask_solid_objects.store.reminders import ReminderRow, Reminders
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.windows import WINDOW, Page, if_given

_T = TypeVar("_T", bound=EffectRow | BroadcastRow | ReminderRow | DeadLetter)
_NEWEST = 2**63 - 1


class _Listing(Generic[_T]):
    """One table, newest first."""

    def __init__(
        self,
        dialect: Dialect,
        table: Table,
        rows: Select[*tuple[Any, ...]],
        row_of: Callable[[tuple[Any, ...]], _T],
        *filters: ColumnElement[str],
    ) -> None:
        self._row_of: Callable[[tuple[Any, ...]], _T] = row_of
        below: ColumnElement[bool] = table.c.id < bindparam("before", type_=table.c.id.type)
        newest = table.c.id.desc()
        most: ColumnElement[int] = bindparam("most")
        self._filters = [str(column.key) for column in filters]
        wanted = [if_given(column) for column in filters]
        here = table.c.id >= bindparam("end", type_=table.c.id.type)
        has_status = "status" in table.c
        self._statements = {}
        for with_status in (False, True) if has_status else (False,):
            given = [table.c.status == bindparam("status")] if with_status else []
            ids = select(table.c.id).where(below, *given).order_by(newest).limit(WINDOW).subquery()
            self._statements[with_status] = (
                dialect.compile(rows.where(below, *given).order_by(newest).limit(most)),
                dialect.compile(select(func.min(ids.c.id), func.count()).select_from(ids)),
                dialect.compile(rows.where(below, here, *wanted, *given).order_by(newest).limit(most)),
            )

    def page(
        self, tx: Transaction, *, status: str | None, filters: Mapping[str, str | None], before: int | None, most: int
    ) -> Page[_T]:
        every, window, filtered = self._statements[status is not None]
        given: dict[str, Any] = {"before": _NEWEST if before is None else before}
        if status is not None:
            given["status"] = status
        wanted = {name: filters.get(name) for name in self._filters}
        if all(value is None for value in wanted.values()):
            rows = [self._row_of(row) for row in tx.rows(every, **given, most=most + 1)]
            return Page(rows=rows[:most], next=str(rows[most - 1].id) if len(rows) > most else None)
        found = tx.one(window, **given)
        end, searched = found if found is not None and found[1] else (0, 0)
        rows = [self._row_of(row) for row in tx.rows(filtered, **given, **wanted, end=end, most=most + 1)]
        if len(rows) > most:
            return Page(rows=rows[:most], next=str(rows[most - 1].id), searched=searched)
        return Page(rows=rows, next=str(end) if searched == WINDOW else None, searched=searched)


class OutboxPages:
    """The lists of the dashboard; each ``page`` takes status, filters and the id below which it begins."""

    def __init__(
        self,
        tables: Tables,
        dialect: Dialect,
        effects: Effects,
        broadcasts: Broadcasts,
        reminders: Reminders,
        dead_letters: DeadLetters,
    ) -> None:
        i, r, d = tables.instances.c.actor_type, tables.reminders, tables.dead_letters
        of_letters = (d.c.actor_type, d.c.operation, d.c.exception_class)
        self.effects = _Listing(dialect, tables.effects, effects.select_rows(), effects.row_of, i)
        self.broadcasts = _Listing(dialect, tables.broadcasts, broadcasts.select_rows(), broadcasts.row_of, i)
        self.reminders = _Listing(dialect, r, reminders.select_rows(), reminders.row_of, r.c.actor_type)
        self.dead_letters = _Listing(dialect, d, dead_letters.select_rows(), dead_letters.row_of, *of_letters)
