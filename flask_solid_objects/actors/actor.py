"""The base class of actors: declared state and nothing else, and the verbs that its references have.

Inside actor code ``self`` is an instance of this class. ``Counter.ref("id")`` is typed as ``Counter`` for checkers, and
is a cheap handle at run time (``runtime.references``).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar, NoReturn, Self

from flask_solid_objects.actors.message import Message
from flask_solid_objects.errors import ActorCallCycle, NotInitialized
from flask_solid_objects.telemetry.event import Event
from flask_solid_objects.telemetry.observation import Observation
from flask_solid_objects.values import ActorDiagnostics, ActorKey, MessageContext

Referencing = Callable[[type, str], Any]


class Actor:
    """One durable object per identity; subclass it, annotate its state, and register it with ``@solid.actor``."""

    state_version: ClassVar[int] = 1
    # Set at registration: makes references of this class.
    _solid_referencing: ClassVar[Referencing | None] = None
    _solid_declared: ClassVar[frozenset[str]] = frozenset()
    _solid_definition: ClassVar[Any] = None

    _solid_key: ActorKey
    _solid_context: MessageContext | None
    _solid_extra: dict[str, Any]

    @classmethod
    def ref(cls, actor_id: str) -> Self:
        """A reference to the actor with this id; touches no database and makes nothing.

        :raises InvalidActorId: the id is not text of 1 to 191 storable characters.
        :raises NotInitialized: the class was never registered.
        """
        referencing = cls.__dict__.get("_solid_referencing")
        if referencing is None:
            raise NotInitialized(f"{cls.__qualname__} is not registered: put @solid.actor above the class.")
        reference: Self = referencing(cls, actor_id)
        return reference

    @property
    def actor_type(self) -> str:
        return self._solid_key.actor_type

    @property
    def actor_id(self) -> str:
        return self._solid_key.actor_id

    @property
    def context(self) -> MessageContext:
        """The message that runs now; there is none in hooks and snapshots."""
        context = self._solid_context
        if context is None:
            raise AttributeError("There is no message here: self.context belongs to operations and queries.")
        return context

    def on_activate(self) -> None:
        """Runs when the actor was loaded; what it changes is stored with the next turn that commits."""

    def on_deactivate(self) -> None:
        """Runs before the actor leaves memory; what it changes is not stored."""

    # -- verbs of references; on self they would wait for the actor's own lease -----------------

    def using(
        self, *, timeout: float | timedelta | None = None, idempotency_key: str | None = None, context: object = None
    ) -> Self:
        """A reference with options for reads, snapshot, find_message and destroy."""
        self._refuse("use options on")

    def snapshot(self) -> Self:
        """Committed state as it is now, frozen: no message, no order."""
        self._refuse("take a snapshot of")

    def destroy(self) -> bool:
        """Delete the actor and all that belongs to it; False when there was none."""
        self._refuse("destroy")

    def find_message(self, *, idempotency_key: str) -> Message[Any] | None:
        """The message that was stored under this idempotency key."""
        self._refuse("look up messages of")

    def observe(self, callback: Callable[[Event], object], *names: str, context: object = None) -> Observation:
        """Call a function with the events of this actor that this process announces, of these names or of all."""
        self._refuse("observe")

    def diagnostics(self, *, limit: int = 100, context: object = None) -> ActorDiagnostics:
        """How much this actor has waiting, counted up to a limit."""
        self._refuse("diagnose")

    def _refuse(self, verb: str) -> NoReturn:
        raise ActorCallCycle(verb, f"itself ({self._solid_key})")

    def __setattr__(self, name: str, value: object) -> None:
        computed = getattr(getattr(type(self), name, None), "__set__", None)
        if computed is not None:  # a property with a setter, or one that refuses
            computed(self, value)
            return
        if name not in self._solid_declared:
            declared = ", ".join(sorted(self._solid_declared)) or "none"
            raise AttributeError(
                f"{type(self).__name__} has no state attribute {name!r} (declared: {declared}). "
                "Annotate it in the class with a default."
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"State attributes cannot be deleted; assign another value to {name!r}.")

    def __repr__(self) -> str:
        key = self.__dict__.get("_solid_key")
        return f"<{type(self).__name__} {key.actor_id!r}>" if key is not None else f"<{type(self).__name__}>"
