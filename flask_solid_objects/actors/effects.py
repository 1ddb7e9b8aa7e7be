"""``@solid.effect``: work outside the database, done after the turn has committed, at least once.

A turn stages it with ``.emit(...)``. Its id stays the same over all attempts, so that the outside can tell a repeat.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from flask_solid_objects.actors.callbacks import callback_name
from flask_solid_objects.actors.options import checked_attempts, checked_delay, checked_recovery_timeout
from flask_solid_objects.actors.signature import Signature
from flask_solid_objects.actors.staging import ActorMessage, message_entry, stage_for
from flask_solid_objects.errors import ActorCallCycle, InvalidEffect
from flask_solid_objects.intents import OutboxEntry, Recovery, current_turn
from flask_solid_objects.values import EffectContext

P = ParamSpec("P")
R = TypeVar("R")
_NAME_LENGTH = 191


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOptions:
    """What ``.using(...)`` of an effect has set."""

    on_success: str | None = None
    on_failure: str | None = None
    on_recovery: str | None = None
    on_status: str | None = None
    recovery_timeout: float | None = None
    max_attempts: int | None = None
    delay: float = 0.0


class Effect(Generic[P, R]):
    """What ``@solid.effect`` makes of a function; emit it in an operation, or call it plainly in a test of its own."""

    def __init__(
        self,
        function: Callable[Concatenate[EffectContext, P], R],
        name: str,
        signature: Signature,
        options: EffectOptions,
    ) -> None:
        self.function = function
        self.name = name
        self.signature = signature
        self._options = options
        self.__name__ = name
        self.__doc__ = function.__doc__

    def __call__(self, context: EffectContext, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function itself; refused in actor code, which must only emit it."""
        if current_turn.get() is not None:
            raise ActorCallCycle("run", f"the effect {self.name} itself, only {self.name}.emit(...)")
        return self.function(context, *args, **kwargs)

    def using(
        self,
        *,
        on_success: Callable[..., Any] | None = None,
        on_failure: Callable[..., Any] | None = None,
        on_recovery: Callable[..., Any] | None = None,
        on_status: Callable[..., Any] | None = None,
        recovery_timeout: float | timedelta | None = None,
        max_attempts: int | None = None,
        delay: float | timedelta | None = None,
    ) -> Effect[P, R]:
        """The same effect with options.

        :param on_success: an operation of this actor that gets those of ``effect_id``, ``arguments`` and ``result``
            that it names.
        :param on_failure: the same with ``error``, an ``EffectError``, once the effect has failed for good; its
            ``outcome`` says whether the work may have been done all the same.
        :param on_recovery: the same with ``outcome``, when the process that ran it died: the effect is then retired
            and not run again, since nobody knows how far it came.
        :param on_status: the same with ``outcome``, as the answer to :meth:`request_status`.
        :param recovery_timeout: seconds without a sign of life after which it counts as abandoned; at least
            ``SOLID_OBJECTS_PROCESS_ALIVE_THRESHOLD``.
        :raises TypeError, ValueError: an option that cannot be; a callback that takes what it will not get.
        """
        timeout = checked_recovery_timeout(recovery_timeout)
        options = replace(
            self._options,
            on_success=callback_name("on_success", on_success, {"effect_id", "arguments", "result"}),
            on_failure=callback_name("on_failure", on_failure, {"effect_id", "arguments", "error"}),
            on_recovery=callback_name("on_recovery", on_recovery, {"effect_id", "arguments", "outcome"}),
            on_status=callback_name("on_status", on_status, {"effect_id", "arguments", "result", "outcome"}),
            recovery_timeout=timeout,
            max_attempts=self._options.max_attempts if max_attempts is None else checked_attempts(max_attempts),
            delay=0.0 if delay is None else checked_delay(delay),
        )
        if timeout is not None and options.on_recovery is None:
            raise TypeError("recovery_timeout needs on_recovery=, which is told when the effect was abandoned.")
        return Effect(self.function, self.name, self.signature, options)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Stage it with the turn; returns its id, which is also its idempotency key.

        :raises InvalidArguments, InvalidPayload, PayloadTooLarge: naming the argument; nothing was staged.
        """
        stage, options = stage_for("emit", self.name), self._options
        arguments = self.signature.encode(args, kwargs, stage.payload_limit, title=self.name)
        recovery = None
        if options.on_recovery is not None or options.on_status is not None:
            recovery = Recovery(
                on_recovery=options.on_recovery, on_status=options.on_status, timeout=options.recovery_timeout
            )
        entry = OutboxEntry(
            effect_id=str(uuid.uuid4()),
            name=self.name,
            arguments=arguments,
            max_attempts=options.max_attempts or stage.max_attempts,
            on_success=options.on_success,
            on_failure=options.on_failure,
            delay=options.delay,
            recovery=recovery,
        )
        stage.outbox.append(entry)
        return entry.effect_id

    def request_status(self, effect_id: str) -> None:
        """Ask, with this turn's commit, what became of an effect that was emitted with ``on_status=``.

        The answer comes as a message to the operation of ``on_status=``, given here or when it was emitted, with an
        ``outcome``: completed, pending, deferred (it may still run), retired, already_retired, dead, or missing.
        """
        if not isinstance(effect_id, str) or not effect_id:
            raise TypeError("request_status takes the id that emit() returned.")
        stage, turn = stage_for("request_status", self.name), current_turn.get()
        assert turn is not None, "there is a stage only in a turn"
        message = ActorMessage(
            type=turn.key.actor_type,
            id=turn.key.actor_id,
            operation=self._options.on_status or "",
            arguments=msgspec.Raw(b"{}"),
            state_version=1,
            max_attempts=stage.max_attempts,
            internal=True,
            about=effect_id,
        )
        stage.outbox.append(message_entry(str(uuid.uuid4()), message, stage.max_attempts))

    def __repr__(self) -> str:
        return f"<effect {self.name}>"


class EffectRegistry:
    """The effects of one extension by name; a reloaded function replaces itself."""

    def __init__(self) -> None:
        self._effects: dict[str, Effect[..., Any]] = {}
        # What a test has this process run instead, and nothing else; see flask_solid_objects.testing.
        self.replacements: Mapping[str, Effect[..., Any]] | None = None

    def register(
        self, function: Callable[Concatenate[EffectContext, P], R], name: str | None, max_attempts: int | None
    ) -> Effect[P, R]:
        """Check a function and make it an effect.

        :raises InvalidEffect: it cannot be one, or its name is taken.
        """
        title = getattr(function, "__qualname__", repr(function))
        try:
            signature = Signature(function)
        except ValueError as error:
            raise InvalidEffect(f"{title} as an effect: {str(error).replace('self', 'context')}.") from error
        chosen = function.__name__ if name is None else name
        if not isinstance(chosen, str) or not 1 <= len(chosen) <= _NAME_LENGTH or not chosen.isprintable():
            raise InvalidEffect(f"{title}: the name must be printable text of 1 to {_NAME_LENGTH} characters.")
        if chosen.startswith("__"):
            raise InvalidEffect(f"{title}: names that begin with two underscores are the package's own.")
        taken = self._effects.get(chosen)
        if taken is not None and _full_name(taken.function) != _full_name(function):
            raise InvalidEffect(
                f"{title}: the effect {chosen!r} is {_full_name(taken.function)} already; "
                "give one of them another name with @solid.effect(name=...)."
            )
        attempts = None if max_attempts is None else checked_attempts(max_attempts)
        effect = Effect(function, chosen, signature, EffectOptions(max_attempts=attempts))
        self._effects[chosen] = effect
        return effect

    def names(self) -> tuple[str, ...]:
        """The effects that this process can run."""
        return tuple(self._runnable)

    def find(self, name: str) -> Effect[..., Any] | None:
        """The effect that this process runs under a name."""
        return self._runnable.get(name)

    def mapping(self) -> Mapping[str, Effect[..., Any]]:
        return self._effects

    @property
    def _runnable(self) -> Mapping[str, Effect[..., Any]]:
        return self._effects if self.replacements is None else self.replacements


def _full_name(function: Callable[..., Any]) -> str:
    return f"{inspect.unwrap(function).__module__}.{function.__qualname__}"
