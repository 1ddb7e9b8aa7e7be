"""One kind of old rows: walk them in the order of an index, find those that nothing needs any more, delete these.

A walk reads so many rows and not until it has found so many, so that a batch is bounded whatever is still needed. Rows
are locked before they are judged: a foreign key of somebody's open transaction would be overlooked otherwise. They are
judged by plain reads, because MySQL locks what a subquery of a DELETE has read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, and_, bindparam, case, delete, null, or_, select

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a walk has seen of a row: its key, where it stands in the index, and its actor type if that matters."""

    key: Any
    place: Any
    actor_type: str | None


class Sweep:
    """Statements on one table; every one of them is bounded by a limit or a list.

    :param key: the primary key.
    :param age: what has to lie before the cutoff.
    :param order: an index has the columns of ``within``, this one and the key, or just the key without it.
    :param within: conditions that the walk can be cut to, because the same index begins with them.
    :param bounded: no row is old whose ``order`` is not before the cutoff, so that the walk ends there.
    :param unneeded: conditions of the rest, judged once the row is locked.
    :param deleted: the column to delete by when it is the row of another table, and what it is called in this one.
    """

    def __init__(
        self,
        dialect: Dialect,
        key: Column[Any],
        *,
        age: ColumnElement[Any],
        order: Column[Any] | None = None,
        within: Sequence[ColumnElement[bool]] = (),
        bounded: bool = True,
        unneeded: Sequence[ColumnElement[bool]] = (),
        actor_type: Column[str] | None = None,
        deleted: tuple[Column[Any], Column[Any]] | None = None,
    ) -> None:
        self._dialect = dialect
        self._first_place: Any = dialect.encode_time(datetime.fromisoformat("1971-01-01T00:00:00+00:00"))
        self._first_key: Any = "" if key.type.python_type is str else 0
        place = null() if order is None else order
        kind = null() if actor_type is None else actor_type
        walk = select(key, place, kind).where(*within)
        self._bounded = bounded and order is not None
        self._ordered = order is not None
        if order is None:
            walk = walk.where(key > bindparam("after_key", type_=key.type)).order_by(key)
        else:
            after = bindparam("after_place", type_=order.type)
            # In this form every database enters the index at the place; the second half only drops the equal ones.
            beyond = or_(order > after, key > bindparam("after_key", type_=key.type))
            walk = walk.where(order >= after, beyond).order_by(order, key)
            if bounded:
                walk = walk.where(order < bindparam("cutoff", type_=order.type))
        self._walk = dialect.compile(walk.limit(bindparam("most")))
        self._lock = Listed(
            dialect,
            key,
            lambda keys: select(key).where(key.in_(keys)).order_by(key).with_for_update(skip_locked=True),
        )
        # Hidden in a CASE, so that the rows are looked up by their keys and never by an index of these conditions.
        old = case((and_(*within, age < bindparam("cutoff", type_=age.type)), 1), else_=0) == 1
        shown, by = deleted or (key, key)
        self._judge = Listed(dialect, key, lambda keys: select(key, shown).where(key.in_(keys), old, *unneeded))
        self._delete = Listed(dialect, by, lambda keys: delete(by.table).where(by.in_(keys)))

    def walk(self, tx: Transaction, after: Row | None, *, cutoff: datetime, most: int) -> list[Row]:
        """The next rows in the order of the index, needed or not."""
        parameters: dict[str, Any] = {"most": most, "after_key": self._first_key if after is None else after.key}
        if self._ordered:
            parameters["after_place"] = self._first_place if after is None else after.place
        if self._bounded:
            parameters["cutoff"] = self._dialect.encode_time(cutoff)
        return [Row(key=row[0], place=row[1], actor_type=row[2]) for row in tx.rows(self._walk, **parameters)]

    def lock(self, tx: Transaction, keys: Sequence[Any]) -> list[Any]:
        """Lock those that nobody else has locked; whoever has is using them, or prunes them itself."""
        return [row[0] for row in self._lock.rows(tx, keys)]

    def unneeded(self, tx: Transaction, keys: Sequence[Any], *, cutoff: datetime) -> list[Any]:
        """Those of the keys that are old enough and that nothing needs now."""
        return [row[0] for row in self._judge.rows(tx, keys, cutoff=self._dialect.encode_time(cutoff))]

    def delete(self, tx: Transaction, keys: Sequence[Any], *, cutoff: datetime) -> int:
        """Delete those of the locked rows that are still unneeded; how many these were."""
        judged = self._judge.rows(tx, keys, cutoff=self._dialect.encode_time(cutoff))
        return self._delete.write(tx, [row[1] for row in judged])
