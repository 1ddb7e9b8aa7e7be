"""The row of an actor: lock it, create it, read what the lock protects, write its lease and hints.

One row is one incarnation. Every decision about an actor is made under its lock, from columns that were read
after the lock was granted (protocol 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from flask_solid_objects.errors import ActorDestroyed
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, InstanceState, Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The columns of a locked row that decisions are made from."""

    id: int
    key: ActorKey
    next_sequence: int
    owner: str | None
    token: str | None
    expires_at: datetime | None
    generation: int
    paused_at: datetime | None
    parked_until: datetime | None
    parked_count: int
    ready_at: datetime | None
    has_backlog: bool

    def is_parked(self, now: datetime) -> bool:
        return self.parked_until is not None and self.parked_until > now

    def holds(self, lease: Lease) -> bool:
        """The fence: owner, token and generation, under the lock; no time (protocol 3.4)."""
        return (self.owner, self.token, self.generation) == (lease.owner, lease.token, lease.generation)


class Instances:
    """Statements on the ``instances`` table that several acts share."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        i = self._table = tables.instances
        self._dialect = dialect
        by_key = (i.c.actor_type == bindparam("actor_type"), i.c.actor_id == bindparam("actor_id"))
        columns = [
            i.c.id,
            i.c.actor_type,
            i.c.actor_id,
            i.c.next_message_sequence,
            i.c.activation_owner_id,
            i.c.activation_token,
            i.c.activation_expires_at,
            i.c.activation_generation,
            i.c.paused_at,
            i.c.parked_until,
            i.c.parked_count,
            i.c.ready_at,
            i.c.has_backlog,
        ]
        read = select(*columns)
        self._by_key = dialect.compile(read.where(*by_key))
        self._by_id = dialect.compile(read.where(i.c.id == bindparam("id")))
        self._lock_by_key = dialect.compile(read.where(*by_key).with_for_update(key_share=True))
        self._lock_by_id = dialect.compile(read.where(i.c.id == bindparam("id")).with_for_update(key_share=True))
        self._try_lock_by_id = dialect.compile(
            read.where(i.c.id == bindparam("id")).with_for_update(key_share=True, skip_locked=True)
        )
        self._lock_for_delete = dialect.compile(select(i.c.id).where(*by_key).with_for_update())
        self._state = dialect.compile(
            select(
                i.c.state,
                i.c.state_version,
                i.c.state_revision,
                i.c.completed_idempotency_keys,
                i.c.observable_revisions,
            ).where(i.c.id == bindparam("id"))
        )
        self._remembered = dialect.compile(select(i.c.completed_idempotency_keys).where(i.c.id == bindparam("id")))
        self._snapshot = dialect.compile(
            select(i.c.state, i.c.state_version, i.c.id, i.c.state_revision).where(*by_key)
        )
        self._insert = dialect.compile(self._insert_if_absent())
        self._delete = dialect.compile(delete(i).where(i.c.id == bindparam("id")))
        self._updates: dict[tuple[str, ...], Statement] = {}

    def _insert_if_absent(self) -> Any:
        """One row unless somebody else was first; the winner is locked and read afterwards."""
        i = self._table
        values = {
            "actor_type": bindparam("actor_type"),
            "actor_id": bindparam("actor_id"),
            "state": bindparam("state"),
            "state_version": bindparam("state_version"),
            "created_at": self._dialect.now,
            "updated_at": self._dialect.now,
        }
        return self._dialect.insert_unless_present(i, values, [i.c.actor_type, i.c.actor_id])

    def find(self, tx: Transaction, key: ActorKey) -> Instance | None:
        return self._instance(tx.one(self._by_key, **self._identity(key)))

    def find_by_id(self, tx: Transaction, instance_id: int) -> Instance | None:
        return self._instance(tx.one(self._by_id, id=instance_id))

    def lock(self, tx: Transaction, key: ActorKey) -> Instance | None:
        return self._instance(tx.one(self._lock_by_key, **self._identity(key)))

    def lock_by_id(self, tx: Transaction, instance_id: int) -> Instance | None:
        instance = self._instance(tx.one(self._lock_by_id, id=instance_id))
        tx.checkpoints.reach("instance.locked", instance_id=instance_id)
        return instance

    def try_lock_by_id(self, tx: Transaction, instance_id: int) -> Instance | None:
        """Lock it only if nobody else has it locked now."""
        return self._instance(tx.one(self._try_lock_by_id, id=instance_id))

    def lock_or_create(self, tx: Transaction, key: ActorKey, state_version: int) -> Instance:
        """Lock the actor's row; make it first where there is none.

        :raises ActorDestroyed: others destroyed it three times between the two steps.
        """
        for _ in range(3):
            instance = self.lock(tx, key)
            if instance is not None:
                return instance
            tx.checkpoints.reach("instance.absent", key=key)
            tx.write(self._insert, **self._identity(key), state="{}", state_version=state_version)
        instance = self.lock(tx, key)
        if instance is None:
            raise ActorDestroyed(key.actor_type, key.actor_id)
        return instance

    def state(self, tx: Transaction, instance_id: int) -> InstanceState:
        row = tx.one(self._state, id=instance_id)
        assert row is not None, "the row is locked by this transaction"
        return InstanceState(
            text=row[0], version=row[1], revision=row[2], remembered_keys=row[3], observable_revisions=row[4]
        )

    def remembered_keys(self, tx: Transaction, instance_id: int) -> str | None:
        """The idempotency keys of finished messages, as JSON."""
        row = tx.one(self._remembered, id=instance_id)
        return None if row is None else row[0]

    def snapshot(self, tx: Transaction, key: ActorKey) -> tuple[str, int, int, int] | None:
        """Read committed state and its version, the incarnation and its revision; None for one that was never used."""
        row = tx.one(self._snapshot, **self._identity(key))
        return None if row is None else (row[0], row[1], row[2], row[3])

    def update(self, tx: Transaction, instance_id: int, **values: Any) -> None:
        """Assign literals to columns of a row that this transaction has locked."""
        columns = tuple(values)
        statement = self._updates.get(columns)
        if statement is None:
            i = self._table
            statement = self._dialect.compile(
                update(i).where(i.c.id == bindparam("w_id")).values(updated_at=self._dialect.now), *columns
            )
            self._updates[columns] = statement
        encode = self._dialect.encode_time
        encoded = {name: encode(value) if isinstance(value, datetime) else value for name, value in values.items()}
        tx.write(statement, w_id=instance_id, **encoded)

    def destroy(self, tx: Transaction, key: ActorKey) -> int | None:
        """Delete the incarnation and, by cascade, all that belongs to it; its id, or None if there was none."""
        row = tx.one(self._lock_for_delete, **self._identity(key))
        if row is None:
            return None
        tx.checkpoints.reach("destroy.locked", instance_id=row[0])
        tx.write(self._delete, id=row[0])
        return int(row[0])

    def _identity(self, key: ActorKey) -> dict[str, Any]:
        return {"actor_type": key.actor_type, "actor_id": self._dialect.encode_text(key.actor_id)}

    def _instance(self, row: tuple[Any, ...] | None) -> Instance | None:
        if row is None:
            return None
        decode = self._dialect.decode_time
        return Instance(
            id=row[0],
            key=ActorKey(actor_type=row[1], actor_id=self._dialect.decode_text(row[2])),
            next_sequence=row[3],
            owner=row[4],
            token=row[5],
            expires_at=decode(row[6]),
            generation=row[7],
            paused_at=decode(row[8]),
            parked_until=decode(row[9]),
            parked_count=row[10],
            ready_at=decode(row[11]),
            has_backlog=bool(row[12]),
        )
