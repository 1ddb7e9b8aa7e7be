"""Reads whose cost is known whatever the tables hold: capped counts, and filters over a window of rows.

A count stops at a limit. A filter that no index serves looks at so many rows from where the page before ended, and says
where it stopped looking, so that a page never walks a whole table (hazard H111).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, ColumnElement, ScalarSelect, Select, bindparam, func, literal, or_, select

_T = TypeVar("_T")

# A number above it is shown as "10000+".
MOST_COUNTED = 10_000
# Rows that one page of a filter without an index looks at.
WINDOW = 5_000
# Of an id; more would not fit into 64 bits.
_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[_T]):
    """Rows of a page; ``next`` is the cursor of the next one, None at the end.

    ``searched`` is how many rows were looked at, where a filter has no index.
    """

    rows: list[_T]
    next: str | None
    searched: int | None = None


def place_of(cursor: str | None, first: int) -> int:
    """The row id at which a page begins.

    :raises ValueError: no page was ever given this cursor.
    """
    if cursor is None:
        return first
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _DIGITS:
        raise ValueError(f"{cursor!r} is no cursor.")
    return int(cursor)


def capped(id_column: Column[Any], *conditions: ColumnElement[bool], most: int = MOST_COUNTED) -> ScalarSelect[Any]:
    """Count rows up to one more than ``most``."""
    some = select(literal(1).label("one")).select_from(id_column.table).where(*conditions).limit(most + 1)
    return select(func.count()).select_from(some.subquery()).scalar_subquery()


def if_given(column: ColumnElement[str]) -> ColumnElement[bool]:
    """A filter by the parameter of the column's name, which leaves out nothing when it is NULL."""
    wanted = bindparam(column.key, type_=column.type)
    return or_(wanted.is_(None), column == wanted)


def window(rows: Select[*tuple[Any, ...]], order: ColumnElement[Any], most: int = WINDOW) -> Any:
    """The next rows in an order, as a subquery that a filter can look through."""
    return rows.order_by(order).limit(most).subquery()
