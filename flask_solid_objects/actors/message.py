"""A handle on one durable message: its status, its outcome, and waiting for its result."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar, cast

from flask_solid_objects.errors import MessageFailed, Rejected
from flask_solid_objects.values import MessageStatus, Outcome

R = TypeVar("R")


class MessageReader(Protocol):
    """What a message asks for its row; the runtime is one."""

    def read_outcome(self, message: Message[Any], context: object) -> Outcome: ...

    def wait_message(self, message: Message[Any], timeout: float, context: object) -> Any: ...


class Message(Generic[R]):
    """What ``.send()`` returns. Holding one is not a permission: every read asks the policy again.

    ``id``, ``sequence`` and ``instance_id`` are None until the message is stored, which for one that was sent with
    ``session=`` is the commit of that session.
    """

    __slots__ = ("_reader", "actor_id", "actor_type", "id", "instance_id", "request_id", "sequence")

    def __init__(
        self,
        reader: MessageReader,
        *,
        id: int | None,
        request_id: str,
        actor_type: str,
        actor_id: str,
        sequence: int | None,
        instance_id: int | None,
    ) -> None:
        self._reader = reader
        self.id = id
        self.request_id = request_id
        self.actor_type = actor_type
        self.actor_id = actor_id
        self.sequence = sequence
        self.instance_id = instance_id

    def status(self, *, context: object = None) -> MessageStatus:
        """Where the message is now.

        :raises Unauthorized: the policy denied, or the message no longer exists.
        """
        return self.outcome(context=context).status

    def outcome(self, *, context: object = None) -> Outcome:
        """Everything about how it stands or ended; does not raise for a rejected or dead message.

        :raises Unauthorized: the policy denied, or the message no longer exists.
        """
        return self._reader.read_outcome(self, context)

    def result(self, *, context: object = None) -> R | None:
        """The result, or None while there is none.

        :raises Rejected, MessageFailed: it ended another way.
        """
        outcome = self.outcome(context=context)
        if outcome.status is MessageStatus.REJECTED:
            stored = outcome.rejection or {}
            raise Rejected(
                str(stored.get("code")),
                str(stored.get("message") or ""),
                details=stored.get("details"),
                message_id=self.id,
            )
        if outcome.status in (MessageStatus.DEAD, MessageStatus.SKIPPED):
            raise MessageFailed(self.id or 0, outcome.error or {})
        return cast("R | None", outcome.result)

    def wait(self, timeout: float = 5.0, *, context: object = None) -> R:
        """Wait for the result, running the actor's earlier messages meanwhile; seconds.

        :raises CallTimeout: it has none yet; the message goes on.
        :raises Rejected, MessageFailed, ActorDestroyed: it ended another way.
        """
        return cast("R", self._reader.wait_message(self, timeout, context))

    def _assign(self, *, id: int | None, sequence: int | None, instance_id: int | None) -> None:
        """Number a message that was unsent; the runtime does when it is stored, and undoes it with a rollback."""
        self.id, self.sequence, self.instance_id = id, sequence, instance_id

    def __repr__(self) -> str:
        return f"<Message {self.id} of {self.actor_type} {self.actor_id!r}, request {self.request_id}>"
