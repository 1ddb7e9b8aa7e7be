"""Admit a message: give it a sequence and either the right to run at once or a place among the waiting ones.

Protocol 4.1. A call asks for the claim, a send does not. Where the database can, the common case is one statement
(``writable_cte``); here is the general form, which also answers repeats, idempotency keys, delays and first use.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from flask_solid_objects.errors import ActorDestroyed, IdempotencyConflict, MailboxFull, MessagePruned
from flask_solid_objects.payloads import decode, same
from flask_solid_objects.store.completion import Claimant
from flask_solid_objects.store.heads import hints_after_arrival
from flask_solid_objects.store.instances import Instance, Instances
from flask_solid_objects.store.leases import Leases
from flask_solid_objects.store.mailbox import Mailbox
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.writable_cte import WritableCte
from flask_solid_objects.values import ActorKey, Claim, Enqueued, Lease, MessageRecord, NewMessage, StoredMessage


class Admission:
    """Admits messages; the caller owns the transaction."""

    def __init__(
        self,
        instances: Instances,
        mailbox: Mailbox,
        leases: Leases,
        single: WritableCte | None,
        *,
        mailbox_limit: int,
    ) -> None:
        self._instances, self._mailbox, self._leases, self._single = instances, mailbox, leases, single
        self._limit = mailbox_limit

    def admit(self, tx: Transaction, new: NewMessage, claimant: Claimant | None, *, repeated: bool = False) -> Enqueued:
        """Store a message, or find the one that an equal request stored before.

        :param repeated: an earlier try ended in an unknown commit: look the request id up first (protocol 5.3).
        :raises MailboxFull, IdempotencyConflict, ActorDestroyed: nothing was written.
        """
        plain = new.idempotency_key is None and new.reminder is None and not self._may_delay(new)
        if self._single is not None and not repeated and plain:
            admitted = self._single.admit(tx, new, claimant, mailbox_limit=self._limit)
            if admitted is not None:
                return admitted
        instance = self._locked(tx, new)
        tx.checkpoints.reach("admit.locked", key=new.key)
        known = self._known(tx, new, instance, repeated=repeated)
        if known is not None:
            return self._existing(tx, new, instance, known, claimant)
        if self._mailbox.is_full(tx, instance.id, instance.next_sequence, self._limit):
            raise MailboxFull(new.key.actor_type, new.key.actor_id, self._limit)
        now = tx.now()
        due = self._due(new, now)
        if claimant is not None and due == now and self._is_free(instance, now):
            return self._admit_claimed(tx, new, instance, claimant)
        return self._admit_waiting(tx, new, instance, due)

    @staticmethod
    def _may_delay(new: NewMessage) -> bool:
        return bool(new.delay) or new.at is not None

    def _locked(self, tx: Transaction, new: NewMessage) -> Instance:
        if new.instance_id is None:
            return self._instances.lock_or_create(tx, new.key, new.state_version)
        instance = self._instances.lock_by_id(tx, new.instance_id)
        if instance is None:
            # A repeat that knows its incarnation must not make another one.
            raise ActorDestroyed(new.key.actor_type, new.key.actor_id)
        return instance

    def _known(self, tx: Transaction, new: NewMessage, instance: Instance, *, repeated: bool) -> MessageRecord | None:
        if repeated:
            known = self._mailbox.find_by_request(tx, new.request_id)
            if known is not None:
                return known
        if new.idempotency_key is None:
            return None
        known = self._mailbox.find_by_idempotency_key(tx, instance.id, new.idempotency_key, locked=True)
        if known is None:
            self._refuse_remembered(tx, new, instance.id, new.idempotency_key)
            return None
        alike = (known.operation, known.delivery_mode) == (new.operation, new.delivery_mode)
        if not alike or not same(known.arguments, new.arguments):
            raise IdempotencyConflict(new.key.actor_type, new.key.actor_id, new.idempotency_key, known.id)
        return known

    def _refuse_remembered(self, tx: Transaction, new: NewMessage, instance_id: int, key: str) -> None:
        """A key whose message was pruned must not run again as long as the actor remembers it."""
        for entry in decode(self._instances.remembered_keys(tx, instance_id) or "[]"):
            if entry.get("key") != key:
                continue
            if entry.get("operation") != new.operation or not same(entry.get("arguments"), decode(new.arguments)):
                raise IdempotencyConflict(new.key.actor_type, new.key.actor_id, key, None)
            raise MessagePruned(key)

    def _existing(
        self, tx: Transaction, new: NewMessage, instance: Instance, known: MessageRecord, claimant: Claimant | None
    ) -> Enqueued:
        """Answer with the stored message; a claim under our own token is the one that we asked for before."""
        claim = None
        if claimant is not None and instance.token == claimant.token:
            held = self._leases.claim_of_token(tx, instance.id, claimant.token)
            message = self._mailbox.stored(tx, known.id) if held is not None and held[0] == known.id else None
            if held is not None and message is not None:
                lease = Lease(instance_id=instance.id, owner=claimant.owner, token=claimant.token, generation=held[1])
                claim = self._claim(tx, new.key, lease, message, instance)
        return Enqueued(
            message_id=known.id,
            instance_id=known.instance_id,
            sequence=known.sequence,
            request_id=known.request_id,
            existing=True,
            claim=claim,
        )

    @staticmethod
    def _is_free(instance: Instance, now: datetime) -> bool:
        """Nothing runs, nothing waits, nobody keeps callers off; a due delayed message keeps its place."""
        return (
            instance.owner is None
            and instance.paused_at is None
            and not instance.is_parked(now)
            and not instance.has_backlog
            and (instance.ready_at is None or instance.ready_at > now)
        )

    @staticmethod
    def _due(new: NewMessage, now: datetime) -> datetime:
        if new.at is not None:
            return max(new.at, now)
        return now + timedelta(seconds=new.delay) if new.delay else now

    def _admit_claimed(self, tx: Transaction, new: NewMessage, instance: Instance, claimant: Claimant) -> Enqueued:
        now, sequence = tx.now(), instance.next_sequence
        lease = Lease(
            instance_id=instance.id, owner=claimant.owner, token=claimant.token, generation=instance.generation + 1
        )
        message_id = self._mailbox.insert(tx, new, instance.id, sequence, available_at=now, attempts=1)
        self._leases.insert_claim(tx, lease, message_id)
        self._instances.update(
            tx,
            instance.id,
            **self._leases.lease_columns(lease, now, claimant.seconds),
            next_message_sequence=sequence + 1,
        )
        message = StoredMessage(
            id=message_id,
            instance_id=instance.id,
            operation=new.operation,
            delivery_mode=new.delivery_mode,
            arguments=new.arguments,
            sequence=sequence,
            attempt=1,
            max_attempts=new.max_attempts,
            request_id=new.request_id,
            idempotency_key=new.idempotency_key,
            enqueued_at=now,
            reminder=new.reminder,
        )
        claim = self._claim(tx, new.key, lease, message, instance)
        return Enqueued(
            message_id=message_id, instance_id=instance.id, sequence=sequence, request_id=new.request_id, claim=claim
        )

    def _claim(self, tx: Transaction, key: ActorKey, lease: Lease, message: StoredMessage, instance: Instance) -> Claim:
        state = self._instances.state(tx, instance.id)
        return Claim(
            key=key, lease=lease, message=message, state=state, now=tx.now(), parked_count=instance.parked_count
        )

    def _admit_waiting(self, tx: Transaction, new: NewMessage, instance: Instance, due: datetime) -> Enqueued:
        now, sequence = tx.now(), instance.next_sequence
        delayed = due > now
        message_id = self._mailbox.insert(tx, new, instance.id, sequence, available_at=due, attempts=0)
        self._mailbox.make_ready(
            tx,
            message_id=message_id,
            instance_id=instance.id,
            sequence=sequence,
            available_at=due,
            delayed=delayed,
            blocking=False,
        )
        ready_at, backlog = hints_after_arrival(instance, due=due, in_order=not delayed, now=now)
        self._instances.update(
            tx, instance.id, next_message_sequence=sequence + 1, ready_at=ready_at, has_backlog=backlog
        )
        return Enqueued(message_id=message_id, instance_id=instance.id, sequence=sequence, request_id=new.request_id)
