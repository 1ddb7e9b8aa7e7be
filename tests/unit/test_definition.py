"""Malformed actor classes: one error at registration that says where and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import pytest

from flask_solid_objects import Actor, attribute, observable, operation, payload, query, state_migration
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import InvalidActor, UnknownActorType, UnknownOperation
from flask_solid_objects.values import ActorKey

KEY = ActorKey(actor_type="X", actor_id="1")
LIMIT = 10_000


class Opaque:
    pass


def no_default() -> type[Actor]:
    class Bad(Actor):
        value: int

    return Bad


def wrong_default() -> type[Actor]:
    class Bad(Actor):
        value: int = "text"  # type: ignore[assignment]

    return Bad


def private_state() -> type[Actor]:
    class Bad(Actor):
        _value: int = 0

    return Bad


def reserved_name() -> type[Actor]:
    class Bad(Actor):
        @operation
        def snapshot(self) -> None: ...  # type: ignore[override]

    return Bad


def reserved_attribute() -> type[Actor]:
    class Bad(Actor):
        using: int = 0  # type: ignore[assignment]

    return Bad


def unstorable_state() -> type[Actor]:
    class Bad(Actor):
        value: Opaque | None = None

    return Bad


def unstorable_argument() -> type[Actor]:
    class Bad(Actor):
        @operation
        def do(self, value: Opaque) -> None: ...

    return Bad


def star_arguments() -> type[Actor]:
    class Bad(Actor):
        @operation
        def do(self, *values: int) -> None: ...

    return Bad


def keyword_arguments() -> type[Actor]:
    class Bad(Actor):
        @operation
        def do(self, **values: int) -> None: ...

    return Bad


def positional_only() -> type[Actor]:
    class Bad(Actor):
        @operation
        def do(self, value: int, /) -> None: ...

    return Bad


def asynchronous() -> type[Actor]:
    class Bad(Actor):
        @operation
        async def do(self) -> None: ...

    return Bad


def wrong_argument_default() -> type[Actor]:
    class Bad(Actor):
        @operation
        def do(self, value: int = "x") -> None: ...  # type: ignore[assignment]

    return Bad


def unresolvable() -> type[Actor]:
    class Bad(Actor):
        value: Missing | None = None  # type: ignore[name-defined]  # noqa: F821

    return Bad


def attribute_without_annotation() -> type[Actor]:
    class Bad(Actor):
        value = attribute(1)

    return Bad


def attribute_without_default() -> type[Actor]:
    class Bad(Actor):
        value: int = attribute()  # type: ignore[call-overload]

    return Bad


def undecorated_override() -> type[Actor]:
    class Base(Actor):
        @operation
        def do(self) -> None: ...

    class Bad(Base):
        def do(self) -> None: ...  # type: ignore[override]

    return Bad


def override_with_other_parameters() -> type[Actor]:
    class Base(Actor):
        @operation
        def do(self, value: int) -> None: ...

    class Bad(Base):
        @operation
        def do(self, other: int) -> None: ...  # type: ignore[override]

    return Bad


def override_with_another_kind() -> type[Actor]:
    class Base(Actor):
        @operation
        def do(self) -> None: ...

    class Bad(Base):
        @query
        def do(self) -> None: ...  # type: ignore[override]

    return Bad


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


def observable_with_arguments() -> type[Actor]:
    class Bad(Actor):
        @observable
        def seen(self, other: int) -> int:  # type: ignore[misc]
            return other

    return Bad


def own_init() -> type[Actor]:
    class Bad(Actor):
        def __init__(self) -> None: ...

    return Bad


def asynchronous_hook() -> type[Actor]:
    class Bad(Actor):
        async def on_activate(self) -> None: ...  # type: ignore[override]

    return Bad


@pytest.mark.parametrize(
    ("make", "where", "what"),
    [
        (no_default, "Bad.value", "default"),
        (wrong_default, "Bad.value", "does not fit"),
        (private_state, "Bad", "underscore"),
        (reserved_name, "Bad", "choose another"),
        (reserved_attribute, "Bad", "choose another"),
        (unstorable_state, "Bad.value", "Opaque"),
        (unstorable_argument, "Bad.do", "Opaque"),
        (star_arguments, "Bad.do", "*values"),
        (keyword_arguments, "Bad.do", "**values"),
        (positional_only, "Bad.do", "positional-only"),
        (asynchronous, "Bad.do", "plain def"),
        (wrong_argument_default, "Bad.do", "default of value"),
        (unresolvable, "Bad", "Missing"),
        (attribute_without_annotation, "Bad.value", "annotation"),
        (attribute_without_default, "Bad.value", "default_factory"),
        (undecorated_override, "Bad.do", "@operation"),
        (override_with_other_parameters, "Bad.do", "parameters"),
        (override_with_another_kind, "Bad.do", "@operation"),
        (bad_version, "Bad", "state_version"),
        (missing_step, "Bad", "from_version=2"),
        (step_beyond_version, "Bad.one", "from_version"),
        (observable_with_arguments, "Bad.seen", "no arguments"),
        (own_init, "Bad.__init__", "defaults"),
        (asynchronous_hook, "Bad.on_activate", "plain method"),
    ],
)
def test_malformed_class_is_refused(make: Callable[[], type[Actor]], where: str, what: str) -> None:
    """The error names the class and member, and what is wrong."""
    with pytest.raises(InvalidActor) as raised:
        Registry().register(make())

    assert where in str(raised.value)
    assert what in str(raised.value)


@pytest.mark.parametrize("thing", [int, Actor, object()])
def test_only_subclasses_of_actor_register(thing: Any) -> None:
    """Something else is refused with the remedy."""
    with pytest.raises(InvalidActor, match="Actor"):
        Registry().register(thing)


@pytest.mark.parametrize("name", ["", "x" * 192, "a\nb"])
def test_actor_type_is_printable_text(name: str) -> None:
    """A type that is no name is refused."""

    class Fine(Actor):
        pass

    with pytest.raises(InvalidActor, match="actor type"):
        Registry().register(Fine, name)


def test_type_is_taken_once_and_a_reload_replaces() -> None:
    """Another class under a taken type is refused; the same class again replaces itself."""
    registry = Registry()

    class One(Actor):
        pass

    class Two(Actor):
        pass

    registry.register(One, "thing")
    registry.register(One, "thing")
    with pytest.raises(InvalidActor, match="taken"):
        registry.register(Two, "thing")
    with pytest.raises(InvalidActor, match="another SolidObjects"):
        Registry().register(One, "thing")

    assert registry.types() == ("thing",)
    with pytest.raises(UnknownActorType):
        registry.get("other")


def test_aliases_find_the_class() -> None:
    """Actors that are stored under a former name are run by the class."""
    registry = Registry()

    class New(Actor):
        pass

    definition = registry.register(New, "new", ("old",))

    assert registry.get("old") is definition
    assert registry.types() == ("new", "old")


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
    def put(self, item: Item, times: int = 1) -> int:
        self.items.extend([item] * times)
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


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        ((), {}, "arguments"),
        ((1, 2, 3), {}, "arguments"),
        ((), {"item": {"name": "x"}, "other": 1}, "arguments"),
        ((), {"item": "x"}, "arguments.item"),
        ((), {"item": {"name": 5}}, "arguments.item.name"),
        ((), {"item": Item("x"), "times": "1"}, "arguments.times"),
        ((), {"item": Item("x"), "times": 2**64}, "arguments.times"),
        ((), {"item": Item("x", float("nan"))}, "arguments.item.price"),
        ((), {"item": Item("a\0b")}, "arguments.item.name"),
        ((), {"item": Item("\ud800")}, "arguments.item.name"),
    ],
)
def test_bad_arguments_are_refused_with_their_path(cart: Any, args: Any, kwargs: Any, path: str) -> None:
    """Missing, extra and wrong arguments are named before anything is written."""
    with pytest.raises(Exception, match="argument") as raised:
        cart.lookup("put").encode_arguments(args, kwargs, LIMIT)

    assert raised.value.path == path  # type: ignore[attr-defined]


def test_arguments_are_stored_by_name_only_as_given(cart: Any) -> None:
    """Defaults apply at the turn, so they are not stored."""
    put = cart.lookup("put")

    assert put.encode_arguments((Item("x"),), {}, LIMIT) == '{"item":{"name":"x","price":0.0}}'
    assert put.decode_arguments('{"item":{"name":"x"}}') == {"item": Item("x")}
    with pytest.raises(Exception, match="argument"):
        put.decode_arguments('{"item":{"name":"x"},"gone":1}')


def test_results_fit_their_annotation(cart: Any) -> None:
    """A result of another type is refused; a good one comes back as a fresh copy."""
    names = cart.lookup("names")

    assert names.decode_result(names.encode_result(["a"], LIMIT)) == ["a"]
    with pytest.raises(Exception, match=r"result\[0\]"):
        names.encode_result([1], LIMIT)


def test_snapshot_is_frozen(cart: Any) -> None:
    """A snapshot has attributes and observables, cannot be assigned, and names what it has."""
    snapshot = cart.snapshot(KEY, '{"items":[{"name":"x"}]}', 2)
    snapshot.items.clear()

    assert (snapshot.items, snapshot.size, snapshot.actor_id) == ([Item("x")], 1, "1")
    with pytest.raises(AttributeError, match="frozen"):
        snapshot.items = []
    with pytest.raises(AttributeError, match="it has: items"):
        _ = snapshot.other


def test_operations_are_plain_python_on_self() -> None:
    """self.op(...) and super().op(...) call the method; verbs that would stage are refused."""

    class Base(Actor):
        total: int = 0

        @operation
        def add(self, amount: int) -> int:
            self.total += amount
            return self.total

    class Double(Base):
        @operation
        def add(self, amount: int) -> int:
            return super().add(amount * 2)

        @operation
        def twice(self) -> int:
            self.add(1)
            return self.add(amount=1)

    registry = Registry()
    definition = registry.register(Double)
    actor: Any = definition.hydrate(KEY, "{}", 1)

    assert definition.lookup("twice").invoke(actor, {}) == 4
    for verb in (actor.add.send, actor.add.schedule, actor.add.emit, actor.add.stage):
        with pytest.raises(Exception, match="not available in this version"):
            verb(amount=1)
    with pytest.raises(Exception, match=r"without \.using"):
        actor.add.using(timeout=1)(amount=1)
