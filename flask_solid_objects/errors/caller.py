"""Errors that the caller of an actor acts on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask_solid_objects.errors.root import SolidObjectsError


class Rejected(SolidObjectsError):
    """Raise it in an operation to answer no: state rolls back, nothing is retried, the caller gets it.

    :param code: an identifier that programs compare, such as ``"sold_out"``.
    :param message: a sentence for people.
    :param details: JSON data that goes to the caller.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        details: Mapping[str, Any] | None = None,
        message_id: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message
        self.details = dict(details) if details is not None else {}
        self.message_id = message_id


class Unauthorized(SolidObjectsError):
    """A policy denied the act, or the message that was asked for is not visible here."""

    def __init__(self, action: str, subject: str, *, remedy: str = "") -> None:
        super().__init__(f"Not allowed to {action} {subject}." + (f" {remedy}" if remedy else ""))
        self.action = action
        self.subject = subject


class TooManyObservers(SolidObjectsError):
    """As many observers as one process may have are there already; dispose of those that are no longer needed."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"This process has {limit} observers of actors already. Call what observe() returned, or use it in a "
            "`with` block; to hear of all actors connect a signal instead."
        )
        self.limit = limit


class UnknownActorType(SolidObjectsError):
    """No class is registered under this actor type in this process."""

    def __init__(self, actor_type: str) -> None:
        super().__init__(
            f"No actor is registered as {actor_type!r}. Import the module that defines it, "
            "or add the name to aliases= of its @solid.actor."
        )
        self.actor_type = actor_type


class UnknownOperation(SolidObjectsError):
    """The actor has no operation or query of this name."""

    def __init__(self, actor_type: str, operation: str, known: Sequence[str] = ()) -> None:
        names = ", ".join(known) or "none"
        super().__init__(f"{actor_type} has no operation {operation!r}. It has: {names}.")
        self.actor_type = actor_type
        self.operation = operation


class InvalidPayload(SolidObjectsError):
    """A value cannot be stored as JSON; ``path`` says where it is.

    The rules are those of I-JSON (RFC 7493), tightened to what all supported databases keep.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


class InvalidArguments(InvalidPayload):
    """Arguments do not fit the operation's signature or annotations."""


class PayloadTooLarge(InvalidPayload):
    """A value is larger than its limit in bytes of compact JSON."""

    def __init__(self, path: str, size: int, limit: int, setting: str) -> None:
        super().__init__(
            path, f"{size:,} bytes of JSON exceed the limit of {limit:,} ({setting}). Store less, or raise it."
        )
        self.size = size
        self.limit = limit


class MailboxFull(SolidObjectsError):
    """The actor already has as many waiting messages as it may have."""

    def __init__(self, actor_type: str, actor_id: str, limit: int) -> None:
        super().__init__(
            f"The mailbox of {actor_type} {actor_id!r} holds {limit:,} messages already "
            "(SOLID_OBJECTS_MAX_MAILBOX_LENGTH). Send later, or find out why it does not drain."
        )
        self.actor_type = actor_type
        self.actor_id = actor_id
        self.limit = limit


class IdempotencyConflict(SolidObjectsError):
    """The idempotency key was used before for something else."""

    def __init__(self, actor_type: str, actor_id: str, idempotency_key: str, message_id: int | None) -> None:
        super().__init__(
            f"The idempotency key {idempotency_key!r} of {actor_type} {actor_id!r} belongs to message {message_id}, "
            "which has another operation, mode (call or send) or arguments. Use a new key for a new request."
        )
        self.actor_type = actor_type
        self.actor_id = actor_id
        self.idempotency_key = idempotency_key
        self.message_id = message_id


class _CallError(SolidObjectsError):
    """What the errors of a call that did not finish have in common."""

    def __init__(self, text: str, *, actor_type: str, actor_id: str, operation: str) -> None:
        super().__init__(text)
        self.actor_type = actor_type
        self.actor_id = actor_id
        self.operation = operation


