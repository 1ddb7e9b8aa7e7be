"""Run one turn: activate the actor when it is not in memory, run the operation, and say what is to be committed.

Nothing here writes: a turn runs without an open transaction of ours (promise 4), and its end is committed by
``ending``. Memory is a cache (protocol 5.4): it is used again only for the next claim of the same lease, and is
dropped at any failure.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.definition import ActorDefinition
from flask_solid_objects.errors import (
    InvalidArguments,
    InvalidRejectionCode,
    NonRetryableError,
    QueryMutatedState,
    Rejected,
)
from flask_solid_objects.payloads import encode
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.events import announce
from flask_solid_objects.runtime.remembered import remember
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.completion import Completion, Failure
from flask_solid_objects.values import Claim, CurrentTurn, InstanceState, MessageContext, current_turn

_ERROR_BYTES = 8192
_BACKTRACE_LINES = 50


@dataclass(slots=True)
class Activation:
    """An actor in memory with the encoding of its committed state."""

    definition: ActorDefinition
    actor: Actor
    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The turn ended well or said no; a rejection leaves no activation in memory."""

    completion: Completion
    activation: Activation | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The operation raised; the message is retried or dies."""

    failure: Failure
    error: BaseException


@dataclass(frozen=True, slots=True)
class NotActivated:
    """A migration or hook raised before the operation could begin: the message is not to blame."""

    error: BaseException
    document: str


TurnEnd = Completed | Failed | NotActivated


class TurnRunner:
    """Runs claimed messages in the context of actor code.

    :param interruptible: in the thread of a caller an exception beside ``Exception`` and ``SystemExit`` interrupts the
        caller, such as the timeout of a green thread; in a role only ``KeyboardInterrupt`` does.
    """

    def __init__(self, core: Core, *, interruptible: bool = False) -> None:
        self._core, self._interruptible = core, interruptible

    def run(self, claim: Claim, activation: Activation | None = None) -> TurnEnd:
        """Run the claimed message; every error of actor code becomes a value.

        :raises BaseException: an interruption; whoever claimed the message hands it back.
        """
        checkpoints = self._core.seams.checkpoints
        checkpoints.reach("turn.claimed", claim=claim)
        end = self._core.run_actor_code(lambda: self._run(claim, activation))
        checkpoints.reach("turn.handled", claim=claim)
        return end

    def deactivate(self, activation: Activation, claim: Claim) -> None:
        """Run the ``on_deactivate`` hooks; what they raise is logged and changes nothing."""
        if not activation.definition.has_deactivate_hook:
            return

        def run() -> None:
            current_turn.set(CurrentTurn(key=claim.key, operation="on_deactivate"))
            try:
                activation.definition.run_deactivate(activation.actor)
            except Exception as error:
                announce("activation.deactivation_failed", actor=claim.key, error=type(error).__name__)

        self._core.run_actor_code(run)

    def _run(self, claim: Claim, activation: Activation | None) -> TurnEnd:
        if activation is None:
            try:
                activation = self._activate(claim)
            except BaseException as error:
                self._let_through(error)
                announce("activation.failed", actor=claim.key, error=type(error).__name__)
                return NotActivated(error, error_document(error))
        current_turn.set(CurrentTurn(key=claim.key, operation=claim.message.operation))
        try:
            return self._operate(claim, activation)
        except Rejected as rejection:
            return self._rejected(claim, rejection)
        except BaseException as error:
            self._let_through(error)
            return failure_of(claim, error, self._core.settings)

    def _let_through(self, error: BaseException) -> None:
        """Raise what is not about the message but about the thread that runs it."""
        ours = isinstance(error, Exception | SystemExit) or not self._interruptible
        if not ours or isinstance(error, KeyboardInterrupt):
            raise error

    def _activate(self, claim: Claim) -> Activation:
        definition = self._core.registry.get(claim.key.actor_type)
        current_turn.set(CurrentTurn(key=claim.key, operation="state_migration"))
        actor = definition.hydrate(claim.key, claim.state.text, claim.state.version)
        if definition.has_activate_hook:
            current_turn.set(CurrentTurn(key=claim.key, operation="on_activate"))
            definition.run_activate(actor)
        return Activation(definition, actor, "")

    def _operate(self, claim: Claim, activation: Activation) -> Completed:
        definition, actor, settings = activation.definition, activation.actor, self._core.settings
        operation = definition.lookup(claim.message.operation)
        arguments = operation.decode_arguments(claim.message.arguments)
        definition.set_context(actor, _context(claim))
        reads = operation.kind != "operation"
        before = definition.encode_state(actor, settings.max_state_bytes) if reads else ""
        value = operation.invoke(actor, arguments)
        result = operation.encode_result(value, settings.max_result_bytes)
        text = definition.encode_state(actor, settings.max_state_bytes)
        definition.set_context(actor, None)
        keys = remember(claim, settings)
        if reads:
            if text != before:
                raise QueryMutatedState(claim.key.actor_type, operation.name)
            return Completed(Completion(state=None, result=result, remembered_keys=keys), activation)
        if len(text) > settings.warn_state_bytes:
            announce("state.large", actor=claim.key, characters=len(text), threshold=settings.warn_state_bytes)
        activation.text = text
        revision = max(claim.state.revision + 1, claim.message.sequence)
        state = InstanceState(text=text, version=definition.state_version, revision=revision)
        return Completed(Completion(state=state, result=result, remembered_keys=keys), activation)

    def _rejected(self, claim: Claim, rejection: Rejected) -> TurnEnd:
        if not isinstance(rejection.code, str) or not rejection.code.isidentifier():
            return failure_of(claim, InvalidRejectionCode(rejection.code), self._core.settings)
        document = {
            "code": rejection.code,
            "message": _cut(rejection.message),
            "details": rejection.details,
        }
        try:
            text = encode(
                document,
                path="rejection",
                limit=self._core.settings.max_result_bytes,
                setting="SOLID_OBJECTS_MAX_RESULT_BYTES",
            )
        except Exception as error:
            return failure_of(claim, error, self._core.settings)
        keys = remember(claim, self._core.settings)
        return Completed(Completion(state=None, rejection=text, remembered_keys=keys), None)


def failure_of(claim: Claim, error: BaseException, settings: Settings) -> Failed:
    """What becomes of a message whose turn raised: a retry with back-off, or a dead letter."""
    message = claim.message
    final = isinstance(error, NonRetryableError | InvalidArguments) or message.attempt >= message.max_attempts
    delay = None if final else settings.pause_after(message.attempt)
    announce(
        "message.failed",
        actor=claim.key,
        message_id=message.id,
        attempt=message.attempt,
        error=type(error).__name__,
        outcome="dead" if final else "retrying",
    )
    keys = remember(claim, settings) if final else None
    return Failed(Failure(error=error_document(error), retry_seconds=delay, remembered_keys=keys), error)


def error_document(error: BaseException) -> str:
    """The stored form of an error: its class, its text cut to 8 KiB, and the last 50 lines of its backtrace."""
    lines = "".join(traceback.format_exception(error)).splitlines()
    document: dict[str, Any] = {
        "class": type(error).__qualname__,
        "message": _cut(_text(error)),
        "backtrace": [_storable(line) for line in lines[-_BACKTRACE_LINES:]],
    }
    return encode(document, path="error")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        # An error whose text cannot be made must not keep the turn from being recorded.
        return f"<the text of this error raised {type(broken).__name__}>"


def _cut(text: object) -> str:
    return _storable(str(text)).encode()[:_ERROR_BYTES].decode(errors="ignore")


def _storable(text: str) -> str:
    """What no database stores in JSON text, a NUL or a lone surrogate, is shown as its escape."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _context(claim: Claim) -> MessageContext:
    message = claim.message
    return MessageContext(
        message_id=message.id,
        request_id=message.request_id,
        sequence=message.sequence,
        attempt=message.attempt,
        enqueued_at=message.enqueued_at,
        idempotency_key=message.idempotency_key,
        now=claim.now,
    )
