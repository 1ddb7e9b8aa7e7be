"""References: cheap handles on an actor, whose attributes are its operations, queries and ordered reads.

A reference finds its runtime at the verb, so that it can be made anywhere, kept and compared. What it returns is a
fresh copy; assigning to it raises.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NoReturn

from flask_solid_objects.actors.bound import unsent_message
from flask_solid_objects.actors.definition import ActorDefinition, OperationDefinition, Target
from flask_solid_objects.actors.message import Message
from flask_solid_objects.actors.options import CALL, REFERENCE, SEND, checked_options, require
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.actors.staging import stage_send
from flask_solid_objects.errors import ActorCallCycle, InvalidActorId
from flask_solid_objects.intents import current_turn
from flask_solid_objects.telemetry.event import Event
from flask_solid_objects.telemetry.observation import Observation
from flask_solid_objects.values import ActorDiagnostics, ActorKey, Options

ID_LENGTH = 191


def make_reference(registry: Registry, definition: ActorDefinition, actor_id: object) -> Reference:
    """Make a reference; injected into the registry by whoever builds the runtime.

    :raises InvalidActorId: the id is not text of 1 to 191 storable characters.
    """
    key = ActorKey(actor_type=definition.actor_type, actor_id=checked_actor_id(definition.actor_type, actor_id))
    return Reference(registry, Target(definition=definition, key=key), Options())


def checked_actor_id(actor_type: str, actor_id: object) -> str:
    """An id as every database stores and compares it: byte for byte.

    :raises InvalidActorId: naming what is wrong with it.
    """
    if not isinstance(actor_id, str):
        raise InvalidActorId(f"The id of {actor_type} must be text, not {type(actor_id).__name__}: use str(...).")
    if not 1 <= len(actor_id) <= ID_LENGTH:
        raise InvalidActorId(f"The id of {actor_type} has {len(actor_id)} characters; 1 to {ID_LENGTH} are possible.")
    if "\0" in actor_id:
        raise InvalidActorId(f"The id of {actor_type} holds a NUL character, which databases cannot store.")
    if not actor_id.isascii():
        try:
            actor_id.encode()
        except UnicodeEncodeError as error:
            raise InvalidActorId(f"The id of {actor_type} holds a lone surrogate, which is not text.") from error
    return str.__str__(actor_id)  # plain text also for members of a text enum


class Reference:
    """What ``Counter.ref("id")`` gives; checkers see it as a ``Counter``."""

    __slots__ = ("_options", "_registry", "_target")

    _registry: Registry
    _target: Target
    _options: Options

    def __init__(self, registry: Registry, target: Target, options: Options) -> None:
        for name, value in (("_registry", registry), ("_target", target), ("_options", options)):
            object.__setattr__(self, name, value)

    @property
    def actor_type(self) -> str:
        return self._target.key.actor_type

    @property
    def actor_id(self) -> str:
        return self._target.key.actor_id

    def using(self, **options: Any) -> Reference:
        """The same reference with ``timeout``, ``idempotency_key`` or ``context`` for reads, snapshot and destroy."""
        return Reference(self._registry, self._target, checked_options(REFERENCE, self._options, options))

    def snapshot(self) -> Any:
        """Committed state as it is now, frozen; allowed in actor code too."""
        return self._registry.current_runtime().snapshot(self._target, self._options)

    def destroy(self) -> bool:
        """Delete the actor and all that belongs to it; False when there was none."""
        self._outside("destroy", str(self._target.key))
        destroyed: bool = self._registry.current_runtime().destroy(self._target, self._options)
        return destroyed

    def find_message(self, *, idempotency_key: str) -> Message[Any] | None:
        """The message that was stored under this idempotency key, or None.

        :raises MessagePruned: the actor remembers the key, but the message is gone.
        :raises TypeError, ValueError: it could never have been a key.
        """
        self._outside("look up messages of", str(self._target.key))
        if idempotency_key is None:
            raise TypeError("find_message takes the idempotency_key that the message was sent with, not None.")
        checked_options(REFERENCE, self._options, {"idempotency_key": idempotency_key})
        found: Message[Any] | None = self._registry.current_runtime().find_message(
            self._target, idempotency_key, self._options
        )
        return found

    def observe(self, callback: Callable[[Event], object], *names: str, context: object = None) -> Observation:
        """Call a function with the events of this actor that this process announces, of these names or of all.

        Call what is returned to stop, or use it in a ``with`` block. A worker's turns are announced in its process.

        :param context: goes to the administration policy, which is asked once, here.
        :raises TooManyObservers: this process has as many as it may have.
        """
        self._outside("observe", str(self._target.key))
        context = self._options.context if context is None else context
        observation: Observation = self._registry.current_runtime().diagnostics.observe(
            self._target.key, callback, names, context
        )
        return observation

    def diagnostics(self, *, limit: int = 100, context: object = None) -> ActorDiagnostics:
        """How much this actor has waiting: counts and ages, up to ``limit`` of each category.

        :param limit: 1 to 100.
        :param context: goes to the administration policy.
        """
        self._outside("diagnose", str(self._target.key))
        context = self._options.context if context is None else context
        summary: ActorDiagnostics = self._registry.current_runtime().diagnostics.summary(
            self._target.key, limit, context
        )
        return summary

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        operation = self._target.definition.operations.get(name)
        if operation is None:
            known = ", ".join(sorted(self._target.definition.operations))
            raise AttributeError(f"{self._target.key.actor_type} has no {name!r}; it has: {known or 'nothing'}.")
        if operation.kind != "read":
            return Verb(self._registry, self._target, operation, self._options)
        self._outside("read", f"{self._target.key} {name}")
        return self._registry.current_runtime().call(self._target, operation, "{}", self._options)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A reference cannot be assigned to; change {name!r} with an operation.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("A reference has nothing to delete; see destroy().")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._target.definition.operations})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._target.key == other._target.key

    def __hash__(self) -> int:
        return hash(self._target.key)

    def __copy__(self) -> Reference:
        return self

    def __deepcopy__(self, _memo: object) -> Reference:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._target.definition.cls, self.actor_id)

    def __repr__(self) -> str:
        return f"<reference to {self._target.key}>"

    @staticmethod
    def _outside(verb: str, target: str) -> None:
        if current_turn.get() is not None:
            raise ActorCallCycle(verb, target)


def target_of(reference: object) -> Target:
    """The actor that a reference is about.

    :raises TypeError: it is no reference.
    """
    if not isinstance(reference, Reference):
        raise TypeError(f'This takes a reference such as Cart.ref("alice"), not {type(reference).__name__}.')
    return reference._target


class Verb:
    """One operation or query of one actor, with its delivery options."""

    __slots__ = ("_operation", "_options", "_registry", "_target")

    def __init__(self, registry: Registry, target: Target, operation: OperationDefinition, options: Options) -> None:
        self._registry, self._target, self._operation, self._options = registry, target, operation, options

    @property
    def __name__(self) -> str:
        return self._operation.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it in order, and return its committed result.

        :raises Rejected, MessageFailed, CallTimeout, CallEnqueueTimeout: how it may end otherwise.
        """
        if current_turn.get() is not None:
            raise ActorCallCycle("call", self._title)
        require(CALL, self._options, f"{self._title}()")
        runtime = self._registry.current_runtime()
        arguments = self._operation.encode_arguments(args, kwargs, runtime.settings.max_payload_bytes)
        return runtime.call(self._target, self._operation, arguments, self._options)

    def send(self, *args: Any, **kwargs: Any) -> Message[Any]:
        """Store the message durably; a worker runs it later."""
        if self._operation.kind != "operation":
            raise AttributeError(f"{self._title} is a query: call it. Only operations can be sent.")
        if current_turn.get() is not None:
            request_id = stage_send(self._target, self._operation, args, kwargs, self._options)
            return unsent_message(self._target.key, request_id)
        require(SEND, self._options, f"{self._title}.send()")
        runtime = self._registry.current_runtime()
        arguments = self._operation.encode_arguments(args, kwargs, runtime.settings.max_payload_bytes)
        message: Message[Any] = runtime.send(self._target, self._operation, arguments, self._options)
        return message

    def schedule(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Reminders belong to the actor itself."""
        raise AttributeError(
            f"{self._title}.schedule() works on self inside the actor; from outside send it a message that schedules."
        )

    def emit(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Operations are not effects; said here, since the mistake is easy."""
        raise AttributeError(f"{self._title} is an operation: call it or .send() it. Effects are emitted.")

    def stage(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Operations are not commit actions."""
        raise AttributeError(f"{self._title} is an operation: call it or .send() it. Commit actions are staged.")

    def using(
        self,
        **options: float | timedelta | datetime | str | object,
    ) -> Verb:
        """The same verb with delivery options; which of them fit is said by the verb that is used."""
        known = CALL | SEND if self._operation.kind == "operation" else CALL
        return Verb(self._registry, self._target, self._operation, checked_options(known, self._options, options))

    @property
    def _title(self) -> str:
        return f"{self._target.key.actor_type}.{self._operation.name}"

    def __repr__(self) -> str:
        return f"<{self._operation.kind} {self._operation.name} of {self._target.key}>"


def _restore(cls: Any, actor_id: str) -> Any:
    return cls.ref(actor_id)