class CallTimeout(_CallError):
    """The message is durable, but had no outcome before the deadline; the work goes on.

    ``message`` is a reference that can be waited for again. ``waiting_on`` is one of actor_paused,
    actor_parked, activation_held, earlier_message, message_claimed, not_yet_available, ready_unclaimed,
    database_contention and unknown. ``activation`` says who holds the actor, ``blocker`` which earlier message
    it waits for; both are None when there is none.
    """

    def __init__(
        self,
        *,
        timeout: float,
        actor_type: str,
        actor_id: str,
        operation: str,
        message: Any,
        status: str,
        waiting_on: str,
        activation: Mapping[str, Any] | None = None,
        blocker: Mapping[str, Any] | None = None,
    ) -> None:
        text = (
            f"{actor_type} {actor_id!r} {operation} had no outcome within {timeout:g} s (status {status}, waiting on "
            f"{waiting_on}). The message is durable and will still run: wait on error.message, do not send it again."
        )
        super().__init__(text, actor_type=actor_type, actor_id=actor_id, operation=operation)
        self.timeout = timeout
        self.message = message
        self.status = status
        self.waiting_on = waiting_on
        self.activation = activation
        self.blocker = blocker


class CallEnqueueTimeout(_CallError):
    """The message could not be stored before the deadline; nothing durable exists, so retrying is safe."""

    def __init__(self, *, timeout: float, actor_type: str, actor_id: str, operation: str) -> None:
        text = (
            f"{actor_type} {actor_id!r} {operation} could not be stored within {timeout:g} s: another transaction "
            "holds the row or the database is overloaded. Nothing was written; retry, or raise timeout=."
        )
        super().__init__(text, actor_type=actor_type, actor_id=actor_id, operation=operation)
        self.timeout = timeout


class CallInsideTransaction(_CallError):
    """The caller's session has uncommitted writes or row locks on the database of the actors."""

    def __init__(self, *, actor_type: str, actor_id: str, operation: str, sending: bool) -> None:
        remedy = (
            "Pass .using(session=db.session) so that the message commits with it, or commit first."
            if sending
            else "Commit or roll back db.session before the call, or use .using(session=db.session).send(...)."
        )
        text = (
            f"{actor_type} {actor_id!r} {operation}: db.session holds uncommitted writes or row locks, and waiting "
            f"for another transaction now can deadlock. {remedy}"
        )
        super().__init__(text, actor_type=actor_type, actor_id=actor_id, operation=operation)


class CallUnresolved(_CallError):
    """The connection broke while the message was being stored, and the database could not be asked since.

    The message may or may not exist: look with ``solid.messages.find(request_id=error.request_id)``.
    """

    def __init__(self, *, request_id: str, actor_type: str, actor_id: str, operation: str) -> None:
        text = (
            f"{actor_type} {actor_id!r} {operation}: the connection was lost while storing the message, and it is "
            f"unknown whether it was stored. Ask later with solid.messages.find(request_id={request_id!r})."
        )
        super().__init__(text, actor_type=actor_type, actor_id=actor_id, operation=operation)
        self.request_id = request_id


class MessageFailed(SolidObjectsError):
    """The message ended without a result; ``details`` holds the stored class, message and backtrace."""

    def __init__(self, message_id: int, details: Mapping[str, Any]) -> None:
        super().__init__(
            f"Message {message_id} failed with {details.get('class')}: {details.get('message')}. "
            "See `flask solid dead-letters show`."
        )
        self.message_id = message_id
        self.details = dict(details)


class MessagePruned(SolidObjectsError):
    """The actor remembers this idempotency key, but the message has been pruned."""

    def __init__(self, idempotency_key: str) -> None:
        super().__init__(
            f"The message with idempotency key {idempotency_key!r} finished and has been pruned since; "
            "its outcome is no longer stored (SOLID_OBJECTS_MESSAGE_RETENTION)."
        )
        self.idempotency_key = idempotency_key
