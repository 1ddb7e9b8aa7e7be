"""Admit and commit as one statement each, for databases whose CTEs may write.

One round trip instead of five: measured 4,898 against 2,279 turns per second on PostgreSQL with a bare driver.
The rules are those of the general forms (``admission``, ``turns``); every condition reads the locked row itself, so
that it is judged again after a wait for the lock (protocol 3.1). Protocol 10 has the shape of both statements.
"""

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
    delete,
    func,
    insert,
    literal,
    not_,
    null,
    or_,
    select,
    update,
)

from flask_solid_objects.errors import LostActivation
from flask_solid_objects.store.completion import Claimant, Completion
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim, Enqueued, InstanceState, Lease, NewMessage, StoredMessage


class WritableCte:
    """The two hot statements in one round trip each."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._tables, self._dialect = tables, dialect
        self._admit = dialect.compile(self._admit_statement())
        self._finishes = {
            (state, keys): dialect.compile(self._finish_statement(state=state, keys=keys))
            for state in (True, False)
            for keys in (True, False)
        }

    # -- admit --------------------------------------------------------------------------------

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
            stored = InstanceState(text=state[0], version=state[1], revision=state[2], remembered_keys=state[3])
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

    # -- finish -------------------------------------------------------------------------------

    def finish(self, tx: Transaction, claim: Claim, completion: Completion) -> None:
        """Commit a turn and free its actor; the counts of changed rows are the proof that the lease was ours."""
        lease, state = claim.lease, completion.state
        values: dict[str, Any] = {}
        if state is not None:
            values = {"state": state.text, "state_version": state.version, "state_revision": state.revision}
        if completion.remembered_keys is not None:
            values["completed_idempotency_keys"] = completion.remembered_keys
        row = tx.one(
            self._finish_for(completion),
            w_id=lease.instance_id,
            w_owner=lease.owner,
            w_token=lease.token,
            w_generation=lease.generation,
            w_message_id=claim.message.id,
            result=completion.result,
            revision=completion.revision,
            **values,
        )
        if row != (1, 1, 1):
            raise LostActivation(f"{claim.key}: the lease of generation {lease.generation} was taken over ({row}).")

    def _finish_for(self, completion: Completion) -> Statement:
        return self._finishes[completion.state is not None, completion.remembered_keys is not None]

    def _finish_statement(self, *, state: bool, keys: bool) -> Any:
        t = self._tables
        i, c, m = t.instances, t.claimed_messages, t.messages
        token, generation = bindparam("w_token", type_=String), bindparam("w_generation", type_=BigInteger)
        names = ("state", "state_version", "state_revision") if state else ()
        written: dict[str, Any] = {name: bindparam(name, type_=i.c[name].type) for name in names}
        if keys:
            column = i.c.completed_idempotency_keys
            written[column.name] = bindparam(column.name, type_=column.type)
        fenced = (
            update(i)
            .where(
                i.c.id == bindparam("w_id"),
                i.c.activation_owner_id == bindparam("w_owner"),
                i.c.activation_token == token,
                i.c.activation_generation == generation,
            )
            .values(
                **written,
                activation_owner_id=null(),
                activation_token=null(),
                activation_expires_at=null(),
                parked_until=null(),
                parked_count=0,
                parked_error=null(),
                last_used_at=self._dialect.now,
                touched_at=self._dialect.now,
                updated_at=self._dialect.now,
            )
            .returning(i.c.id)
            .cte("fenced")
        )
        ended = (
            delete(c)
            .where(
                c.c.instance_id == fenced.c.id,
                c.c.message_id == bindparam("w_message_id", type_=BigInteger),
                c.c.activation_token == token,
                c.c.activation_generation == generation,
            )
            .returning(c.c.message_id)
            .cte("ended")
        )
        completed = (
            update(m)
            .where(m.c.id == ended.c.message_id)
            .values(
                result=bindparam("result", type_=m.c.result.type),
                revision=bindparam("revision", type_=BigInteger),
                error=null(),
                rejection=null(),
                completed_at=self._dialect.now,
                updated_at=self._dialect.now,
            )
            .returning(m.c.id)
            .cte("completed")
        )
        return select(*(select(func.count()).select_from(cte).scalar_subquery() for cte in (fenced, ended, completed)))
