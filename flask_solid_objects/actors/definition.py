"""What a registered class declares, as the runtime uses it: operations by name, state in and out, hooks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.signature import Signature
from flask_solid_objects.actors.snapshot import Snapshot
from flask_solid_objects.actors.state import StateSchema
from flask_solid_objects.errors import UnknownOperation
from flask_solid_objects.payloads import encode
from flask_solid_objects.values import ActorKey, MessageContext, OperationKind

_RESULT_SETTING = "SOLID_OBJECTS_MAX_RESULT_BYTES"


class OperationDefinition:
    """One operation, query or read of an actor."""

    def __init__(
        self, actor_type: str, name: str, kind: OperationKind, signature: Signature, attribute: str | None
    ) -> None:
        self.name = name
        self.kind = kind
        self.signature = signature
        self._title = f"{actor_type}.{name}"
        self._attribute = attribute

    def encode_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int) -> str:
        """Bind and check arguments; JSON of those that were given.

        :raises InvalidArguments, InvalidPayload, PayloadTooLarge: naming the argument.
        """
        return self.signature.encode(args, kwargs, limit, title=self._title)

    def decode_arguments(self, text: str) -> dict[str, Any]:
        return self.signature.decode(text)

    def invoke(self, actor: Actor, arguments: Mapping[str, Any]) -> Any:
        """Run it on an actor in memory."""
        if self._attribute is not None:
            return getattr(actor, self._attribute)
        return getattr(actor, self.name)(**arguments)

    def encode_result(self, value: object, limit: int) -> str:
        return self.signature.encode_result(value, limit)

    def decode_result(self, text: str) -> Any:
        """A fresh copy of a committed result."""
        return self.signature.decode_result(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservableDefinition:
    """A projection that others may watch: of an attribute, or computed; ``shares`` its value or only its change."""

    name: str
    shares: bool
    computed: OperationDefinition | None


class ActorDefinition:
    """One registered actor class; made and checked by :mod:`flask_solid_objects.actors.checking`."""

    def __init__(
        self,
        *,
        actor_type: str,
        aliases: tuple[str, ...],
        cls: type[Actor],
        schema: StateSchema,
        operations: Mapping[str, OperationDefinition],
        observables: Sequence[ObservableDefinition] = (),
        payloads: Sequence[str] = (),
    ) -> None:
        self.actor_type = actor_type
        self.aliases = aliases
        self.cls = cls
        self.schema = schema
        self.state_version = schema.version
        self.operations = dict(operations)
        self.observables = {each.name: each for each in observables}
        self.has_computed_observables = any(each.computed is not None for each in observables)
        self.payloads = tuple(payloads)
        self.has_payloads = bool(payloads)
        self.has_activate_hook = cls.on_activate is not Actor.on_activate
        self.has_deactivate_hook = cls.on_deactivate is not Actor.on_deactivate

    def lookup(self, name: str) -> OperationDefinition:
        """An operation, query or read by name.

        :raises UnknownOperation: listing those that exist.
        """
        found = self.operations.get(name)
        if found is None:
            raise UnknownOperation(self.actor_type, name, sorted(self.operations))
        return found

    def hydrate(self, key: ActorKey, text: str, version: int) -> Actor:
        """An actor in memory from stored state; ``{}`` is a new one.

        :raises StateMigrationError: the stored state cannot become this class's state.
        """
        values, others = self.schema.load(text, version)
        actor = object.__new__(self.cls)
        actor.__dict__.update(values, _solid_key=key, _solid_context=None, _solid_extra=others)
        return actor

    def encode_state(self, actor: Actor, limit: int) -> str:
        """The state of an actor in memory as it will be stored.

        :raises InvalidPayload, PayloadTooLarge: naming the attribute.
        """
        content = actor.__dict__
        values = {name: content[name] for name in self.schema.fields}
        return self.schema.encode(values, content["_solid_extra"], limit)

    def observe(self, actor: Actor, limit: int) -> dict[str, str]:
        """Every observable as it would be shared, by name.

        :raises InvalidPayload, PayloadTooLarge: naming the observable.
        """
        found = {}
        for name, each in self.observables.items():
            if each.computed is None:
                found[name] = encode(actor.__dict__[name], path=name, limit=limit, setting=_RESULT_SETTING)
            else:
                found[name] = each.computed.encode_result(each.computed.invoke(actor, {}), limit)
        return found

    def set_context(self, actor: Actor, context: MessageContext | None) -> None:
        actor.__dict__["_solid_context"] = context

    def run_activate(self, actor: Actor) -> None:
        actor.on_activate()

    def run_deactivate(self, actor: Actor) -> None:
        actor.on_deactivate()

    def snapshot(self, key: ActorKey, text: str, version: int) -> Snapshot:
        """Committed state, frozen: attributes and observables."""
        actor = self.hydrate(key, text, version)
        values = {name: actor.__dict__[name] for name in self.schema.fields}
        for name, operation in self.operations.items():
            if operation.kind == "read" and name not in values:
                values[name] = copy.deepcopy(operation.invoke(actor, {}))
        return Snapshot(key, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An actor that a verb is about."""

    definition: ActorDefinition
    key: ActorKey
