"""Reads and acts of operators: pages of actors, pause and resume, and the ways out of a stuck head.

Every act locks the actor's row and recomputes its hints (protocol 4.3, 5.5). Pages go by key, never by offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, func, insert, literal, or_, select, update

from flask_solid_objects.store.dead_letters import DeadLetters
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.heads import Heads
from flask_solid_objects.store.instances import Instance, Instances
from flask_solid_objects.store.leases import Leases
from flask_solid_objects.store.mailbox import Mailbox
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, StoredMessage

SKIPPED = '{"class":"Skipped","message":"An operator skipped this message.","backtrace":[]}'
FAILED_BY_OPERATOR = '{"class":"FailedByOperator","message":"An operator failed this message.","backtrace":[]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """An actor as an operator sees it; ``lease`` is idle, held, expired, paused or parked."""

    id: int
    key: ActorKey
    lease: str
    owner: str | None
    generation: int
    expires_at: datetime | None
    paused_at: datetime | None
    parked_until: datetime | None
    parked_error: str | None
    ready_at: datetime | None
    has_backlog: bool
    next_sequence: int
    state_version: int
    state_revision: int
    created_at: datetime
    last_used_at: datetime | None


class Administration:
    """Statements for operators on actors and their heads."""

    def __init__(
        self,
        tables: Tables,
        dialect: Dialect,
        instances: Instances,
        mailbox: Mailbox,
        heads: Heads,
        leases: Leases,
        dead: DeadLetters,
    ) -> None:
        self._tables, self._dialect = tables, dialect
        self._instances, self._mailbox, self._heads = instances, mailbox, heads
        self._leases, self._dead = leases, dead
        i, m, r = tables.instances, tables.messages, tables.ready_messages
        page = self.select_reports()
        kind = bindparam("actor_type", type_=i.c.actor_type.type)
        self._page = dialect.compile(
            page.where(i.c.id > bindparam("after"), or_(kind.is_(None), i.c.actor_type == kind))
            .order_by(i.c.id)
            .limit(bindparam("most"))
        )
        self._report = dialect.compile(
            page.where(i.c.actor_type == bindparam("actor_type"), i.c.actor_id == bindparam("actor_id"))
        )
        self._skip = dialect.compile(
            update(m)
            .where(m.c.id == bindparam("w_id"))
            .values(completed_at=dialect.now, updated_at=dialect.now, result=None),
            "error",
        )
        self._ready_message = dialect.compile(
            select(r.c.message_id).where(
                r.c.instance_id == bindparam("instance_id"), r.c.sequence == bindparam("sequence")
            )
        )
        waiting = select(literal(1)).where(r.c.instance_id == bindparam("instance_id")).limit(bindparam("most"))
        self._depth = dialect.compile(select(func.count()).select_from(waiting.subquery()))
        e = tables.administration_events
        event = insert(e).values(occurred_at=dialect.now, created_at=dialect.now, updated_at=dialect.now)
        self._audit = dialect.compile(
            event.returning(e.c.id) if dialect.has_writable_cte else event,
            *("action", "kind", "subject_id", "filters", "actor"),
            returns_id=True,
        )
        self._event = dialect.compile(
            select(e.c.id).where(
                e.c.id == bindparam("id"), e.c.action == bindparam("action"), e.c.subject_id == bindparam("subject")
            )
        )

    # -- reads --------------------------------------------------------------------------------

    def page(self, tx: Transaction, *, actor_type: str | None, after: int, most: int) -> list[InstanceReport]:
        rows = tx.rows(self._page, actor_type=actor_type, after=after, most=most)
        return [self.report_of(row, tx.now()) for row in rows]

    def report(self, tx: Transaction, key: ActorKey) -> InstanceReport | None:
        row = tx.one(self._report, actor_type=key.actor_type, actor_id=self._dialect.encode_text(key.actor_id))
        return None if row is None else self.report_of(row, tx.now())

    def head(self, tx: Transaction, instance_id: int) -> int | None:
        """The sequence of the waiting message that skip and fail would end while none runs."""
        waiting = self._heads.look(tx, instance_id)
        return waiting.head if waiting.head is not None else waiting.stuck

    def depth(self, tx: Transaction, instance_id: int, most: int) -> int:
        """How many messages wait, counted up to a limit."""
        row = tx.one(self._depth, instance_id=instance_id, most=most)
        return 0 if row is None else int(row[0])

    # -- acts ---------------------------------------------------------------------------------

    def pause(self, tx: Transaction, instance: Instance) -> bool:
        """Let a running turn finish, and start no other; False when it was paused already."""
        if instance.paused_at is not None:
            return False
        self._instances.update(tx, instance.id, paused_at=tx.now(), ready_at=None)
        return True

    def resume(self, tx: Transaction, instance: Instance) -> bool:
        if instance.paused_at is None:
            return False
        waiting = self._heads.look(tx, instance.id)
        ready_at = waiting.ready_at(tx.now())
        if ready_at is not None and instance.parked_until is not None:
            ready_at = max(ready_at, instance.parked_until)
        self._instances.update(tx, instance.id, paused_at=None, ready_at=ready_at, has_backlog=waiting.in_order)
        return True

    def retry_now(self, tx: Transaction, instance: Instance) -> bool:
        """Make a head in back-off due, and lift the parking of an actor whose activation failed."""
        waiting = self._heads.look(tx, instance.id)
        waits = waiting.head is None and waiting.stuck is not None
        if waits and waiting.stuck is not None:
            self._mailbox.make_due(tx, instance.id, waiting.stuck)
        parked = instance.parked_until is not None
        self._lift(tx, instance)
        return waits or parked

    def skip_head(self, tx: Transaction, instance: Instance, expected: int | None = None) -> int | None:
        """End the head without a result, status skipped; its id, or None when nothing is there to skip.

        :param expected: the id of the message that is meant; None is returned when it is not the head any more.
        """
        message = self._take_head(tx, instance, expected)
        if message is None:
            return None
        tx.write(self._skip, w_id=message.id, error=SKIPPED)
        self._lift(tx, instance)
        return message.id

    def fail_head(self, tx: Transaction, instance: Instance, expected: int | None = None) -> int | None:
        """Move the head to the dead letters; its id, or None when nothing is there to fail.

        :param expected: the id of the message that is meant; None is returned when it is not the head any more.
        """
        message = self._take_head(tx, instance, expected)
        if message is None:
            return None
        self._dead.bury(tx, instance.key, message, error=FAILED_BY_OPERATOR)
        self._lift(tx, instance)
        return message.id

    def audit(
        self, tx: Transaction, *, action: str, kind: str, subject: str, operator: str | None, filters: str | None = None
    ) -> int:
        """Record an act in the transaction that does it; the id of the event."""
        operator = None if operator is None else operator[:255]
        return tx.insert(self._audit, action=action, kind=kind, subject_id=subject, filters=filters, actor=operator)

    def has_event(self, tx: Transaction, event_id: int, *, action: str, subject: str) -> bool:
        """Whether an act was recorded under this id; with its subject, since a rolled back id may be given again."""
        return tx.one(self._event, id=event_id, action=action, subject=subject) is not None

    def _take_head(self, tx: Transaction, instance: Instance, expected: int | None) -> StoredMessage | None:
        """Take the message that runs, or else the one that would run next, out of the mailbox.

        A running one is taken over first, so that its holder, which may hang, can no longer commit (protocol 5.5).
        """
        claimed = self._leases.claimed_message(tx, instance.id)
        if claimed is not None:
            if expected not in (None, claimed.id):
                return None
            self._leases.end_by_operator(tx, instance)
            return claimed
        sequence = self.head(tx, instance.id)
        if sequence is None:
            return None
        row = tx.one(self._ready_message, instance_id=instance.id, sequence=sequence)
        assert row is not None, "the head is a ready row"
        if expected not in (None, row[0]):
            return None
        self._mailbox.remove_ready(tx, instance.id, sequence)
        return self._mailbox.stored(tx, row[0])

    def _lift(self, tx: Transaction, instance: Instance) -> None:
        """Clear the parking and recompute the hints from what waits now."""
        waiting = self._heads.look(tx, instance.id)
        ready_at = None if instance.paused_at is not None else waiting.ready_at(tx.now())
        self._instances.update(
            tx,
            instance.id,
            parked_until=None,
            parked_count=0,
            parked_error=None,
            ready_at=ready_at,
            has_backlog=waiting.in_order,
        )

    def select_reports(self) -> Select[*tuple[Any, ...]]:
        i = self._tables.instances
        return select(
            *(i.c.id, i.c.actor_type, i.c.actor_id, i.c.activation_owner_id, i.c.activation_generation),
            *(i.c.activation_expires_at, i.c.paused_at, i.c.parked_until, i.c.parked_error, i.c.ready_at),
            *(i.c.has_backlog, i.c.next_message_sequence, i.c.state_version, i.c.state_revision),
            *(i.c.created_at, i.c.last_used_at),
        )

    def report_of(self, row: tuple[Any, ...], now: datetime) -> InstanceReport:
        decode = self._dialect.decode_time
        expires_at, paused_at, parked_until, ready_at = decode(row[5]), decode(row[6]), decode(row[7]), decode(row[9])
        created_at = decode(row[14])
        assert created_at is not None, "created_at is NOT NULL"
        return InstanceReport(
            id=row[0],
            key=ActorKey(actor_type=row[1], actor_id=self._dialect.decode_text(row[2])),
            lease=_lease_label(row[3], expires_at, paused_at, parked_until, now),
            owner=row[3],
            generation=row[4],
            expires_at=expires_at,
            paused_at=paused_at,
            parked_until=parked_until,
            parked_error=row[8],
            ready_at=ready_at,
            has_backlog=bool(row[10]),
            next_sequence=row[11],
            state_version=row[12],
            state_revision=row[13],
            created_at=created_at,
            last_used_at=decode(row[15]),
        )


def _lease_label(
    owner: str | None,
    expires_at: datetime | None,
    paused_at: datetime | None,
    parked_until: datetime | None,
    now: datetime,
) -> str:
    if owner is not None:
        return "held" if expires_at is not None and expires_at > now else "expired"
    if paused_at is not None:
        return "paused"
    return "parked" if parked_until is not None and parked_until > now else "idle"
