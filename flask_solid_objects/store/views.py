"""What views read of actors: the pair of incarnation and revision, and the committed state that belongs to it.

One statement sees one snapshot, so that what is shown and the pair that it is shown with belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, bindparam, select

from flask_solid_objects.payloads import decode
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey


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
        by_key = (i.c.actor_type == bindparam("actor_type"), i.c.actor_id == bindparam("actor_id"))
        self._by_key = dialect.compile(self._rows().where(*by_key))
        self._rows_of = Listed(dialect, i.c.id, lambda ids: self._rows().where(i.c.id.in_(ids)))
        revisions = select(i.c.id, i.c.state_revision)
        self._revisions_of = Listed(dialect, i.c.id, lambda ids: revisions.where(i.c.id.in_(ids)))

    def find(self, tx: Transaction, key: ActorKey) -> ViewRow | None:
        """The living incarnation of an identity."""
        row = tx.one(self._by_key, actor_type=key.actor_type, actor_id=self._dialect.encode_text(key.actor_id))
        return None if row is None else self._row(row)

    def revisions(self, tx: Transaction, ids: Sequence[int]) -> dict[int, int]:
        """The revisions of incarnations that are known to have been there; who is missing is gone."""
        return {row[0]: row[1] for row in self._revisions_of.rows(tx, ids)}

    def rows(self, tx: Transaction, ids: Sequence[int]) -> list[ViewRow]:
        return [self._row(row) for row in self._rows_of.rows(tx, ids)]

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
