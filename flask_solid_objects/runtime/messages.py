"""Read messages again after they were sent: status, outcome, result, look-up; every read asks the policy anew."""

from __future__ import annotations

from typing import Any

from flask_solid_objects.actors.definition import OperationDefinition, Target
from flask_solid_objects.actors.message import Message
from flask_solid_objects.errors import (
    ActorDestroyed,
    MessageFailed,
    MessagePruned,
    Rejected,
    Unauthorized,
    UnknownActorType,
    UnknownOperation,
)
from flask_solid_objects.payloads import decode
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.policies import PolicyName
from flask_solid_objects.runtime.remembered import entries_of
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Access, ActorKey, MessageRecord, MessageStatus, Outcome


class Messages:
    """Looks messages up and decodes what they ended with."""

    def __init__(self, core: Core, reader: Any) -> None:
        self._core, self._reader = core, reader

    def find(self, *, request_id: str, context: object = None) -> Message[Any] | None:
        """The message of a request id; None when there is none, or when the policy refuses."""
        mailbox = self._core.store.mailbox
        record = self._core.database.read(lambda tx: mailbox.find_by_request(tx, request_id))
        if record is None or not self.is_allowed(record, context):
            return None
        return self.reference(record)

    def find_by_key(self, target: Target, idempotency_key: str, context: object) -> Message[Any] | None:
        """The message of an actor's idempotency key.

        :raises MessagePruned: the actor remembers the key, but the message is gone.
        """
        record, remembered = self._core.database.read(lambda tx: self._by_key(tx, target.key, idempotency_key))
        if record is not None:
            return self.reference(record) if self.is_allowed(record, context) else None
        for entry in remembered:
            if entry.get("key") == idempotency_key and "arguments" in entry:
                access = self._access("read_message", target.key, str(entry["operation"]), entry["arguments"], context)
                if self._core.policies.allows(self._policy(target.key, str(entry["operation"])), access):
                    raise MessagePruned(idempotency_key)
        return None

    def record(self, message: Message[Any], context: object) -> MessageRecord:
        """The stored row behind a reference.

        :raises Unauthorized: a policy denied, or there is no such message any more; the two look the same.
        """
        found = None
        if message.id is not None:
            message_id = message.id
            found = self._core.database.read(lambda tx: self._core.store.mailbox.find(tx, message_id))
        if found is None or found.request_id != message.request_id or not self.is_allowed(found, context):
            raise Unauthorized("read", f"message {message.id} of {message.actor_type} {message.actor_id!r}")
        return found

    def outcome(self, record: MessageRecord) -> Outcome:
        """How a message stands, with its result decoded by the operation's annotation."""
        finished = record.status is MessageStatus.COMPLETED
        return Outcome(
            status=record.status,
            result=self.result_of(record) if finished else None,
            error=_object(record.error),
            rejection=_object(record.rejection),
            attempts=record.attempts,
        )

    def value_of(self, record: MessageRecord) -> Any:
        """The result of a terminal message.

        :raises Rejected, MessageFailed: it ended another way.
        """
        if record.status is MessageStatus.COMPLETED:
            return self.result_of(record)
        if record.status is MessageStatus.REJECTED:
            raise rejected(record.rejection, record.id)
        raise MessageFailed(record.id, _object(record.error) or {})

    def result_of(self, record: MessageRecord) -> Any:
        operation = self._operation(record.key, record.operation)
        text = record.result or "null"
        return decode(text) if operation is None else operation.decode_result(text)

    def reference(self, record: MessageRecord) -> Message[Any]:
        return Message(
            self._reader,
            id=record.id,
            request_id=record.request_id,
            actor_type=record.key.actor_type,
            actor_id=record.key.actor_id,
            sequence=record.sequence,
            instance_id=record.instance_id,
        )

    def is_allowed(self, record: MessageRecord, context: object) -> bool:
        arguments = decode(record.arguments)
        access = self._access("read_message", record.key, record.operation, arguments, context)
        return self._core.policies.allows(self._policy(record.key, record.operation), access)

    def gone(self, message: Message[Any]) -> ActorDestroyed:
        return ActorDestroyed(message.actor_type, message.actor_id)

    def _by_key(
        self, tx: Transaction, key: ActorKey, idempotency_key: str
    ) -> tuple[MessageRecord | None, list[dict[str, Any]]]:
        instance = self._core.store.instances.find(tx, key)
        if instance is None:
            return None, []
        record = self._core.store.mailbox.find_by_idempotency_key(tx, instance.id, idempotency_key)
        state = self._core.store.instances.state(tx, instance.id)
        return record, entries_of(state.remembered_keys)

    def _policy(self, key: ActorKey, name: str) -> PolicyName:
        operation = self._operation(key, name)
        return "message" if operation is None or operation.kind == "operation" else "query"

    def _operation(self, key: ActorKey, name: str) -> OperationDefinition | None:
        """The operation's definition, or None for what this process does not know (any more)."""
        try:
            return self._core.registry.get(key.actor_type).lookup(name)
        except (UnknownActorType, UnknownOperation):
            return None

    @staticmethod
    def _access(action: str, key: ActorKey, operation: str, arguments: Any, context: object) -> Access:
        return Access(
            action=action,
            actor_type=key.actor_type,
            actor_id=key.actor_id,
            operation=operation,
            arguments=arguments,
            context=context,
        )


def rejected(document: str | None, message_id: int) -> Rejected:
    """The stored rejection as the exception that the caller gets."""
    stored = _object(document) or {}
    return Rejected(
        str(stored.get("code")), str(stored.get("message") or ""), details=stored.get("details"), message_id=message_id
    )


def _object(text: str | None) -> dict[str, Any] | None:
    value = decode(text) if text is not None else None
    return value if isinstance(value, dict) else None
