"""End a turn under its fence: commit, reject, fail, or commit and go on with the next message of the actor.

Protocol 5. Each act changes exactly one instance row and one claim row, or raises ``LostActivation`` and, with the
transaction that its caller then rolls back, changes nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, update

from flask_solid_objects.errors import ActorDestroyed, LostActivation
from flask_solid_objects.store.completion import Completion, Failure
from flask_solid_objects.store.dead_letters import DeadLetters
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.heads import Heads, hints_after_arrival, hints_from
from flask_solid_objects.store.instances import Instance, Instances
from flask_solid_objects.store.leases import Leases
from flask_solid_objects.store.mailbox import Mailbox
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.writable_cte import WritableCte
from flask_solid_objects.values import Claim, InstanceState, Lease


class Turns:
    """Statements that end turns; the caller owns the transaction."""

    def __init__(
        self,
        tables: Tables,
        dialect: Dialect,
        instances: Instances,
        mailbox: Mailbox,
        heads: Heads,
        leases: Leases,
        dead: DeadLetters,
        single: WritableCte | None,
    ) -> None:
        i, m = tables.instances, tables.messages
        self._dialect, self._instances, self._mailbox, self._heads = dialect, instances, mailbox, heads
        self._leases, self._dead, self._single = leases, dead, single
        fence = (
            i.c.id == bindparam("w_id"),
            i.c.activation_owner_id == bindparam("w_owner"),
            i.c.activation_token == bindparam("w_token"),
            i.c.activation_generation == bindparam("w_generation"),
        )
        clean = {"parked_until": None, "parked_count": 0, "parked_error": None}
        touched = {"last_used_at": dialect.now, "touched_at": dialect.now, "updated_at": dialect.now}
        release = {"activation_owner_id": None, "activation_token": None, "activation_expires_at": None}
        freed = update(i).where(*fence).values(**clean, **touched, **release)
        self._free = dialect.compile(freed)
        self._free_remembering = dialect.compile(freed, "completed_idempotency_keys")
        self._free_with_state = dialect.compile(freed, "state", "state_version", "state_revision")
        self._free_with_all = dialect.compile(
            freed, "state", "state_version", "state_revision", "completed_idempotency_keys"
        )
        ended = update(m).where(m.c.id == bindparam("w_id")).values(updated_at=dialect.now)
        self._complete = dialect.compile(
            ended.values(completed_at=dialect.now, error=None, rejection=None), "result", "revision"
        )
        self._reject = dialect.compile(
            ended.values(completed_at=dialect.now, rejected_at=dialect.now, error=None, result=None), "rejection"
        )
        self._fail = dialect.compile(ended.values(last_failed_at=dialect.now), "error")

    def finish(self, tx: Transaction, claim: Claim, completion: Completion) -> None:
        """Commit a turn and free its actor: three statements, or one where the database can."""
        if self._single is not None and completion.rejection is None:
            self._single.finish(tx, claim, completion)
            return
        lease, state = claim.lease, completion.state
        values: dict[str, Any] = {}
        if state is not None:
            values = {"state": state.text, "state_version": state.version, "state_revision": state.revision}
        statement = self._free_with_state if values else self._free
        if completion.remembered_keys is not None:
            values["completed_idempotency_keys"] = completion.remembered_keys
            statement = self._free_with_all if state is not None else self._free_remembering
        freed = tx.write(
            statement,
            w_id=lease.instance_id,
            w_owner=lease.owner,
            w_token=lease.token,
            w_generation=lease.generation,
            **values,
        )
        if freed != 1:
            raise LostActivation(f"{claim.key}: the lease of generation {lease.generation} was taken over.")
        self._leases.end_claim(tx, lease, claim.message.id)
        self._end(tx, claim, completion)

    def finish_and_continue(
        self, tx: Transaction, claim: Claim, completion: Completion, *, seconds: float, go_on: bool
    ) -> Claim | None:
        """Commit a turn and, in the same transaction, claim the next message; None when there is none.

        :param go_on: False to yield: the actor goes to the end of the line of those that are ready.
        """
        instance = self._held(tx, claim)
        now = tx.now()
        self._end(tx, claim, completion)
        stored = self._stored_state(claim, completion)
        values = self._finished_columns(tx, completion)
        waiting = self._heads.look(tx, instance.id)
        if waiting.head is None or not go_on or instance.paused_at is not None:
            self._leases.end_claim(tx, claim.lease, claim.message.id)
            ready_at, backlog = hints_from(instance, waiting, now)
            self._instances.update(
                tx, instance.id, **values, **self._leases.released(), ready_at=ready_at, has_backlog=backlog
            )
            return None
        lease = Lease(
            instance_id=instance.id,
            owner=claim.lease.owner,
            token=claim.lease.token,
            generation=claim.lease.generation + 1,
        )
        message = self._mailbox.take_ready(tx, instance.id, waiting.head)
        self._leases.move_claim(tx, claim, lease, message.id)
        ready_at, backlog = hints_from(instance, self._heads.look(tx, instance.id), now)
        renewed = self._leases.lease_columns(lease, now, seconds)
        self._instances.update(tx, instance.id, **values, **renewed, ready_at=ready_at, has_backlog=backlog)
        return Claim(key=claim.key, lease=lease, message=message, state=stored, now=now)

    def fail(self, tx: Transaction, claim: Claim, failure: Failure) -> None:
        """Store the error; the message waits for its retry and blocks its actor, or becomes a dead letter."""
        instance = self._held(tx, claim)
        now, message = tx.now(), claim.message
        self._leases.end_claim(tx, claim.lease, message.id)
        values = self._unparked() | self._leases.released() | {"last_used_at": now, "touched_at": now}
        if failure.remembered_keys is not None and failure.retry_seconds is None:
            values["completed_idempotency_keys"] = failure.remembered_keys
        if failure.retry_seconds is None:
            self._dead.bury(tx, claim.key, message, error=failure.error)
            self._instances.update(tx, instance.id, **values)
            return
        tx.write(self._fail, w_id=message.id, error=failure.error)
        due = now + timedelta(seconds=failure.retry_seconds)
        delayed = self._mailbox.placing(tx, message.id).delayed
        self._mailbox.make_ready(
            tx,
            message_id=message.id,
            instance_id=instance.id,
            sequence=message.sequence,
            available_at=due,
            delayed=delayed,
            blocking=True,
        )
        ready_at, backlog = hints_after_arrival(instance, due=due, in_order=True, now=now)
        self._instances.update(tx, instance.id, **values, ready_at=ready_at, has_backlog=backlog)

    def _held(self, tx: Transaction, claim: Claim) -> Instance:
        """Lock the actor and check the fence.

        :raises ActorDestroyed, LostActivation: the turn must not write.
        """
        instance = self._instances.lock_by_id(tx, claim.lease.instance_id)
        if instance is None:
            raise ActorDestroyed(claim.key.actor_type, claim.key.actor_id)
        if not instance.holds(claim.lease):
            raise LostActivation(f"{claim.key}: the lease of generation {claim.lease.generation} was taken over.")
        return instance

    def _end(self, tx: Transaction, claim: Claim, completion: Completion) -> None:
        if completion.rejection is not None:
            ended = tx.write(self._reject, w_id=claim.message.id, rejection=completion.rejection)
        else:
            ended = tx.write(
                self._complete, w_id=claim.message.id, result=completion.result, revision=completion.revision
            )
        if ended != 1:
            raise LostActivation(f"{claim.key}: message {claim.message.id} is gone.")

    @staticmethod
    def _stored_state(claim: Claim, completion: Completion) -> InstanceState:
        """What the row holds after this commit, so that the next turn need not read it."""
        state = completion.state or claim.state
        remembered = completion.remembered_keys or claim.state.remembered_keys
        return InstanceState(
            text=state.text, version=state.version, revision=state.revision, remembered_keys=remembered
        )

    def _finished_columns(self, tx: Transaction, completion: Completion) -> dict[str, Any]:
        values = self._unparked() | {"last_used_at": tx.now(), "touched_at": tx.now()}
        if completion.state is not None:
            state = completion.state
            values |= {"state": state.text, "state_version": state.version, "state_revision": state.revision}
        if completion.remembered_keys is not None:
            values["completed_idempotency_keys"] = completion.remembered_keys
        return values

    @staticmethod
    def _unparked() -> dict[str, Any]:
        return {"parked_until": None, "parked_count": 0, "parked_error": None}
