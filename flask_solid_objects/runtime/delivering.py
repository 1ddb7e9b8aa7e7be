"""Deliver messages from actor to actor: into the receiver's mailbox, in the order of the sends, exactly once.

Enqueueing and completion share one transaction under the receiver's lock, so nothing is claimed and a crash leaves
nothing half done. No user code runs here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import msgspec

from flask_solid_objects.actors.staging import ActorMessage
from flask_solid_objects.errors import (
    CommitUnknown,
    DatabaseDeadlineExceeded,
    IdempotencyConflict,
    InvalidPayload,
    MailboxFull,
    MessagePruned,
    UnknownOperation,
)
from flask_solid_objects.payloads import encode
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.passing import attempt_each
from flask_solid_objects.runtime.recovering import Recovering
from flask_solid_objects.runtime.turn_ends import error_document
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.deliveries import Delivery, Pair
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, NewMessage

_MESSAGES_SEEN = 50
_MESSAGES_AT_ONCE = 100
# What can never be delivered, however often it is tried.
_FINAL = (IdempotencyConflict, UnknownOperation, InvalidPayload)


class Delivering:
    """Delivers for one role; several may run at once."""

    def __init__(self, core: Core, wake_ups: WakeUps, recovering: Recovering) -> None:
        self._core, self._wake_ups, self._recovering = core, wake_ups, recovering

    def run_once(self, is_stopping: Callable[[], bool] = lambda: False) -> bool:
        """Deliver what is due, up to a bound; whether there was any.

        :param is_stopping: asked before each pair, since a lock may have to be waited for.
        """
        deliveries = self._core.store.deliveries
        pairs, is_page = self._core.database.read(lambda tx: deliveries.due(tx, _MESSAGES_SEEN))
        # Several roles see the same pairs; starting anywhere, they wait for each other's locks less.
        start = random.randrange(len(pairs)) if pairs else 0  # noqa: S311 - not a secret
        delivered = attempt_each(
            [*pairs[start:], *pairs[:start]],
            self._attempt,
            subject=lambda pair: pair.target,
            is_stopping=is_stopping,
        )
        # A page may be full of one stuck pair, behind which others wait.
        return delivered > 0 or is_page

    def _attempt(self, pair: Pair) -> int:
        try:
            return self._transact(pair, _MESSAGES_AT_ONCE)
        except (CommitUnknown, DatabaseDeadlineExceeded):
            # Either it was done or it was not; the rows say which, at the next look.
            raise
        except Exception as error:
            self._core.events.announce("delivery.failed", instance_id=pair.instance_id, error=type(error).__name__)
        try:
            # Any of them may be to blame, so that only the head is tried.
            return self._transact(pair, 1)
        except (CommitUnknown, DatabaseDeadlineExceeded):
            raise
        except Exception as error:
            cause = error
            self._core.database.transact("postpone", lambda tx: self._postpone_head(tx, pair, cause))
            return 0

    def _transact(self, pair: Pair, most: int) -> int:
        database = self._core.database
        receiver_id, delivered = database.transact(
            "deliver", lambda tx: self._deliver(tx, pair, most), deadline=database.soon()
        )
        if delivered:
            self._wake_ups.signal(instance_id=receiver_id, work=True)
        return delivered

    def _deliver(self, tx: Transaction, pair: Pair, most: int) -> tuple[int, int]:
        """Deliver the next messages of a pair until one cannot be; the receiver's id and how many."""
        store, deliveries = self._core.store, self._core.store.deliveries
        first = _decode(pair.arguments)
        key = ActorKey(actor_type=first.type, actor_id=first.id)
        receiver = store.instances.lock(tx, key)
        if receiver is None:
            # Nobody may appear for a message that another role delivered, or that went with its sender.
            if not deliveries.has_next(tx, pair):
                return 0, 0
            receiver = store.instances.lock_or_create(tx, key, first.state_version)
        waiting = deliveries.next_of(tx, pair, most)
        tx.checkpoints.reach("delivery.locked", key=key, count=len(waiting))
        if not waiting:
            return receiver.id, 0
        if waiting[0].available_at > tx.now():
            deliveries.hold(tx, pair, until=waiting[0].available_at)
            return receiver.id, 0
        delivered, events = list[Delivery](), self._core.events
        for delivery in waiting:
            try:
                self._enqueue(tx, delivery, receiver.id, key)
            except MailboxFull as error:
                waited = (tx.now() - delivery.created_at).total_seconds()
                until = tx.now() + timedelta(seconds=self._core.settings.pause_after_waiting(waited))
                deliveries.wait(tx, pair, delivery, until=until, error=error_document(error))
                events.announce_after(tx, "delivery.postponed", actor=key, effect_id=delivery.effect_id, waited=waited)
                break
            except _FINAL as error:
                deliveries.bury(tx, delivery, error_document(error))
                events.announce_after(
                    tx, "effect.dead", actor=key, effect_id=delivery.effect_id, error=type(error).__name__
                )
            else:
                delivered.append(delivery)
        deliveries.complete(tx, delivered)
        return receiver.id, len(delivered)

    def _enqueue(self, tx: Transaction, delivery: Delivery, receiver_id: int, key: ActorKey) -> None:
        message = _decode(delivery.arguments)
        if message.about is not None:
            asked_by = delivery.message_id
            self._recovering.answer(tx, receiver_id, message.about, message.operation, asked_by=asked_by)
            return
        registry = self._core.registry
        # A type that this process does not know was checked where it was staged.
        if key.actor_type in registry.types():
            registry.get(key.actor_type).lookup(message.operation)
        at = message.at
        if message.delay is not None:
            at = delivery.created_at + timedelta(seconds=message.delay)
        new = NewMessage(
            key=key,
            operation=message.operation,
            delivery_mode="internal" if message.internal else "async",
            # As it was checked at the staging; the column may have stored it in another spelling.
            arguments=encode(msgspec.json.decode(message.arguments), path="arguments"),
            request_id=delivery.effect_id,
            max_attempts=message.max_attempts,
            state_version=message.state_version,
            idempotency_key=message.idempotency_key,
            at=at,
            caused_by=delivery.message_id,
            instance_id=receiver_id,
        )
        try:
            enqueued = self._core.store.admission.admit(tx, new, None)
        except MessagePruned:
            # The actor has finished a message of this key before; it must not run again.
            self._core.events.announce_after(tx, "delivery.repeated", actor=key, effect_id=delivery.effect_id)
        else:
            tx.after_commit(partial(self._core.events.announce_enqueued, new, enqueued))

    def _postpone_head(self, tx: Transaction, pair: Pair, error: Exception) -> None:
        """After an error that nobody expected: the head waits, or dies after its attempts."""
        deliveries, settings = self._core.store.deliveries, self._core.settings
        waiting = deliveries.next_of(tx, pair, 1)
        if not waiting:
            return
        head, document = waiting[0], error_document(error)
        if head.attempts + 1 >= head.max_attempts:
            deliveries.bury(tx, head, document)
            self._core.events.announce_after(
                tx,
                "effect.dead",
                instance_id=pair.instance_id,
                effect_id=head.effect_id,
                error=type(error).__name__,
            )
            return
        until = tx.now() + timedelta(seconds=settings.pause_after(head.attempts + 1))
        deliveries.postpone(tx, pair, head, until=until, error=document)


def _decode(text: str) -> ActorMessage:
    return msgspec.json.decode(text, type=ActorMessage)
