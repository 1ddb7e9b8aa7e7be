"""Find an actor that has work, at a cost that does not grow with anybody's backlog (protocol 4.5).

A plain look per registered type gives the order; then each type's probe locks for itself, skipping rows that others
hold. Never limit first and lock afterwards: a few locked candidates would hide a free one. Types that this process
does not know are not looked at, so they stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, bindparam, literal, select, union_all

from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.instances import Instance, Instances
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction


class Candidates:
    """Searches over the hints of ``instances`` and over ``claimed_messages``."""

    def __init__(self, tables: Tables, dialect: Dialect, instances: Instances) -> None:
        self._tables, self._dialect, self._instances = tables, dialect, instances
        i, c = tables.instances, tables.claimed_messages
        self._looks: dict[int, Statement] = {}
        probe = self._probe("actor_type")
        self._lock_first = dialect.compile(probe.with_for_update(key_share=True, skip_locked=True))
        self._first = dialect.compile(probe)
        self._expired = dialect.compile(
            select(c.c.instance_id)
            .join(i, i.c.id == c.c.instance_id)
            .where(i.c.activation_expires_at <= bindparam("now", type_=i.c.activation_expires_at.type))
            .order_by(i.c.activation_expires_at, i.c.id)
            .limit(bindparam("most"))
        )

    def ready_types(self, tx: Transaction, types: Sequence[str]) -> list[str]:
        """Those of the types that have an actor with work now, the one that waits longest first."""
        if not types:
            return []
        statement = self._looks.get(len(types))
        if statement is None:
            parts = []
            for number in range(len(types)):
                part = self._probe(f"type_{number}").subquery(f"probe_{number}")
                parts.append(select(literal(number), part.c.ready_at))
            statement = self._looks[len(types)] = self._dialect.compile(union_all(*parts))
        names = {f"type_{number}": name for number, name in enumerate(types)}
        found = tx.rows(statement, now=self._dialect.encode_time(tx.now()), **names)
        return [types[int(number)] for number, _ in sorted(found, key=lambda row: row[1])]

    def lock_first(self, tx: Transaction, actor_type: str) -> Instance | None:
        """Lock the longest-waiting free actor of a type that nobody else has locked."""
        row = tx.one(self._lock_first, actor_type=actor_type, now=self._dialect.encode_time(tx.now()))
        return None if row is None else self._instances.lock_by_id(tx, row[0])

    def first(self, tx: Transaction, actor_type: str) -> int | None:
        """The same without a lock, for the one blocking try when all of them were locked."""
        row = tx.one(self._first, actor_type=actor_type, now=self._dialect.encode_time(tx.now()))
        return None if row is None else int(row[0])

    def expired(self, tx: Transaction, most: int) -> list[int]:
        """Actors of any type whose lease has run out, the oldest first."""
        return [row[0] for row in tx.rows(self._expired, now=self._dialect.encode_time(tx.now()), most=most)]

    def _probe(self, type_name: str) -> Select[*tuple[Any, ...]]:
        i = self._tables.instances
        return (
            select(i.c.id, i.c.ready_at)
            .where(
                i.c.actor_type == bindparam(type_name, type_=i.c.actor_type.type),
                i.c.ready_at <= bindparam("now", type_=i.c.ready_at.type),
                i.c.activation_owner_id.is_(None),
                i.c.paused_at.is_(None),
            )
            .order_by(i.c.ready_at, i.c.id)
            .limit(1)
        )
