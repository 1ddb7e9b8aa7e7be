"""What views read of actors: the pair of incarnation and revision, and the committed state that belongs to it.

One statement sees one snapshot, so that what is shown and the pair that it is shown with belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, bindparam, select

from flask_solid_objects.payloads import decode
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey

_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRow:
    """One incarnation as views see it; ``changed_at`` says at which revision each observable changed last."""

    id: int
    key: ActorKey
    revision: int
    state: str
    version: int
    changed_at: dict[str, int]


class Views:
    """Reads for live views; nothing is locked or written."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        i = self._table = tables.instances
        self._dialect = dialect
        by_key = (i.c.actor_type == bindparam("actor_type"), i.c.actor_id == bindparam("actor_id"))
        self._by_key = dialect.compile(self._rows().where(*by_key))
        self._lists: dict[tuple[str, int], Statement] = {}

    def find(self, tx: Transaction, key: ActorKey) -> ViewRow | None:
        """The living incarnation of an identity."""
        row = tx.one(self._by_key, actor_type=key.actor_type, actor_id=self._dialect.encode_text(key.actor_id))
        return None if row is None else self._row(row)

    def revisions(self, tx: Transaction, ids: Sequence[int]) -> dict[int, int]:
        """The revisions of incarnations that are known to have been there; who is missing is gone."""
        return {row[0]: row[1] for row in self._many(tx, "revisions", ids)}

    def rows(self, tx: Transaction, ids: Sequence[int]) -> list[ViewRow]:
        return [self._row(row) for row in self._many(tx, "rows", ids)]

    def _many(self, tx: Transaction, what: str, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(ids), _AT_ONCE):
            chunk = list(ids[start : start + _AT_ONCE])
            # Few lengths, so that few statements are compiled; the rest is filled up with an id twice.
            length = next(size for size in (1, 5, 25, _AT_ONCE) if size >= len(chunk))
            chunk += [chunk[-1]] * (length - len(chunk))
            statement = self._lists.get((what, length))
            if statement is None:
                statement = self._lists[what, length] = self._compile(what, length)
            found += tx.rows(statement, **{f"id_{n}": row_id for n, row_id in enumerate(chunk)})
        return found

    def _compile(self, what: str, length: int) -> Statement:
        i = self._table
        wanted = i.c.id.in_([bindparam(f"id_{n}", type_=i.c.id.type) for n in range(length)])
        select_them = select(i.c.id, i.c.state_revision) if what == "revisions" else self._rows()
        return self._dialect.compile(select_them.where(wanted))

    def _rows(self) -> Select[*tuple[Any, ...]]:
        i = self._table
        return select(
            *(i.c.id, i.c.actor_type, i.c.actor_id, i.c.state_revision, i.c.state, i.c.state_version),
            i.c.observable_revisions,
        )

    def _row(self, row: tuple[Any, ...]) -> ViewRow:
        return ViewRow(
            id=row[0],
            key=ActorKey(actor_type=row[1], actor_id=self._dialect.decode_text(row[2])),
            revision=row[3],
            state=row[4],
            version=row[5],
            # Names of observables only: the mark of a change that touches none is no name.
            changed_at={name: at for name, at in (decode(row[6]) if row[6] else {}).items() if name.isidentifier()},
        )
