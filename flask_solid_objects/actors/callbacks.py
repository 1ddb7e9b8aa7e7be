"""Operations of an actor as the callbacks of its effects: which one is meant, and whether it fits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from flask_solid_objects.actors.bound import BoundOperation
from flask_solid_objects.errors import StagingUnavailable
from flask_solid_objects.intents import current_turn


def callback_name(option: str, callback: Any, given: Collection[str]) -> str | None:
    """The name of ``self.paid`` as a callback that may take any of ``given``.

    :raises TypeError: it is not an operation of this actor, or requires something else.
    """
    if callback is None:
        return None
    if not isinstance(callback, BoundOperation):
        raise TypeError(f"{option} takes an operation of this actor, such as {option}=self.paid, not {callback!r}.")
    turn = current_turn.get()
    if turn is None:
        raise StagingUnavailable("emit", callback.__name__)
    if callback.actor_key != turn.key:
        raise TypeError(f"{option} takes an operation of the actor that emits, not of {callback.actor_key}.")
    signature = callback.definition.signature
    unknown = sorted(signature.required - set(given))
    if unknown:
        raise TypeError(
            f"{option}: {callback.__name__} requires {', '.join(unknown)}, which it will not get; "
            f"it may name {', '.join(sorted(given))}, and anything else needs a default."
        )
    return callback.__name__


def callback_arguments(accepted: Collection[str], available: dict[str, str]) -> str:
    """The arguments JSON of a callback message: of what is available, already JSON text, those that it names."""
    members = ",".join(f'"{name}":{text}' for name, text in available.items() if name in accepted)
    return f"{{{members}}}"
