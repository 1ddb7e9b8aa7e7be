"""What of an actor a turn has changed for those who watch it.

Every observable is compared by its encoding, before and after the turn; it must not change anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.definition import ActorDefinition
from flask_solid_objects.errors import QueryMutatedState
from flask_solid_objects.intents import CurrentTurn, current_turn
from flask_solid_objects.payloads import decode, encode
from flask_solid_objects.store.completion import ObservableChange
from flask_solid_objects.values import ActorKey, Reminder

# The name under which a change is told that touches no observable, but may touch a payload.
REVISION = "solid_objects.revision"


def observe(
    definition: ActorDefinition,
    actor: Actor,
    key: ActorKey,
    *,
    limit: int,
    state_limit: int,
    read_reminders: Callable[[], Mapping[str, Reminder]],
) -> dict[str, str]:
    """Every observable of an actor in memory, encoded.

    :raises QueryMutatedState: one of them changed the state.
    """
    if not definition.observables:
        return {}
    if not definition.has_computed_observables:
        return definition.observe(actor, limit)
    before = definition.encode_state(actor, state_limit)
    outer = current_turn.get()
    refusals = [] if outer is None else outer.refusals
    turn = CurrentTurn(key=key, operation="observable", reads=True, read_reminders=read_reminders, refusals=refusals)
    token = current_turn.set(turn)
    try:
        observed = definition.observe(actor, limit)
    finally:
        current_turn.reset(token)
    if definition.encode_state(actor, state_limit) != before:
        raise QueryMutatedState(key.actor_type, "an observable")
    return observed


def changes_between(
    definition: ActorDefinition, before: Mapping[str, str], after: Mapping[str, str], *, state_changed: bool
) -> list[ObservableChange]:
    """What has to be told, with the values of those that share theirs."""
    changes = [
        ObservableChange(name=name, value=value if definition.observables[name].shares else "{}")
        for name, value in after.items()
        if before.get(name) != value
    ]
    if not changes and state_changed and definition.has_payloads:
        return [ObservableChange(name=REVISION)]
    return changes


def revisions_after(stored: str | None, changes: list[ObservableChange], revision: int) -> str | None:
    """The stored revision of each observable's last change, with these changes."""
    if not changes:
        return stored
    revisions = decode(stored) if stored is not None else {}
    assert isinstance(revisions, dict), "it is stored as an object"
    return encode({**revisions, **{change.name: revision for change in changes}}, path="observable_revisions")
