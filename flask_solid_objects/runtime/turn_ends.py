"""How a turn may end, and what of it is stored: a completion, a rejection, a failure, a failed activation.

A stored error holds what no database refuses, cut to a bounded size.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.definition import ActorDefinition
from flask_solid_objects.errors import (
    InvalidArguments,
    InvalidPayload,
    InvalidRejectionCode,
    NonRetryableError,
    Rejected,
)
from flask_solid_objects.intents import Stage
from flask_solid_objects.payloads import encode
from flask_solid_objects.runtime.remembered import remember
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.completion import Completion, Failure
from flask_solid_objects.values import Claim, EffectOutcome

_ERROR_BYTES = 8192
_BACKTRACE_LINES = 50


@dataclass(slots=True)
class Activation:
    """An actor in memory, with its state and observables as the last turn left them; what its hook staged is pending.

    ``observed`` is None until a turn has looked.
    """

    definition: ActorDefinition
    actor: Actor
    text: str
    observed: dict[str, str] | None = None
    pending: Stage | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A reminder that a turn has moved: when it would have rung, and when it will."""

    operation: str
    previous_run_at: str
    next_run_at: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The turn ended well or said no; a rejection leaves no activation in memory.

    ``seconds`` is how long it ran; ``code`` is that of a rejection. ``moved`` is empty unless somebody listens.
    """

    completion: Completion
    activation: Activation | None
    seconds: float = 0.0
    moved: tuple[Moved, ...] = ()
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The operation raised; the message is retried or dies."""

    failure: Failure
    error: BaseException
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class NotActivated:
    """A migration or hook raised before the operation could begin: the message is not to blame."""

    error: BaseException
    document: str


TurnEnd = Completed | Failed | NotActivated


def rejection_of(claim: Claim, rejection: Rejected, settings: Settings) -> Completed | Failed:
    """What becomes of a message whose turn, or commit action, said no."""
    if not isinstance(rejection.code, str) or not rejection.code.isidentifier():
        return failure_of(claim, InvalidRejectionCode(rejection.code), settings)
    document = {
        "code": rejection.code,
        "message": _cut(rejection.message),
        "details": rejection.details,
    }
    try:
        text = encode(
            document, path="rejection", limit=settings.max_result_bytes, setting="SOLID_OBJECTS_MAX_RESULT_BYTES"
        )
    except Exception as error:
        return failure_of(claim, error, settings)
    completion = Completion(state=None, rejection=text, remembered_keys=remember(claim, settings))
    return Completed(completion, None, code=rejection.code)


def failure_of(claim: Claim, error: BaseException, settings: Settings) -> Failed:
    """What becomes of a message whose turn raised: a retry with back-off, or a dead letter."""
    message = claim.message
    final = isinstance(error, NonRetryableError | InvalidArguments) or message.attempt >= message.max_attempts
    delay = None if final else settings.pause_after(message.attempt)
    keys = remember(claim, settings) if final else None
    return Failed(Failure(error=error_document(error), retry_seconds=delay, remembered_keys=keys), error)


def error_document(error: BaseException) -> str:
    """The stored form of an error: its class, its text cut to 8 KiB, and the last 50 lines of its backtrace."""
    return encode(_described(error), path="error")


def effect_error_document(error: BaseException, outcome: EffectOutcome) -> str:
    """The same for an effect, an ``EffectError``; a rejection keeps its code and details for the actor that is told."""
    if not isinstance(error, Rejected):
        return encode({**_described(error), "outcome": outcome}, path="error")
    document = {
        "class": "Rejected",
        "message": _cut(error.message),
        "backtrace": [],
        "outcome": outcome,
        "code": str(error.code),
    }
    try:
        return encode({**document, "details": error.details}, path="error")
    except InvalidPayload:
        return encode(document, path="error")


def _described(error: BaseException) -> dict[str, Any]:
    lines = "".join(traceback.format_exception(error)).splitlines()
    return {
        "class": type(error).__qualname__,
        "message": _cut(_text(error)),
        "backtrace": [_storable(line) for line in lines[-_BACKTRACE_LINES:]],
    }


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
