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
        try:
            definition = self._registry.get(actor_type)
        except UnknownActorType:
            return UNKNOWN
        sensitive = [field.name for field in definition.schema.fields.values() if field.sensitive]
        return self._shown(definition.actor_type, "state", None, _without(decode(text), sensitive))

    def arguments(self, actor_type: str, operation: str, text: str) -> Any:
        try:
            definition = self._registry.get(actor_type)
            sensitive = definition.lookup(operation).signature.sensitive
        except (UnknownActorType, UnknownOperation):
            return UNKNOWN
        return self._shown(definition.actor_type, "arguments", operation, _without(decode(text), sensitive))

    def result(self, actor_type: str, operation: str, text: str) -> Any:
        try:
            definition = self._registry.get(actor_type)
            hidden = "return" in definition.lookup(operation).signature.sensitive
        except (UnknownActorType, UnknownOperation):
            return UNKNOWN
        return HIDDEN if hidden else self._shown(definition.actor_type, "result", operation, decode(text))

    def rejection(self, actor_type: str, operation: str, text: str) -> Any:
        """A business answer: its code and message are for people, its details go through the hook."""
        return self._shown(actor_type, "rejection", operation, decode(text))

    def effect_arguments(self, name: str, text: str) -> Any:
        """Of work outside; of a message from actor to actor, its receiver and what it carries."""
        value = decode(text)
        if name == ACTOR_MESSAGE:
            carried = encode(value["arguments"], path="arguments")
            return value | {"arguments": self.arguments(value["type"], value["operation"], carried)}
        effect = self._registry.effects.mapping().get(name)
        return UNKNOWN if effect is None else _without(value, effect.signature.sensitive)

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
            return redact(what, operation, value)
        except Exception:
            # Whatever it is: an operator sees that the hook needs mending, and nothing that it should have hidden.
            return FAILED


def _without(value: Any, sensitive: Collection[str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: HIDDEN if name in sensitive else each for name, each in value.items()}
