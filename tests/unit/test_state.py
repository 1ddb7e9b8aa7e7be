"""State between stored JSON and typed attributes: defaults, unknown keys, versions, snapshots."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import pytest

from flask_solid_objects import Actor, attribute, observable, operation, payload, query, state_migration
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import InvalidActor, InvalidPayload, StateMigrationError, UnknownOperation
from flask_solid_objects.values import ActorKey

KEY = ActorKey(actor_type="X", actor_id="1")
LIMIT = 10_000


def bad_version() -> type[Actor]:
    class Bad(Actor):
        state_version: ClassVar[int] = 0

    return Bad


def missing_step() -> type[Actor]:
    class Bad(Actor):
        state_version: ClassVar[int] = 3

        @state_migration(from_version=1)
        def one(state: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
            return state

    return Bad


def step_beyond_version() -> type[Actor]:
    class Bad(Actor):
        @state_migration(from_version=1)
        def one(state: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
            return state

    return Bad


@pytest.mark.parametrize(
    ("make", "where", "what"),
    [
        (bad_version, "Bad", "state_version"),
        (missing_step, "Bad", "from_version=2"),
        (step_beyond_version, "Bad.one", "from_version"),
    ],
)
def test_malformed_class_is_refused(make: Callable[[], type[Actor]], where: str, what: str) -> None:
    """The error names the class and member, and what is wrong."""
    with pytest.raises(InvalidActor) as raised:
        Registry().register(make())

    assert where in str(raised.value)
    assert what in str(raised.value)


@dataclass
class Item:
    name: str
    price: float = 0.0


class Cart(Actor):
    state_version: ClassVar[int] = 2
    limit: ClassVar[int] = 3
    items: list[Item] = []
    opened: datetime | None = None
    notes: dict[str, int] = attribute(default_factory=dict, observable=True)

    @operation
    def put(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items)

    @query
    def names(self) -> list[str]:
        return [item.name for item in self.items]

    @observable(broadcast="value")
    def size(self) -> int:
        return len(self.items)

    @payload
    def hand(self, viewer: str) -> dict[str, int]:
        return {viewer: 1}

    @state_migration(from_version=1)
    def from_list(state: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
        return {"items": [{"name": name} for name in state.get("names", [])]}


@pytest.fixture(scope="module")
def cart() -> Any:
    return Registry().register(Cart, "Cart")


def test_definition_lists_operations_queries_and_reads(cart: Any) -> None:
    """Every attribute and observable is a read; ClassVars are not state."""
    kinds = {name: operation.kind for name, operation in cart.operations.items()}

    assert kinds == {
        "put": "operation",
        "names": "query",
        "size": "read",
        "items": "read",
        "opened": "read",
        "notes": "read",
    }
    with pytest.raises(UnknownOperation, match="names"):
        cart.lookup("missing")


def test_defaults_are_copied_per_actor(cart: Any) -> None:
    """Changing the default list of one actor does not reach another."""
    one, two = cart.hydrate(KEY, "{}", 2), cart.hydrate(KEY, "{}", 2)
    one.items.append(Item("x"))
    one.notes["a"] = 1

    assert (two.items, two.notes) == ([], {})
    assert Cart.items == []


def test_state_is_typed_and_keeps_unknown_keys(cart: Any) -> None:
    """Stored JSON becomes the annotated types; keys that the class does not declare are written back."""
    actor = cart.hydrate(KEY, '{"items":[{"name":"x","price":2}],"future":[1]}', 2)

    assert actor.items == [Item("x", 2.0)]
    assert cart.encode_state(actor, LIMIT) == (
        '{"future":[1],"items":[{"name":"x","price":2.0}],"opened":null,"notes":{}}'
    )


def test_old_state_is_migrated_step_by_step(cart: Any) -> None:
    """A stored version 1 goes through its migration; a newer one than the code is refused."""
    assert cart.hydrate(KEY, '{"names":["x"]}', 1).items == [Item("x")]
    with pytest.raises(Exception, match="newer"):
        cart.hydrate(KEY, "{}", 3)
    with pytest.raises(Exception, match="does not fit"):
        cart.hydrate(KEY, '{"items":5}', 2)


def test_state_that_the_next_activation_could_not_load_is_refused(cart: Any) -> None:
    """A value of another type than the annotation fails the turn, with its path."""
    actor = cart.hydrate(KEY, "{}", 2)
    actor.items = [{"name": 5}]
    with pytest.raises(Exception, match=r"state\.items\[0\]\.name"):
        cart.encode_state(actor, LIMIT)


def test_undeclared_attributes_cannot_be_assigned(cart: Any) -> None:
    """A typing mistake is an AttributeError that names the declared attributes."""
    actor = cart.hydrate(KEY, "{}", 2)
    with pytest.raises(AttributeError, match="items, notes, opened"):
        actor.itmes = []
    with pytest.raises(AttributeError, match="computed"):
        actor.size = 3
    with pytest.raises(AttributeError, match="no message here"):
        _ = actor.context


def test_snapshot_is_frozen(cart: Any) -> None:
    """A snapshot has attributes and observables, cannot be assigned, and names what it has."""
    snapshot = cart.snapshot(KEY, '{"items":[{"name":"x"}]}', 2)
    snapshot.items.clear()

    assert (snapshot.items, snapshot.size, snapshot.actor_id) == ([Item("x")], 1, "1")
    with pytest.raises(AttributeError, match="frozen"):
        snapshot.items = []
    with pytest.raises(AttributeError, match="it has: items"):
        _ = snapshot.other


def test_a_migration_that_fails_is_named(cart: Any) -> None:
    """A step that raises, is missing or gives no dict stops the activation, not the process."""

    def step(state: dict[str, Any]) -> Any:
        return state["gone"]

    class Bad(Actor):
        state_version: ClassVar[int] = 3
        two = state_migration(from_version=2)(step)

    definition = Registry().register(Bad)

    for version, text in ((2, "version 2 raised KeyError"), (1, "from_version=1")):
        with pytest.raises(StateMigrationError, match=text):
            definition.hydrate(KEY, '{"a":1}', version)
    with pytest.raises(StateMigrationError, match="not a dict"):
        definition.hydrate(KEY, '{"gone":[]}', 2)
    assert definition.hydrate(KEY, "{}", 1) is not None


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"n": math.nan}, "state.anything.n"),
        (2**64, "state.anything"),
        ("a\0", "state.anything"),
        ({"\ud800": 1}, "state.anything key"),
        ([Item("a", math.inf)], "state.anything[0].price"),
        ({1: 1, "1": 2}, "state.anything"),
        ("x" * LIMIT, "state"),
    ],
)
def test_state_that_cannot_be_stored_is_refused_with_its_path(value: Any, path: str) -> None:
    """The same rules hold for state as for arguments."""

    class Loose(Actor):
        anything: Any = None

    definition = Registry().register(Loose)
    actor: Any = definition.hydrate(KEY, "{}", 1)
    actor.anything = value
    with pytest.raises(InvalidPayload) as raised:
        definition.encode_state(actor, LIMIT)

    assert raised.value.path == path


def test_untyped_state_survives_a_database_that_keeps_decimal_digits() -> None:
    """A large float in untyped or undeclared state stays a float, so that the actor can be stored again."""

    class Loose(Actor):
        anything: Any = None

    definition = Registry().register(Loose)
    actor: Any = definition.hydrate(KEY, "{}", 1)
    actor.anything = [1e23, -1.7976931348623157e308]
    stored = definition.encode_state(actor, LIMIT)

    assert definition.hydrate(KEY, stored, 1).anything == [1e23, -1.7976931348623157e308]  # type: ignore[attr-defined]
    assert "e" not in stored.partition(":")[2]


def test_property_with_a_setter_works() -> None:
    """A plain property of the class may set declared attributes."""

    class Box(Actor):
        half: int = 0

        @property
        def whole(self) -> int:
            return self.half * 2

        @whole.setter
        def whole(self, value: int) -> None:
            self.half = value // 2

    actor: Any = Registry().register(Box).hydrate(KEY, "{}", 1)
    actor.whole = 8

    assert actor.half == 4
