"""The actor classes of one extension by type; a stored type is never turned into a class any other way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.checking import define
from flask_solid_objects.actors.definition import ActorDefinition, Target
from flask_solid_objects.actors.effects import EffectRegistry
from flask_solid_objects.errors import InvalidActor, NotInitialized, UnknownActorType
from flask_solid_objects.values import ActorKey

MakeReference = Callable[["Registry", ActorDefinition, str], Any]


def _no_runtime() -> Any:
    raise NotInitialized("These actors have no runtime: call SolidObjects(app) or solid.init_app(app) first.")


def _no_references(_registry: Registry, definition: ActorDefinition, _actor_id: str) -> Any:
    raise NotInitialized(f"References to {definition.actor_type} cannot be made without SolidObjects.")


class Registry:
    """Registered actor types.

    :param make_reference: makes what ``Actor.ref`` returns.
    :param current_runtime: finds the runtime at the moment of a verb.
    """

    def __init__(
        self, *, make_reference: MakeReference = _no_references, current_runtime: Callable[[], Any] = _no_runtime
    ) -> None:
        self.make_reference = make_reference
        self.current_runtime = current_runtime
        self.effects = EffectRegistry()
        self._definitions: dict[str, ActorDefinition] = {}
        self._types: tuple[str, ...] = ()

    def register(self, cls: type[Actor], name: str | None = None, aliases: tuple[str, ...] = ()) -> ActorDefinition:
        """Check a class and make it known under its type and aliases; a reloaded class replaces itself.

        :raises InvalidActor: it is malformed, its type is taken, or it belongs to another extension.
        """
        if isinstance(aliases, str):
            raise InvalidActor(f'aliases={aliases!r} must be a tuple of names, such as aliases=("{aliases}",).')
        definition = define(cls, name, tuple(aliases))
        for actor_type in (definition.actor_type, *definition.aliases):
            taken = self._definitions.get(actor_type)
            if taken is not None and _full_name(taken.cls) != _full_name(cls):
                raise InvalidActor(
                    f"{cls.__qualname__}: the actor type {actor_type!r} is taken by {_full_name(taken.cls)}; "
                    'give one of them another name with @solid.actor("name").'
                )
        owner = cls.__dict__.get("_solid_registry")
        if owner is not None and owner is not self:
            raise InvalidActor(
                f"{cls.__qualname__} is registered with another SolidObjects already; subclass it there."
            )
        for other in self._definitions.values():
            if other.cls is cls and other.actor_type != definition.actor_type:
                raise InvalidActor(
                    f"{cls.__qualname__} is registered as {other.actor_type!r} already; give a second name in aliases=."
                )
        for actor_type in (definition.actor_type, *definition.aliases):
            self._definitions[actor_type] = definition
        self._types = tuple(self._definitions)
        cls._solid_registry = self  # type: ignore[attr-defined]
        cls._solid_declared = frozenset(definition.schema.fields)
        cls._solid_definition = definition
        cls._solid_referencing = lambda _cls, actor_id: self.make_reference(self, definition, actor_id)
        return definition

    def get(self, actor_type: str) -> ActorDefinition:
        """The definition of a type or alias.

        :raises UnknownActorType: no class of it is registered here.
        """
        definition = self._definitions.get(actor_type)
        if definition is None:
            raise UnknownActorType(actor_type)
        return definition

    def types(self) -> tuple[str, ...]:
        """Every type and alias that this process can run."""
        return self._types

    def target(self, definition: ActorDefinition, actor_id: str) -> Target:
        return Target(definition=definition, key=ActorKey(actor_type=definition.actor_type, actor_id=actor_id))


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
