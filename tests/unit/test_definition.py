"""Malformed actor classes: one error at registration that says where and how to mend it; types and aliases."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from flask_solid_objects import Actor, attribute, operation, payload
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import InvalidActor, UnknownActorType
from flask_solid_objects.values import ActorKey


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


def reserved_observe() -> type[Actor]:
    class Bad(Actor):
        @operation
        def observe(self) -> None: ...  # type: ignore[override]

    return Bad


def reserved_diagnostics() -> type[Actor]:
    class Bad(Actor):
        diagnostics: int = 0  # type: ignore[assignment]

    return Bad


def reserved_attribute() -> type[Actor]:
    class Bad(Actor):
        using: int = 0  # type: ignore[assignment]

    return Bad


def unstorable_state() -> type[Actor]:
    class Bad(Actor):
        value: Opaque | None = None

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


def own_init() -> type[Actor]:
    class Bad(Actor):
        def __init__(self) -> None: ...

    return Bad


def asynchronous_hook() -> type[Actor]:
    class Bad(Actor):
        async def on_activate(self) -> None: ...  # type: ignore[override]

    return Bad


def unresolvable_module_type() -> type[Actor]:
    class Bad(Actor):
        value: collections.Missing = 0  # type: ignore[name-defined]

    return Bad


def broken_annotation() -> type[Actor]:
    class Bad(Actor):
        value: "list[" = []  # type: ignore  # noqa: F722, PGH003

    return Bad


def final_state() -> type[Actor]:
    class Bad(Actor):
        value: Final[int] = 0

    return Bad


def raising_factory() -> type[Actor]:
    class Bad(Actor):
        value: float = attribute(default_factory=lambda: 1 / 0)

    return Bad


def default_without_copy() -> type[Actor]:
    class Bad(Actor):
        value: Any = threading.Lock()

    return Bad


def payload_without_viewer() -> type[Actor]:
    class Bad(Actor):
        @payload  # type: ignore[arg-type]
        def hand(self) -> int:
            return 1

    return Bad


def asynchronous_payload() -> type[Actor]:
    class Bad(Actor):
        @payload
        async def hand(self, viewer: str) -> int:
            return 1

    return Bad


def undecorated_payload() -> type[Actor]:
    class Base(Actor):
        @payload
        def hand(self, viewer: str) -> int:
            return 1

    class Bad(Base):
        def hand(self, viewer: str) -> int:  # type: ignore[override]
            return 1

    return Bad


def payload_over_operation() -> type[Actor]:
    class Base(Actor):
        @operation
        def hand(self) -> int:
            return 1

    class Bad(Base):
        @payload
        def hand(self, viewer: str) -> int:  # type: ignore[override]
            return 1

    return Bad


@pytest.mark.parametrize(
    ("make", "where", "what"),
    [
        (no_default, "Bad.value", "default"),
        (wrong_default, "Bad.value", "does not fit"),
        (private_state, "Bad", "underscore"),
        (reserved_name, "Bad", "choose another"),
        (reserved_attribute, "Bad", "choose another"),
        (reserved_observe, "Bad", "observe is a name"),
        (reserved_diagnostics, "Bad", "diagnostics is a name"),
        (unstorable_state, "Bad.value", "Opaque"),
        (unresolvable, "Bad", "Missing"),
        (attribute_without_annotation, "Bad.value", "annotation"),
        (attribute_without_default, "Bad.value", "default_factory"),
        (own_init, "Bad.__init__", "defaults"),
        (asynchronous_hook, "Bad.on_activate", "plain method"),
        (unresolvable_module_type, "Bad", "Missing"),
        (broken_annotation, "Bad", "not a type"),
        (final_state, "Bad.value", "Final"),
        (raising_factory, "Bad.value", "ZeroDivisionError"),
        (default_without_copy, "Bad.value", "could not be made"),
        (payload_without_viewer, "Bad.hand", "viewer"),
        (asynchronous_payload, "Bad.hand", "plain method"),
        (undecorated_payload, "Bad.hand", "@payload"),
        (payload_over_operation, "Bad.hand", "another name"),
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


def test_a_class_has_one_type() -> None:
    """A second type for a class would leave references to the first; aliases are what is meant."""
    registry = Registry()

    class One(Actor):
        pass

    registry.register(One, "one")
    with pytest.raises(InvalidActor, match="aliases"):
        registry.register(One, "two")
    with pytest.raises(InvalidActor, match="tuple"):
        Registry().register(type("Two", (Actor,), {}), "two", "old")  # type: ignore[arg-type]

    assert registry.types() == ("one",)


class Counting:
    """A mixin that is no actor itself."""

    count: int = 0

    @operation
    def hit(self) -> int:
        self.count += 1
        return self.count


def test_a_mixin_declares_members_too() -> None:
    """State and operations of a plain mixin are those of the actor."""

    class Page(Counting, Actor):
        title: str = ""

    definition = Registry().register(Page)
    actor = definition.hydrate(ActorKey(actor_type="Page", actor_id="1"), "{}", 1)

    assert definition.lookup("hit").invoke(actor, {}) == 1
    assert sorted(definition.operations) == ["count", "hit", "title"]
