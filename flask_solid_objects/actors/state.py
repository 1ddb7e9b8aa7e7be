"""The state of an actor between its stored JSON and typed attributes: defaults, conversion, versions.

Stored keys that the class does not declare are kept and written back, so that an older version of the code does not
lose what a newer one stored.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from flask_solid_objects.errors import InvalidPayload, StateMigrationError
from flask_solid_objects.payloads import decode, encode, misfit

StateStep = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One declared attribute; ``fresh`` gives its default for a new actor."""

    name: str
    type: Any
    fresh: Callable[[], Any]
    observable: bool | str = False
    sensitive: bool = False


class StateMigration:
    """What ``@state_migration`` leaves on the class."""

    def __init__(self, function: StateStep, from_version: int) -> None:
        self.function = function
        self.from_version = from_version
        self.__name__ = getattr(function, "__name__", "?")

    def __call__(self, state: dict[str, Any]) -> dict[str, Any]:
        return self.function(state)


def state_migration(*, from_version: int) -> Callable[[StateStep], StateMigration]:
    """Make a function of the class body one step: it takes the stored dict of a version and returns the next one's.

    :param from_version: the version that it takes; it returns ``from_version + 1``.
    """
    return lambda function: StateMigration(function, from_version)


def default_of(default: Any, factory: Callable[[], Any] | None) -> Callable[[], Any]:
    """A function that gives each actor its own copy of a default."""
    return factory if factory is not None else lambda: copy.deepcopy(default)


class StateSchema:
    """The declared fields and the steps between versions."""

    def __init__(
        self, title: str, fields: Mapping[str, Field], version: int, steps: Mapping[int, StateMigration]
    ) -> None:
        self.fields = dict(fields)
        self.version = version
        self._title = title
        self._steps = dict(steps)
        optional = [
            (f.name, f.type if f.type is Any else f.type | msgspec.UnsetType, msgspec.UNSET) for f in fields.values()
        ]
        self._struct = msgspec.defstruct(f"{title}_state", optional, kw_only=True)
        self._decoder = msgspec.json.Decoder(self._struct)

    def load(self, text: str, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Stored state as (declared values, kept others); missing ones get their defaults.

        :raises StateMigrationError: it is newer than the class, a step is missing or fails, or it does not fit.
        """
        if version > self.version:
            raise StateMigrationError(
                f"The state of {self._title} is stored in version {version}, which is newer than this code's "
                f"{self.version}: deploy the newer code to this process."
            )
        if version < self.version and text != "{}":
            text = self._migrated(text, version)
        try:
            decoded = self._decoder.decode(text)
        except msgspec.ValidationError as error:
            problem = misfit(error, "state")
            raise StateMigrationError(
                f"The stored state of {self._title} does not fit its annotations: {problem} "
                "Raise state_version and add a @state_migration."
            ) from error
        values = {}
        for name, each in self.fields.items():
            value = getattr(decoded, name)
            values[name] = each.fresh() if value is msgspec.UNSET else value
        return values, self._others(text)

    def encode(self, values: Mapping[str, Any], others: Mapping[str, Any], limit: int) -> str:
        """Encode state and check it the way the next activation will load it.

        :raises InvalidPayload, PayloadTooLarge: naming the attribute.
        """
        setting = "SOLID_OBJECTS_MAX_STATE_BYTES"
        text = encode({**others, **values}, path="state", limit=limit, setting=setting)
        try:
            self._decoder.decode(text)
        except msgspec.ValidationError as error:
            raise misfit(error, "state") from error
        return text

    def _others(self, text: str) -> dict[str, Any]:
        stored = decode(text)
        return {name: value for name, value in stored.items() if name not in self.fields}

    def _migrated(self, text: str, version: int) -> str:
        state = decode(text)
        for number in range(version, self.version):
            step = self._steps.get(number)
            if step is None:
                raise StateMigrationError(
                    f"{self._title} has no @state_migration(from_version={number}), which the stored state needs."
                )
            try:
                state = step(state)
            except Exception as error:
                raise StateMigrationError(
                    f"The migration of {self._title} from version {number} raised {type(error).__name__}: {error}"
                ) from error
            if not isinstance(state, dict):
                raise StateMigrationError(
                    f"The migration of {self._title} from version {number} returned {type(state).__name__}, not a dict."
                )
        try:
            return encode(state, path="state")
        except InvalidPayload as error:
            raise StateMigrationError(f"The migration of {self._title} gave what cannot be stored: {error}") from error
