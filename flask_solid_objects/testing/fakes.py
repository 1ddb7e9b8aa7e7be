"""Effects that are not executed: what was emitted is listed, and a test decides how each function ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from flask_solid_objects.actors.effects import Effect, EffectOptions
from flask_solid_objects.payloads import decode
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.for_testing import ForTesting

_R = TypeVar("_R")


class Emitted(NamedTuple):
    """An effect that a turn has committed."""

    name: str
    arguments: dict[str, Any]
    effect_id: str
    actor_type: str
    actor_id: str


class FakeEffects:
    """What ``with solid.testing.fake_effects()`` gives."""

    def __init__(self, core: Core) -> None:
        self._core, self._registry = core, core.registry.effects
        self._rows = ForTesting(core.store.tables, core.database.dialect)
        self._after = core.database.read(self._rows.last_effect)
        self.answers: dict[str, Effect[..., Any]] = {}

    @property
    def emitted(self) -> list[Emitted]:
        """What was emitted since the fakes took the place of the functions, in order."""
        rows = self._core.database.read(lambda tx: self._rows.emitted_after(tx, self._after))
        return [
            Emitted(
                row.name,
                self._arguments(row.name, row.arguments),
                row.effect_id,
                row.actor.actor_type,
                row.actor.actor_id,
            )
            for row in rows
        ]

    def answer(
        self,
        effect: Effect[..., _R],
        *,
        result: _R | None = None,
        error: BaseException | type[BaseException] | None = None,
    ) -> None:
        """Let effects of a function end with a result or an error from now on, those that wait included.

        :raises TypeError, ValueError: no effect of this application; a result and an error.
        """
        if not isinstance(effect, Effect):
            raise TypeError(f"answer takes a function that @solid.effect has registered, not {effect!r}.")
        registered = self._registry.mapping().get(effect.name)
        if registered is None or registered.function is not effect.function:
            raise ValueError(f"{effect!r} is no effect of this application.")
        if error is not None and result is not None:
            raise TypeError("answer takes a result or an error, not both.")
        self.answers[effect.name] = Effect(_answering(result, error), effect.name, effect.signature, EffectOptions())

    def _arguments(self, name: str, text: str) -> dict[str, Any]:
        effect = self._registry.mapping().get(name)
        arguments: dict[str, Any] = decode(text) if effect is None else effect.signature.decode(text)
        return arguments


def _answering(result: Any, error: BaseException | type[BaseException] | None) -> Callable[..., Any]:
    def answer(*_: object, **__: object) -> Any:
        if error is not None:
            raise error
        return result

    return answer
