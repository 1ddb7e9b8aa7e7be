"""Admit a message to an existing actor in one statement, for databases whose CTEs may write."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Interval,
    String,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal,
    not_,
    null,
    or_,
    select,
    update,
)

from flask_solid_objects.store.completion import Claimant
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim, Enqueued, InstanceState, Lease, NewMessage, StoredMessage


class CteAdmission:
    """The admit of ``admission`` in one round trip."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._tables, self._dialect = tables, dialect
        self._admit = dialect.compile(self._admit_statement())

    def admit(
        self, tx: Transaction, new: NewMessage, claimant: Claimant | None, *, mailbox_limit: int
    ) -> Enqueued | None:
        """Admit a message without key and delay to an existing actor; None when the general form has to look."""
        row = tx.one(
            self._admit,
            wanted=claimant is not None,
            owner=claimant.owner if claimant else None,
            token=claimant.token if claimant else None,
            seconds=claimant.lease if claimant else None,
            actor_type=new.key.actor_type,
            actor_id=new.key.actor_id,
            instance_id=new.instance_id,
            operation=new.operation,
            delivery_mode=new.delivery_mode,
            arguments=new.arguments,
            max_attempts=new.max_attempts,
            request_id=new.request_id,
            caused_by=new.caused_by,
            mailbox_limit=mailbox_limit,
        )
        if row is None:
            return None
        message_id, instance_id, sequence, mine, generation, now, parked_count, *state = row
        tx.at(now)
        claim = None
        if mine and claimant is not None:
            lease = Lease(instance_id=instance_id, owner=claimant.owner, token=claimant.token, generation=generation)
            message = StoredMessage(
                id=message_id,
                instance_id=instance_id,
                operation=new.operation,
                delivery_mode=new.delivery_mode,
                arguments=new.arguments,
                sequence=sequence,
                attempt=1,
                max_attempts=new.max_attempts,
                request_id=new.request_id,
                idempotency_key=None,
                enqueued_at=tx.now(),
            )
            stored = InstanceState(
                text=state[0],
                version=state[1],
                revision=state[2],
                remembered_keys=state[3],
                observable_revisions=state[4],
            )
            claim = Claim(
                key=new.key, lease=lease, message=message, state=stored, now=tx.now(), parked_count=parked_count
            )
        return Enqueued(
            message_id=message_id,
            instance_id=instance_id,
            sequence=sequence,
            request_id=new.request_id,
            claim=claim,
        )

    def _admit_statement(self) -> Any:
        t = self._tables
        i, m = t.instances, t.messages
        clock = select(self._dialect.now.label("now")).cte("clock").prefix_with("MATERIALIZED")
        now = clock.c.now
        wanted, token = bindparam("wanted", type_=Boolean), bindparam("token", type_=String)
        parked = and_(i.c.parked_until.is_not(None), i.c.parked_until > now)
        free = and_(
            wanted,
            i.c.activation_owner_id.is_(None),
            i.c.paused_at.is_(None),
            not_(i.c.has_backlog),
            or_(i.c.ready_at.is_(None), i.c.ready_at > now),
            not_(func.coalesce(parked, False)),
        )
        keep = or_(free, i.c.paused_at.is_not(None), func.coalesce(parked, False))
        instance = (
            update(i)
            .where(
                i.c.actor_type == bindparam("actor_type"),
                i.c.actor_id == bindparam("actor_id"),
                i.c.id == func.coalesce(bindparam("instance_id", type_=BigInteger), i.c.id),
                not_(self._is_full()),
            )
            .values(
                next_message_sequence=i.c.next_message_sequence + 1,
                activation_owner_id=case((free, bindparam("owner", type_=String)), else_=i.c.activation_owner_id),
                activation_token=case((free, token), else_=i.c.activation_token),
                activation_generation=i.c.activation_generation + case((free, 1), else_=0),
                activation_expires_at=case(
                    (free, self._dialect.now + bindparam("seconds", type_=Interval)), else_=i.c.activation_expires_at
                ),
                last_claimed_at=case((free, now), else_=i.c.last_claimed_at),
                ready_at=case((keep, i.c.ready_at), else_=func.least(i.c.ready_at, now)),
                has_backlog=case((free, i.c.has_backlog), else_=True),
                updated_at=now,
            )
        )
        mine = and_(wanted, i.c.activation_token.is_not_distinct_from(token))
        changed = instance.returning(
            i.c.id,
            (i.c.next_message_sequence - 1).label("sequence"),
            mine.label("mine"),
            i.c.activation_generation.label("generation"),
            now.label("now"),
            i.c.parked_count,
            case((mine, i.c.state), else_=null()).label("state"),
            i.c.state_version,
            i.c.state_revision,
            i.c.completed_idempotency_keys,
            i.c.observable_revisions,
        ).cte("changed")
        inserted = (
            insert(m)
            .from_select(
                [
                    *("instance_id", "actor_type", "actor_id", "operation", "delivery_mode", "arguments", "sequence"),
                    *("attempt_count", "max_attempts", "request_id", "enqueued_at", "available_at", "started_at"),
                    *("caused_by", "created_at", "updated_at"),
                ],
                select(
                    changed.c.id,
                    bindparam("actor_type", type_=m.c.actor_type.type),
                    bindparam("actor_id", type_=m.c.actor_id.type),
                    bindparam("operation", type_=m.c.operation.type),
                    bindparam("delivery_mode", type_=m.c.delivery_mode.type),
                    bindparam("arguments", type_=m.c.arguments.type),
                    changed.c.sequence,
                    case((changed.c.mine, 1), else_=0),
                    bindparam("max_attempts", type_=m.c.max_attempts.type),
                    bindparam("request_id", type_=m.c.request_id.type),
                    changed.c.now,
                    changed.c.now,
                    case((changed.c.mine, changed.c.now), else_=null()),
                    bindparam("caused_by", type_=BigInteger),
                    changed.c.now,
                    changed.c.now,
                ),
                include_defaults=False,
            )
            .returning(m.c.id)
            .cte("inserted")
        )
        return self._with_place(changed, inserted)

    def _with_place(self, changed: Any, inserted: Any) -> Any:
        """Give the new message its claim row or its ready row, and return what the caller needs."""
        c, r = self._tables.claimed_messages, self._tables.ready_messages
        claimed = (
            insert(c)
            .from_select(
                [
                    *("message_id", "instance_id", "process_id", "activation_token", "activation_generation"),
                    "claimed_at",
                ],
                select(
                    inserted.c.id,
                    changed.c.id,
                    bindparam("owner", type_=String),
                    bindparam("token", type_=String),
                    changed.c.generation,
                    changed.c.now,
                ).where(changed.c.mine),
                include_defaults=False,
            )
            .returning(c.c.id)
            .cte("claimed")
        )
        ready = (
            insert(r)
            .from_select(
                ["message_id", "instance_id", "sequence", "available_at", "delayed", "blocking", "created_at"],
                select(
                    inserted.c.id,
                    changed.c.id,
                    changed.c.sequence,
                    changed.c.now,
                    literal(False),
                    literal(False),
                    changed.c.now,
                ).where(not_(changed.c.mine)),
                include_defaults=False,
            )
            .returning(r.c.id)
            .cte("ready")
        )
        columns = [column for column in changed.c if column.name != "id"]
        return select(inserted.c.id, changed.c.id, *columns).add_cte(claimed, ready)

    def _is_full(self) -> ColumnElement[bool]:
        """The soft cap: count only when the span of waiting sequences reaches it (protocol 4.10)."""
        i, r = self._tables.instances, self._tables.ready_messages
        limit = bindparam("mailbox_limit", type_=BigInteger)
        lowest = select(func.min(r.c.sequence)).where(r.c.instance_id == i.c.id).correlate(i).scalar_subquery()
        waiting = select(literal(1)).where(r.c.instance_id == i.c.id).correlate(i).limit(limit).subquery()
        count = select(func.count()).select_from(waiting).scalar_subquery()
        wide = i.c.next_message_sequence - func.coalesce(lowest, i.c.next_message_sequence) >= limit
        # A plain AND may be evaluated in any order; CASE keeps the count away from short mailboxes.
        return case((wide, count >= limit), else_=False)
