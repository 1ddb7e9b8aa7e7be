"""What operators get to see of stored values: never those that are marked sensitive, nor what a hook takes away.

A value whose declaration is not known here is hidden too, since nobody can say what is in it (hazard H113).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeAlias

from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import UnknownActorType, UnknownOperation
from flask_solid_objects.intents import ACTOR_MESSAGE
from flask_solid_objects.payloads import decode, encode

What: TypeAlias = Literal["state", "arguments", "result", "rejection"]
Redactor: TypeAlias = Callable[[What, str | None, Any], Any]

HIDDEN = "[hidden]"
UNKNOWN = "[hidden: this process does not know what it is]"
FAILED = "[hidden: the redaction hook failed]"


class Redaction:
    """Hides values of one application.

    :param redactors: hooks by actor type; each gets what it is, the operation or None, and the value without what is
        sensitive, and returns what may be shown.
    """

    def __init__(self, registry: Registry, redactors: Mapping[str, Redactor]) -> None:
        self._registry, self._redactors = registry, redactors

    def state(self, actor_type: str, text: str) -> Any:
        """Of an actor; what an earlier version of its class has left in it is not known any more."""
        try:
            definition = self._registry.get(actor_type)
        except UnknownActorType:
            return UNKNOWN
        fields = definition.schema.fields.values()
        sensitive, known = {each.name for each in fields if each.sensitive}, {each.name for each in fields}
        return self._shown(definition.actor_type, "state", None, _without(decode(text), sensitive, known))

    def arguments(self, actor_type: str, operation: str, text: str) -> Any:
        try:
            definition = self._registry.get(actor_type)
            signature = definition.lookup(operation).signature
        except (UnknownActorType, UnknownOperation):
            return UNKNOWN
        value = _without(decode(text), signature.sensitive, signature.names)
        return self._shown(definition.actor_type, "arguments", operation, value)

    def result(self, actor_type: str, operation: str, text: str) -> Any:
        """Of an operation, a query, or the read of one attribute."""
        try:
            definition = self._registry.get(actor_type)
            hidden = "return" in definition.lookup(operation).signature.sensitive
        except (UnknownActorType, UnknownOperation):
            return UNKNOWN
        field = definition.schema.fields.get(operation)
        if hidden or (field is not None and field.sensitive):
            return HIDDEN
        return self._shown(definition.actor_type, "result", operation, decode(text))

    def rejection(self, actor_type: str, operation: str, text: str) -> Any:
        """A business answer: its code and message are for people, its details only where the hook may see them."""
        value = decode(text)
        try:
            definition = self._registry.get(actor_type)
        except UnknownActorType:
            return value | {"details": UNKNOWN} if isinstance(value, dict) else UNKNOWN
        return self._shown(definition.actor_type, "rejection", operation, value)

    def effect_arguments(self, name: str, text: str) -> Any:
        """Of work outside; of a message from actor to actor, its receiver and what it carries."""
        value = decode(text)
        if name == ACTOR_MESSAGE:
            carried = encode(value["arguments"], path="arguments")
            return value | {"arguments": self.arguments(value["type"], value["operation"], carried)}
        effect = self._registry.effects.mapping().get(name)
        return UNKNOWN if effect is None else _without(value, effect.signature.sensitive, effect.signature.names)

    def effect_result(self, name: str, text: str) -> Any:
        effect = self._registry.effects.mapping().get(name)
        if effect is None:
            return UNKNOWN
        return HIDDEN if "return" in effect.signature.sensitive else decode(text)

    def _shown(self, actor_type: str, what: What, operation: str | None, value: Any) -> Any:
        redact = self._redactors.get(actor_type)
        if redact is None:
            return value
        try:
            # As plain JSON, whatever it returns: a page or a command writes it down later.
            return decode(encode(redact(what, operation, value), path=what))
        except Exception:
            # Whatever it is: an operator sees that the hook needs mending, and nothing that it should have hidden.
            return FAILED


def _without(value: Any, sensitive: Collection[str], known: Collection[str]) -> Any:
    if not isinstance(value, dict):
        return UNKNOWN
    return {name: HIDDEN if name in sensitive else each if name in known else UNKNOWN for name, each in value.items()}
