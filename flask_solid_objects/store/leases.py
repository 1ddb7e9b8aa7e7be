"""The lease of an actor: who may run its turns, and how that right is taken, kept, given back and taken over.

*Identity.* A lease is (owner process, token, generation). Tokens are random per claim; the generation grows with
every claimed turn and every take-over, so a late act of an earlier holder matches nothing. Lease and claim row come
and go in one transaction: a lease exists exactly while a message is claimed.

*Trust.* The fence of a commit has no time in it: under the row lock, owner, token and generation decide. An
expired lease that nobody has taken still commits, and its holder may still renew it. Expiry only says from when on
somebody else may take over; it is written and judged by the database's clock.

*Failures.* The holder dies: the lease expires, whoever looks takes it over, the message goes back to its place and
the attempt stays counted. The holder stalls: the same, and its commit finds another generation. The holder leaves
in good order: it hands the message back, uncounted. The activation fails: the actor is parked, with the reason.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import bindparam, delete, insert, select, update

from flask_solid_objects.errors import LostActivation
from flask_solid_objects.store.dead_letters import DeadLetters
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.heads import Heads, Waiting, hints_after_arrival, hints_from
from flask_solid_objects.store.instances import Instance, Instances
from flask_solid_objects.store.mailbox import Mailbox
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim, Lease, StoredMessage


class Leases:
    """Statements on ``claimed_messages`` and the lease columns of ``instances``."""

    def __init__(
        self, tables: Tables, dialect: Dialect, instances: Instances, mailbox: Mailbox, heads: Heads, dead: DeadLetters
    ) -> None:
        c, m = tables.claimed_messages, tables.messages
        self._dialect, self._instances, self._mailbox, self._heads, self._dead = (
            dialect,
            instances,
            mailbox,
            heads,
            dead,
        )
        self._insert = dialect.compile(
            insert(c),
            *("message_id", "instance_id", "process_id", "activation_token", "activation_generation", "claimed_at"),
        )
        of_instance = c.c.instance_id == bindparam("instance_id")
        self._claimed_message = dialect.compile(select(c.c.message_id).where(of_instance))
        self._claim_of_token = dialect.compile(
            select(c.c.message_id, c.c.activation_generation).where(
                of_instance, c.c.activation_token == bindparam("token")
            )
        )
        self._drop = dialect.compile(delete(c).where(of_instance))
        self._end = dialect.compile(
            delete(c).where(
                c.c.message_id == bindparam("message_id"),
                c.c.activation_token == bindparam("token"),
                c.c.activation_generation == bindparam("generation"),
            )
        )
        self._move = dialect.compile(
            update(c).where(
                c.c.message_id == bindparam("w_message_id"),
                c.c.activation_token == bindparam("w_token"),
                c.c.activation_generation == bindparam("w_generation"),
            ),
            *("message_id", "activation_generation", "claimed_at"),
        )
        self._advance = dialect.compile(
            update(c).where(c.c.instance_id == bindparam("w_instance_id")), "activation_generation"
        )
        self._uncount = dialect.compile(
            update(m)
            .where(m.c.id == bindparam("w_id"), m.c.attempt_count > 0)
            .values(attempt_count=m.c.attempt_count - 1, updated_at=dialect.now)
        )
        self._of_process = dialect.compile(
            select(c.c.instance_id).where(c.c.process_id == bindparam("process_id")).order_by(c.c.instance_id)
        )

    # -- taking -------------------------------------------------------------------------------

    def claim_head(
        self, tx: Transaction, instance: Instance, *, owner: str, token: str, seconds: float
    ) -> Claim | None:
        """Claim the head of a locked, free actor; without a due head, only write its hints anew."""
        now = tx.now()
        waiting = self._heads.look(tx, instance.id)
        if waiting.head is None or instance.paused_at is not None or instance.is_parked(now):
            self.write_hints(tx, instance, waiting)
            return None
        lease = Lease(instance_id=instance.id, owner=owner, token=token, generation=instance.generation + 1)
        message = self._mailbox.take_ready(tx, instance.id, waiting.head)
        self.insert_claim(tx, lease, message.id)
        ready_at, backlog = hints_from(instance, self._heads.look(tx, instance.id), now)
        self._instances.update(
            tx, instance.id, **self.lease_columns(lease, now, seconds), ready_at=ready_at, has_backlog=backlog
        )
        state = self._instances.state(tx, instance.id)
        return Claim(
            key=instance.key, lease=lease, message=message, state=state, now=now, parked_count=instance.parked_count
        )

    def insert_claim(self, tx: Transaction, lease: Lease, message_id: int) -> None:
        tx.write(
            self._insert,
            message_id=message_id,
            instance_id=lease.instance_id,
            process_id=lease.owner,
            activation_token=lease.token,
            activation_generation=lease.generation,
            claimed_at=self._dialect.encode_time(tx.now()),
        )

    def move_claim(self, tx: Transaction, held: Claim, lease: Lease, message_id: int) -> None:
        """Point exactly the claim row of the turn that ends at the next message, in place (protocol 5.1, 5.2)."""
        moved = tx.write(
            self._move,
            w_message_id=held.message.id,
            w_token=held.lease.token,
            w_generation=held.lease.generation,
            message_id=message_id,
            activation_generation=lease.generation,
            claimed_at=self._dialect.encode_time(tx.now()),
        )
        if moved != 1:
            raise LostActivation(f"The claim of instance {lease.instance_id} is gone.")

    @staticmethod
    def lease_columns(lease: Lease, now: datetime, seconds: float) -> dict[str, object]:
        return {
            "activation_owner_id": lease.owner,
            "activation_token": lease.token,
            "activation_generation": lease.generation,
            "activation_expires_at": now + timedelta(seconds=seconds),
            "last_claimed_at": now,
        }

    # -- keeping ------------------------------------------------------------------------------

    def renew(self, tx: Transaction, lease: Lease, *, seconds: float, wait: bool) -> bool | None:
        """Move the expiry of a lease that is still ours; None when somebody else has the row locked now.

        Fenced on owner and token only, since the generation moves with every turn (protocol 4.7).
        """
        lock = self._instances.lock_by_id if wait else self._instances.try_lock_by_id
        instance = lock(tx, lease.instance_id)
        if instance is None:
            return False if wait else None
        if (instance.owner, instance.token) != (lease.owner, lease.token):
            return False
        expires_at = tx.now() + timedelta(seconds=seconds)
        self._instances.update(tx, instance.id, activation_expires_at=expires_at)
        return True

    # -- giving back --------------------------------------------------------------------------

    def end_claim(self, tx: Transaction, lease: Lease, message_id: int) -> None:
        """Delete exactly the claim row of this turn; anything else is a lost lease (protocol 5.1)."""
        ended = tx.write(self._end, message_id=message_id, token=lease.token, generation=lease.generation)
        if ended != 1:
            raise LostActivation(f"Message {message_id} is no longer claimed under generation {lease.generation}.")

    def hand_back(self, tx: Transaction, instance: Instance, message_id: int, *, counted: bool = False) -> None:
        """Put the claimed message of a locked actor back in its place and free the actor.

        Uncounted unless it is a take-over: leaving in good order does not cost the message an attempt.
        """
        tx.write(self._drop, instance_id=instance.id)
        if not counted:
            tx.write(self._uncount, w_id=message_id)
        placing, now = self._mailbox.placing(tx, message_id), tx.now()
        delayed = placing.delayed and not counted
        self._mailbox.make_ready(
            tx,
            message_id=message_id,
            instance_id=instance.id,
            sequence=placing.sequence,
            available_at=placing.due if delayed else now,
            delayed=delayed,
            blocking=False,
        )
        ready_at, backlog = hints_after_arrival(instance, due=now, in_order=not delayed, now=now)
        self._instances.update(tx, instance.id, **self.released(), ready_at=ready_at, has_backlog=backlog)

    def park(self, tx: Transaction, instance: Instance, message_id: int, *, seconds: float, error: str) -> None:
        """Hand back the message of a failed activation, and keep everybody off the actor for a while (protocol 4.4)."""
        self.hand_back(tx, instance, message_id)
        until = tx.now() + timedelta(seconds=seconds)
        self._instances.update(
            tx,
            instance.id,
            parked_until=until,
            parked_count=instance.parked_count + 1,
            parked_error=error,
            ready_at=None if instance.paused_at is not None else until,
        )

    @staticmethod
    def released() -> dict[str, object]:
        return {"activation_owner_id": None, "activation_token": None, "activation_expires_at": None}

    # -- taking over --------------------------------------------------------------------------

    def take_over(self, tx: Transaction, instance: Instance, *, error: str) -> StoredMessage | None:
        """End the lease of a locked actor against its holder; the claimed message is put back or dies.

        Returns the message, as it was claimed. The generation advances, so that nothing of the holder can commit.
        """
        row = tx.one(self._claimed_message, instance_id=instance.id)
        tx.checkpoints.reach("takeover.locked", instance_id=instance.id)
        generation = instance.generation + 1
        if row is None:
            self._instances.update(tx, instance.id, **self.released(), activation_generation=generation)
            return None
        message = self._mailbox.stored(tx, row[0])
        assert message is not None, "a claimed message exists"
        if message.attempt < message.max_attempts:
            self.hand_back(tx, instance, message.id, counted=True)
            self._instances.update(tx, instance.id, activation_generation=generation)
        else:
            tx.write(self._drop, instance_id=instance.id)
            self._dead.bury(tx, instance.key, message, error=error)
            self._instances.update(tx, instance.id, **self.released(), activation_generation=generation)
        return message

    def end_by_operator(self, tx: Transaction, instance: Instance) -> None:
        """Take the lease away for good; what becomes of the message is up to the caller."""
        tx.write(self._drop, instance_id=instance.id)
        self._instances.update(tx, instance.id, **self.released(), activation_generation=instance.generation + 1)

    def claim_of_token(self, tx: Transaction, instance_id: int, token: str) -> tuple[int, int] | None:
        """The message and generation that are claimed under this token, when a commit was ambiguous (protocol 5.3)."""
        row = tx.one(self._claim_of_token, instance_id=instance_id, token=token)
        return None if row is None else (row[0], row[1])

    def advance(self, tx: Transaction, lease: Lease) -> Lease:
        """Give our own claim the next generation, so that an earlier, unknown commit of it can no longer apply."""
        advanced = Lease(
            instance_id=lease.instance_id, owner=lease.owner, token=lease.token, generation=lease.generation + 1
        )
        self._instances.update(tx, lease.instance_id, activation_generation=advanced.generation)
        if tx.write(self._advance, w_instance_id=lease.instance_id, activation_generation=advanced.generation) != 1:
            raise LostActivation(f"The claim of instance {lease.instance_id} is gone.")
        return advanced

    def claimed_message(self, tx: Transaction, instance_id: int) -> StoredMessage | None:
        row = tx.one(self._claimed_message, instance_id=instance_id)
        return None if row is None else self._mailbox.stored(tx, row[0])

    def instances_of(self, tx: Transaction, process_id: str) -> list[int]:
        """Actors whose claim belongs to this process, in lock order."""
        return [row[0] for row in tx.rows(self._of_process, process_id=process_id)]

    def write_hints(self, tx: Transaction, instance: Instance, waiting: Waiting) -> None:
        """Write recomputed hints when they differ from those of the locked row."""
        ready_at, backlog = hints_from(instance, waiting, tx.now())
        if (ready_at, backlog) != (instance.ready_at, instance.has_backlog):
            self._instances.update(tx, instance.id, ready_at=ready_at, has_backlog=backlog)
