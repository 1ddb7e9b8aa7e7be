"""What may be pruned of everything that grows: a sweep per kind of rows, with what keeps a row from being deleted.

A batch is one transaction: it walks so many rows on from the last batch, and counts or deletes the unneeded ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, exists, func, not_, or_, select

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.sweep import Row, Sweep
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction

# In the order in which one run gets furthest: a dead letter or a dead effect keeps a message, these keep an actor.
KINDS = ("dead-letters", "messages", "reminders", "recoveries", "redrives", "instances", "processes", "audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """What is older may go: for listed actor types, and for everything else unless that is kept for ever."""

    others: datetime | None
    by_type: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def latest(self) -> datetime | None:
        """Where a walk over all types ends; None when nothing may go."""
        return max((each for each in (self.others, *self.by_type.values()) if each is not None), default=None)

    def of(self, actor_type: str | None) -> datetime | None:
        return self.others if actor_type is None else self.by_type.get(actor_type, self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The unneeded ones of some rows, each with its cutoff, and the last of these rows unless that was the end."""

    found: Sequence[tuple[Any, datetime]]
    last: Row | None
    deleted: int = 0


class Retention:
    """Statements that prune; each act takes one of the sweeps, and where it goes on."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._tables, self._dialect = tables, dialect
        self.sweeps: Mapping[str, Sequence[Sweep]] = {
            "dead-letters": [self._dead_letters(), *self._dead_outboxes()],
            "messages": [self._messages()],
            "reminders": [self._reminders(status) for status in ("completed", "dead")],
            "recoveries": [self._recoveries()],
            "redrives": [self._redrives(status) for status in ("completed", "cancelled")],
            "instances": self._instances(),
            "processes": [self._processes()],
            "audit": [self._audit()],
        }

    # -- acts ---------------------------------------------------------------------------------

    def look(self, tx: Transaction, sweep: Sweep, after: Row | None, *, cutoffs: Cutoffs, most: int) -> Batch:
        """Walk some rows on, and find those that may be deleted."""
        if cutoffs.latest is None:
            return Batch(found=(), last=None)
        rows = sweep.walk(tx, after, cutoff=cutoffs.latest, most=most)
        groups: dict[datetime, list[Any]] = {}
        for row in rows:
            cutoff = cutoffs.of(row.actor_type)
            if cutoff is not None:
                groups.setdefault(cutoff, []).append(row.key)
        found = [(key, cutoff) for cutoff, keys in groups.items() for key in sweep.unneeded(tx, keys, cutoff=cutoff)]
        return Batch(found=found, last=rows[-1] if len(rows) == most else None)

    def prune(self, tx: Transaction, sweep: Sweep, after: Row | None, *, cutoffs: Cutoffs, most: int) -> Batch:
        """Walk some rows on, and delete those of them that nothing needs and nobody uses."""
        batch = self.look(tx, sweep, after, cutoffs=cutoffs, most=most)
        tx.checkpoints.reach("retention.selected", found=batch.found)
        deleted = 0
        for cutoff in {cutoff for _, cutoff in batch.found}:
            locked = sweep.lock(tx, [key for key, its_cutoff in batch.found if its_cutoff == cutoff])
            deleted += sweep.delete(tx, locked, cutoff=cutoff)
        return replace(batch, deleted=deleted)

    def prune_one(self, tx: Transaction, sweep: Sweep, key: Any, *, cutoff: datetime) -> int:
        """Delete one row with all that belongs to it, unless somebody uses it now or has used it since: 1 or 0."""
        locked = sweep.lock(tx, [key])
        tx.checkpoints.reach("retention.locked", key=key)
        return sweep.delete(tx, locked, cutoff=cutoff)

    # -- sweeps -------------------------------------------------------------------------------

    def _messages(self) -> Sweep:
        m, d = self._tables.messages, self._tables.dead_letters
        return Sweep(
            self._dialect,
            m.c.id,
            age=m.c.completed_at,
            order=m.c.completed_at,
            actor_type=m.c.actor_type,
            unneeded=[
                *self._not_waiting(m.c.id, "message_id"),
                not_(exists().where(d.c.message_id == m.c.id)),
                not_(exists().where(d.c.retried_message_id == m.c.id)),
                *self._nothing_to_deliver(m.c.id, "message_id"),
            ],
        )

    def _dead_letters(self) -> Sweep:
        """Its message goes with it, and takes the dead letter along."""
        d, m = self._tables.dead_letters, self._tables.messages
        retried = m.alias("retried")
        return Sweep(
            self._dialect,
            d.c.id,
            age=d.c.last_failed_at,
            order=d.c.last_failed_at,
            deleted=(d.c.message_id, m.c.id),
            unneeded=[
                not_(exists().where(retried.c.id == d.c.retried_message_id, retried.c.completed_at.is_(None))),
                *self._not_waiting(d.c.message_id, "message_id"),
                *self._nothing_to_deliver(d.c.message_id, "message_id"),
            ],
        )

    def _dead_outboxes(self) -> list[Sweep]:
        e, b = self._tables.effects, self._tables.broadcasts
        return [
            Sweep(self._dialect, e.c.id, age=e.c.updated_at, within=[e.c.status == "dead"]),
            Sweep(
                self._dialect,
                b.c.id,
                age=b.c.updated_at,
                order=b.c.available_at,
                bounded=False,
                within=[b.c.status == "dead"],
            ),
        ]

    def _instances(self) -> list[Sweep]:
        """Two walks, since an index in the order of last use has those that were never used in one place."""
        i = self._tables.instances
        r, d = self._tables.reminders, self._tables.dead_letters
        age = func.coalesce(i.c.last_used_at, i.c.created_at, type_=i.c.created_at.type)
        unneeded = [
            i.c.activation_owner_id.is_(None),
            i.c.paused_at.is_(None),
            *self._not_waiting(i.c.id, "instance_id"),
            not_(exists().where(r.c.instance_id == i.c.id, or_(r.c.status == "scheduled", r.c.status == "paused"))),
            not_(exists().where(d.c.instance_id == i.c.id)),
            *self._nothing_to_deliver(i.c.id, "instance_id"),
        ]
        return [
            Sweep(self._dialect, i.c.id, age=age, order=i.c.last_used_at, actor_type=i.c.actor_type, unneeded=unneeded),
            Sweep(
                self._dialect,
                i.c.id,
                age=age,
                within=[i.c.last_used_at.is_(None)],
                actor_type=i.c.actor_type,
                unneeded=unneeded,
            ),
        ]

    def _processes(self) -> Sweep:
        t, p = self._tables, self._tables.processes
        outboxes = (t.reminders, t.effects, t.broadcasts)
        named: list[ColumnElement[Any]] = [
            t.instances.c.activation_owner_id,
            t.claimed_messages.c.process_id,
            *[outbox.c.claimed_by for outbox in outboxes],
        ]
        return Sweep(
            self._dialect,
            p.c.id,
            age=p.c.stopped_at,
            # Nothing beats after it has stopped.
            order=p.c.last_heartbeat_at,
            within=[p.c.shutdown_state == "stopped"],
            unneeded=[not_(exists().where(name == p.c.id)) for name in named],
        )

    def _audit(self) -> Sweep:
        e = self._tables.administration_events
        return Sweep(self._dialect, e.c.id, age=e.c.occurred_at, order=e.c.occurred_at)

    def _redrives(self, status: str) -> Sweep:
        r = self._tables.redrives
        # One that has finished had started before that.
        return Sweep(self._dialect, r.c.id, age=r.c.finished_at, order=r.c.started_at, within=[r.c.status == status])

    def _reminders(self, status: str) -> Sweep:
        r, m = self._tables.reminders, self._tables.messages
        unfinished = [
            exists().where(row.c.instance_id == r.c.instance_id, m.c.id == row.c.message_id, m.c.reminder_id == r.c.id)
            for row in (self._tables.ready_messages, self._tables.claimed_messages)
        ]
        return Sweep(
            self._dialect,
            r.c.id,
            age=r.c.updated_at,
            order=r.c.next_run_at,
            bounded=False,
            within=[r.c.status == status],
            unneeded=[not_(or_(*unfinished))],
        )

    def _recoveries(self) -> Sweep:
        r, e = self._tables.effect_recoveries, self._tables.effects
        gone = not_(exists().where(e.c.effect_id == r.c.effect_id))
        return Sweep(self._dialect, r.c.effect_id, age=r.c.updated_at, unneeded=[gone])

    # -- conditions ---------------------------------------------------------------------------

    def _not_waiting(self, subject: ColumnElement[int], column: str) -> list[ColumnElement[bool]]:
        waiting = (self._tables.ready_messages, self._tables.claimed_messages)
        return [self._none(table, column, subject) for table in waiting]

    def _nothing_to_deliver(self, subject: ColumnElement[int], column: str) -> list[ColumnElement[bool]]:
        e, b = self._tables.effects, self._tables.broadcasts
        return [
            self._none(e, column, subject, e.c.status != "completed"),
            self._none(b, column, subject, b.c.status != "delivered"),
        ]

    @staticmethod
    def _none(
        table: Table, column: str, subject: ColumnElement[int], *conditions: ColumnElement[bool]
    ) -> ColumnElement[bool]:
        return not_(exists(select(table.c.id).where(and_(table.c[column] == subject, *conditions))))
