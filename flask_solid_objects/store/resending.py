"""How a dead message is sent again: a copy at the end of its mailbox, keyed by its dead letter and linked to it.

The key and the link make it one copy, whoever sends it how often (hazard H112). The actor's row is locked before.
"""

from __future__ import annotations

import uuid

from flask_solid_objects.store.admission import Admission
from flask_solid_objects.store.dead_letters import DeadLetter, DeadLetters
from flask_solid_objects.store.mailbox import Mailbox
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Enqueued, NewMessage


class Resending:
    """Copies of dead messages, each with all its attempts before it."""

    def __init__(self, mailbox: Mailbox, admission: Admission, dead_letters: DeadLetters, *, max_attempts: int) -> None:
        self._mailbox, self._admission, self._dead_letters = mailbox, admission, dead_letters
        self._max_attempts = max_attempts

    def send(
        self, tx: Transaction, letter: DeadLetter, *, arguments: str | None = None
    ) -> tuple[NewMessage, Enqueued] | None:
        """Send the copy, or find the one that was sent before; None when the message was pruned.

        :param arguments: JSON instead of those that it died with.
        :raises MailboxFull, IdempotencyConflict, MessagePruned, ActorDestroyed: nothing was written.
        """
        original = self._mailbox.find(tx, letter.message_id)
        if original is None:
            return None
        copy = NewMessage(
            key=letter.key,
            operation=letter.operation,
            delivery_mode=original.delivery_mode,
            arguments=letter.arguments if arguments is None else arguments,
            request_id=str(uuid.uuid4()),
            max_attempts=self._max_attempts,
            idempotency_key=f"dead-letter:{letter.id}",
            caused_by=letter.message_id,
            instance_id=letter.instance_id,
        )
        enqueued = self._admission.admit(tx, copy, None)
        self._dead_letters.link(tx, letter.id, enqueued.message_id)
        return copy, enqueued
