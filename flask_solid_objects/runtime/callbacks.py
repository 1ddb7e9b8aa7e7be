"""Tell an actor what became of its effect: a message in the transaction that ends the effect.

A full mailbox must not make the outside work run again, so the message then goes through the outbox, which tries until
there is room.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial

import msgspec

from flask_solid_objects.actors.callbacks import callback_arguments
from flask_solid_objects.actors.staging import ActorMessage, message_entry
from flask_solid_objects.errors import MailboxFull
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.effects import EffectRow
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import NewMessage


class Callbacks:
    """Sends callback messages; the caller has locked the actor's row."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def send(
        self, tx: Transaction, row: EffectRow, operation: str, available: Mapping[str, str], key: str | None = None
    ) -> None:
        """Enqueue a callback with those of the available arguments, JSON text each, that the operation names.

        :param key: the idempotency key of the message.
        """
        offered = {"effect_id": f'"{row.effect_id}"', **available}
        settings, actor = self._core.settings, row.actor
        arguments = callback_arguments(self._accepted(actor.actor_type, operation, offered), offered)
        new = NewMessage(
            key=actor,
            operation=operation,
            delivery_mode="internal",
            arguments=arguments,
            request_id=str(uuid.uuid4()),
            max_attempts=settings.max_attempts,
            instance_id=row.instance_id,
            caused_by=row.message_id,
            idempotency_key=key,
        )
        events = self._core.events
        try:
            enqueued = self._core.store.admission.admit(tx, new, None)
        except MailboxFull:
            events.announce_after(
                tx, "effect.callback_waits", actor=actor, effect_id=row.effect_id, operation=operation
            )
            message = ActorMessage(
                type=actor.actor_type,
                id=actor.actor_id,
                operation=operation,
                arguments=msgspec.Raw(arguments.encode()),
                state_version=1,
                max_attempts=settings.max_attempts,
                internal=True,
                idempotency_key=key,
            )
            entry = message_entry(new.request_id, message, settings.max_attempts)
            self._core.store.staged.add_effects(tx, row.message_id, row.instance_id, [entry])
        else:
            tx.after_commit(partial(events.announce_enqueued, new, enqueued))

    def _accepted(self, actor_type: str, operation: str, offered: Mapping[str, str]) -> frozenset[str]:
        """What the operation names; all of it where this process does not know the class."""
        registry = self._core.registry
        if actor_type not in registry.types():
            return frozenset(offered)
        found = registry.get(actor_type).operations.get(operation)
        return frozenset(offered) if found is None else found.signature.names
