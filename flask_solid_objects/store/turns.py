"""End a turn under its fence: commit, reject, fail, or commit and go on with the next message of the actor.

Protocol 5. Each act changes exactly one instance row and one claim row, or raises ``LostActivation`` and, with the
transaction that its caller then rolls back, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias

from sqlalchemy import bindparam, func, update

from flask_solid_objects.errors import ActorDestroyed, LostActivation
from flask_solid_objects.store.completion import Completion, Failure
from flask_solid_objects.store.dead_letters import DeadLetters
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.heads import Heads, hints_after_arrival, hints_from
from flask_solid_objects.store.instances import Instance, Instances
from flask_solid_objects.store.leases import Leases
from flask_solid_objects.store.mailbox import Mailbox
from flask_solid_objects.store.staged import StagedRows
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.writable_cte import WritableCte
from flask_solid_objects.values import Claim, InstanceState, Lease

# Runs inside the transaction of a commit, after the fence was proven: the commit actions of a turn.
Within: TypeAlias = Callable[[Transaction], None]


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
        staged: StagedRows,
    ) -> None:
        i, m = tables.instances, tables.messages
        self._dialect, self._instances, self._mailbox, self._heads = dialect, instances, mailbox, heads
        self._leases, self._dead, self._single, self._staged = leases, dead, single, staged
        fence = (
            i.c.id == bindparam("w_id"),
            i.c.activation_owner_id == bindparam("w_owner"),
            i.c.activation_token == bindparam("w_token"),
            i.c.activation_generation == bindparam("w_generation"),
        )
        clean = {"parked_until": None, "parked_count": 0, "parked_error": None}
        touched = {"last_used_at": dialect.now, "touched_at": dialect.now, "updated_at": dialect.now}
        release = {"activation_owner_id": None, "activation_token": None, "activation_expires_at": None}
        self._freed = update(i).where(*fence).values(**clean, **touched, **release)
        self._frees: dict[tuple[str, ...], Statement] = {}
        ended = update(m).where(m.c.id == bindparam("w_id")).values(updated_at=dialect.now)
        self._complete = dialect.compile(
            ended.values(completed_at=dialect.now, error=None, rejection=None), "result", "revision"
        )
        self._reject = dialect.compile(
            ended.values(completed_at=dialect.now, rejected_at=dialect.now, error=None, result=None), "rejection"
        )
        self._skip = dialect.compile(ended.values(completed_at=dialect.now, result=None, rejection=None), "error")
        first = func.coalesce(m.c.first_failed_at, dialect.now)
        self._fail = dialect.compile(ended.values(first_failed_at=first, last_failed_at=dialect.now), "error")

    def finish(self, tx: Transaction, claim: Claim, completion: Completion, within: Within | None = None) -> None:
        """Commit a turn and free its actor: three statements, or one where the database can; and what it staged.

        :param within: what has to run in this transaction before anything is written, under the proven fence.
        """
        if within is not None:
            self._held(tx, claim)
            within(tx)
        if self._single is not None and completion.rejection is None and completion.skipped is None:
            self._single.finish(tx, claim, completion)
        else:
            self._finish(tx, claim, completion)
        self._stage(tx, claim, completion)

    def _finish(self, tx: Transaction, claim: Claim, completion: Completion) -> None:
        lease, values = claim.lease, completion.instance_columns()
        freed = tx.write(
            self._free_for(tuple(values)),
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

    def _free_for(self, columns: tuple[str, ...]) -> Statement:
        statement = self._frees.get(columns)
        if statement is None:
            statement = self._frees[columns] = self._dialect.compile(self._freed, *columns)
        return statement

    def _stage(self, tx: Transaction, claim: Claim, completion: Completion) -> None:
        if completion.staged is not None:
            self._staged.write(tx, claim, completion.staged, completion.state)

    def finish_and_continue(
        self,
        tx: Transaction,
        claim: Claim,
        completion: Completion,
        *,
        seconds: float,
        go_on: bool,
        within: Within | None = None,
    ) -> Claim | None:
        """Commit a turn and, in the same transaction, claim the next message; None when there is none.

        :param go_on: False to yield: the actor goes to the end of the line of those that are ready.
        """
        instance = self._held(tx, claim)
        if within is not None:
            within(tx)
        now = tx.now()
        self._end(tx, claim, completion)
        self._stage(tx, claim, completion)
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
        elif completion.skipped is not None:
            ended = tx.write(self._skip, w_id=claim.message.id, error=completion.skipped)
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
        return replace(state, remembered_keys=remembered)

    def _finished_columns(self, tx: Transaction, completion: Completion) -> dict[str, Any]:
        return {
            **self._unparked(),
            "last_used_at": tx.now(),
            "touched_at": tx.now(),
            **completion.instance_columns(),
        }

    @staticmethod
    def _unparked() -> dict[str, Any]:
        return {"parked_until": None, "parked_count": 0, "parked_error": None}
