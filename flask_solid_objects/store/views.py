"""What views read of actors: the pair of incarnation and revision, and the committed state that belongs to it.

One statement sees one snapshot, so that what is shown and the pair that it is shown with belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Select, and_, bindparam, or_, select

from flask_solid_objects.payloads import decode
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey

_LENGTHS = (1, 5, 25, 200)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRow:
    """One incarnation as views see it; ``changed_at`` says at which revision each observable changed last."""

    id: int
    key: ActorKey
    revision: int
    state: str
    version: int
    changed_at: dict[str, int]

    def changed_since(self, incarnation: int, revision: float) -> list[str] | None:
        """The observables that changed after a pair; None when nobody can say, as after a new incarnation."""
        if incarnation != self.id:
            return None
        return [name for name, at in self.changed_at.items() if at > revision]


class Views:
    """Reads for live views; nothing is locked or written."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        i = self._table = tables.instances
        self._dialect = dialect
        self._rows_of = Listed(dialect, i.c.id, lambda ids: self._rows().where(i.c.id.in_(ids)))
        revisions = select(i.c.id, i.c.state_revision)
        self._revisions_of = Listed(dialect, i.c.id, lambda ids: revisions.where(i.c.id.in_(ids)))
        self._by_keys: dict[int, Statement] = {}

    def find(self, tx: Transaction, key: ActorKey) -> ViewRow | None:
        """The living incarnation of an identity."""
        return next(iter(self.find_many(tx, [key])), None)

    def find_many(self, tx: Transaction, keys: Sequence[ActorKey]) -> list[ViewRow]:
        """The same of several; who was never used, or is gone, is missing."""
        found: list[ViewRow] = []
        for chunk in _chunks(keys):
            bound: dict[str, Any] = {}
            for n, key in enumerate(chunk):
                bound |= {f"type_{n}": key.actor_type, f"id_{n}": self._dialect.encode_text(key.actor_id)}
            found += map(self._row, tx.rows(self._of_keys(len(chunk)), **bound))
        return found

    def revisions(self, tx: Transaction, ids: Sequence[int]) -> dict[int, int]:
        """The revisions of incarnations that are known to have been there; who is missing is gone."""
        return {row[0]: row[1] for row in self._revisions_of.rows(tx, ids)}

    def rows(self, tx: Transaction, ids: Sequence[int]) -> list[ViewRow]:
        return [self._row(row) for row in self._rows_of.rows(tx, ids)]

    def _of_keys(self, length: int) -> Statement:
        statement = self._by_keys.get(length)
        if statement is None:
            i = self._table
            same = (
                and_(i.c.actor_type == bindparam(f"type_{n}"), i.c.actor_id == bindparam(f"id_{n}"))
                for n in range(length)
            )
            statement = self._by_keys[length] = self._dialect.compile(self._rows().where(or_(*same)))
        return statement

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


def _chunks(items: Sequence[_T]) -> Iterator[list[_T]]:
    """Of few lengths, so that few statements are compiled; what lacks is filled up with the last one."""
    for start in range(0, len(items), _LENGTHS[-1]):
        chunk = list(items[start : start + _LENGTHS[-1]])
        length = next(length for length in _LENGTHS if length >= len(chunk))
        yield chunk + [chunk[-1]] * (length - len(chunk))
