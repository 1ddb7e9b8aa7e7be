"""Committed state as views show it: frozen, with the pair that it belongs to, limited to observables.

Reading runs as actor code: migrations and observables may neither write nor stage anything.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.definition import ActorDefinition, Target
from flask_solid_objects.intents import CurrentTurn, current_turn
from flask_solid_objects.payloads import decode, encode
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.views import ViewRow
from flask_solid_objects.values import ActorKey, Reminder

NEVER_USED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An actor at one revision; incarnation and revision are 0 for one that was never used."""

    key: ActorKey
    incarnation: int
    revision: int
    values: Mapping[str, Any]


class Viewing:
    """Reads views of one runtime."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def look(self, target: Target, names: Collection[str]) -> View:
        """The named observables of an actor as they are committed now; a fresh copy.

        :raises StateMigrationError: the stored state cannot be read by this code.
        """
        return self.view(target.definition, target.key, self.row(target.key), names)

    def row(self, key: ActorKey) -> ViewRow | None:
        """The row of the living incarnation, from which several views can be made that agree."""
        return self._core.database.read(lambda tx: self._core.store.views.find(tx, key))

    def rows(self, keys: Collection[ActorKey]) -> dict[ActorKey, ViewRow]:
        """The same of several actors in one statement, for up to 200 of them; who is missing has none."""
        if not keys:
            return {}
        views, wanted = self._core.store.views, list(keys)
        return {row.key: row for row in self._core.database.read(lambda tx: views.find_many(tx, wanted))}

    def view(self, definition: ActorDefinition, key: ActorKey, row: ViewRow | None, names: Collection[str]) -> View:
        """The same from a row that was read."""
        text, version = ("{}", definition.state_version) if row is None else (row.state, row.version)

        def load(actor: Actor) -> dict[str, Any]:
            return {name: copy.deepcopy(_read(definition, actor, name)) for name in names}

        values = self._with_actor(definition, key, row, text, version, load) if names else {}
        return View(
            key=key,
            incarnation=NEVER_USED if row is None else row.id,
            revision=0 if row is None else row.revision,
            values=values,
        )

    def shared_values(self, definition: ActorDefinition, row: ViewRow | None, key: ActorKey) -> dict[str, Any]:
        """What every watcher may see: observables that share their value, as plain JSON but for lists and objects."""
        names = [name for name, each in definition.observables.items() if each.shares]
        if not names:
            return {}
        values = decode(encode(dict(self.view(definition, key, row, names).values), path="values"))
        return {name: value for name, value in values.items() if not isinstance(value, list | dict)}

    def values_to_tell(self, row: ViewRow) -> dict[str, Any]:
        """The same; none when this code cannot read the state, so that the change is told all the same."""
        try:
            return self.shared_values(self._core.registry.get(row.key.actor_type), row, row.key)
        except Exception as error:
            self._core.events.announce("view.failed", actor=row.key, error=type(error).__name__)
            return {}

    def payload(self, definition: ActorDefinition, row: ViewRow, name: str, viewer: str, limit: int) -> Any:
        """A projection for one viewer, as plain JSON."""
        member = getattr(definition.cls, name)

        def project(actor: Actor) -> Any:
            return decode(encode(member.function(actor, viewer), path=name, limit=limit))

        return self._with_actor(definition, row.key, row, row.state, row.version, project)

    def _with_actor(
        self,
        definition: ActorDefinition,
        key: ActorKey,
        row: ViewRow | None,
        text: str,
        version: int,
        use: Callable[[Actor], Any],
    ) -> Any:
        def read_reminders() -> Mapping[str, Reminder]:
            return {} if row is None else self._reminders_of(row.id)

        def run() -> Any:
            turn = CurrentTurn(key=key, operation="view", reads=True, read_reminders=read_reminders)
            current_turn.set(turn)
            return use(definition.hydrate(key, text, version))

        return self._core.run_actor_code(run)

    def _reminders_of(self, instance_id: int) -> Mapping[str, Reminder]:
        reminders = self._core.store.reminders
        return self._core.database.read(lambda tx: reminders.of_actor(tx, instance_id))


def _read(definition: ActorDefinition, actor: Actor, name: str) -> Any:
    operation = definition.observables[name].computed
    return actor.__dict__[name] if operation is None else operation.invoke(actor, {})
