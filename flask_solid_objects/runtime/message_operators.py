"""Messages that operators send: a copy of one that died, as it was or with other arguments, or a new one by hand.

Arguments are checked against the operation's signature before anything is written, as those of any other send. A new
message is linked to the one it replaces, which stays as it is (hazard H112).
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from flask_solid_objects.actors.definition import OperationDefinition
from flask_solid_objects.actors.message import Message
from flask_solid_objects.errors import ActorDestroyed, SolidObjectsError, UnknownDeadLetter, UnknownOperation
from flask_solid_objects.payloads import decode_as, encode
from flask_solid_objects.runtime.acts import Acts, Record, subject_of
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.messages import Messages
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.dead_letters import DeadLetter
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, NewMessage


class MessageOperators:
    """Sends of operators; ``context`` goes to the administration policy."""

    def __init__(self, core: Core, wake_ups: WakeUps, acts: Acts, messages: Messages) -> None:
        self._core, self._wake_ups, self._acts, self._messages = core, wake_ups, acts, messages

    def operation(self, actor_type: str, name: str) -> OperationDefinition:
        """An operation that can be sent.

        :raises UnknownActorType, UnknownOperation: there is none of this name; queries and reads are none.
        """
        definition = self._core.registry.get(actor_type)
        found = definition.lookup(name)
        if found.kind != "operation":
            known = sorted(each.name for each in definition.operations.values() if each.kind == "operation")
            raise UnknownOperation(definition.actor_type, name, known)
        return found

    def send(
        self, key: ActorKey, operation: str, arguments: str, *, idempotency_key: str, context: object = None
    ) -> Message[Any]:
        """Send a message by hand; the same key again gives the message that was sent before.

        :param arguments: a JSON object.
        :raises InvalidArguments, InvalidPayload, MailboxFull: nothing was written.
        """
        self._acts.require("send", "actors", context, key=key)
        definition = self._core.registry.get(key.actor_type)
        key = ActorKey(actor_type=definition.actor_type, actor_id=key.actor_id)
        checked = self._checked(self.operation(key.actor_type, operation), arguments)
        store = self._core.store

        def send(tx: Transaction, _locked: object, record: Record) -> int:
            new = NewMessage(
                key=key,
                operation=operation,
                delivery_mode="async",
                arguments=checked,
                request_id=str(uuid.uuid4()),
                max_attempts=self._core.settings.max_attempts,
                state_version=definition.state_version,
                idempotency_key=idempotency_key,
            )
            admitted = store.admission.admit(tx, new, None)
            tx.after_commit(partial(self._core.events.announce_enqueued, new, admitted))
            if not admitted.existing:
                record(kind="actor", subject=subject_of(key), filters=encode({"operation": operation}, path="filters"))
            return admitted.message_id

        message_id = self._acts.perform("actor.send", context, lambda _: None, send)
        return self._reference(message_id, ActorDestroyed(key.actor_type, key.actor_id))

    def retry(self, dead_letter_id: int, *, arguments: str | None = None, context: object = None) -> Message[Any]:
        """Send a copy of a message that died at the end of its mailbox; pressing twice gives the same message.

        :param arguments: a JSON object instead of those that it died with.
        :raises MailboxFull, InvalidArguments, InvalidPayload: the dead letter stays as it is.
        :raises IdempotencyConflict: it was sent again already, with other arguments.
        """
        self._acts.require("retry", "dead_letters", context, resource_id=str(dead_letter_id))
        store = self._core.store

        def lock(tx: Transaction) -> DeadLetter | None:
            letter = store.dead_letters.find(tx, dead_letter_id)
            if letter is not None:
                store.instances.lock_by_id(tx, letter.instance_id)
            return letter

        def retry(tx: Transaction, letter: DeadLetter | None, record: Record) -> int:
            if letter is None:
                raise UnknownDeadLetter(dead_letter_id)
            checked = arguments
            if arguments is not None:
                checked = self._checked(self.operation(letter.key.actor_type, letter.operation), arguments)
            sent = store.resending.send(tx, letter, arguments=checked)
            if sent is None:
                # Its message was pruned a moment ago, and it with it.
                raise UnknownDeadLetter(dead_letter_id)
            tx.after_commit(partial(self._core.events.announce_enqueued, *sent))
            edited = None if arguments is None else encode({"arguments": "edited"}, path="filters")
            record(kind="message", subject=str(dead_letter_id), filters=edited)
            return sent[1].message_id

        message_id = self._acts.perform("dead_letter.retry", context, lock, retry)
        return self._reference(message_id, UnknownDeadLetter(dead_letter_id))

    def _checked(self, operation: OperationDefinition, arguments: str) -> str:
        """Arguments as they are stored, after they were bound, encoded and decoded once."""
        given = decode_as(arguments, dict[str, Any], path="arguments")
        return operation.encode_arguments((), given, self._core.settings.max_payload_bytes)

    def _reference(self, message_id: int, gone: SolidObjectsError) -> Message[Any]:
        record = self._core.database.read(lambda tx: self._core.store.mailbox.find(tx, message_id))
        if record is None:
            raise gone
        self._wake_ups.signal(instance_id=record.instance_id, work=True)
        return self._messages.reference(record)
