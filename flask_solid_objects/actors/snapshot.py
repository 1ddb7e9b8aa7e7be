"""Committed state of an actor at one moment: frozen, and a fresh copy at every look."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from flask_solid_objects.values import ActorKey


class Snapshot:
    """What ``reference.snapshot()`` returns; checkers see it as the actor's class."""

    __slots__ = ("_key", "_values")

    def __init__(self, key: ActorKey, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_values", dict(values))

    @property
    def actor_type(self) -> str:
        return str(self._key.actor_type)

    @property
    def actor_id(self) -> str:
        return str(self._key.actor_id)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._values:
            known = ", ".join(sorted(self._values)) or "none"
            raise AttributeError(f"A snapshot of {self._key.actor_type} has no {name!r}; it has: {known}.")
        # A copy, so that changing what was read cannot look as if it changed the actor.
        return copy.deepcopy(self._values[name])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("A snapshot is frozen; change the actor with an operation.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A snapshot is frozen; change the actor with an operation.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and (self._key, self._values) == (other._key, other._values)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Snapshot, (self._key, self._values)

    def __repr__(self) -> str:
        return f"<snapshot of {self._key}: {self._values!r}>"
