"""Arguments and results: what a handler may take and give, checked before anything is written."""

from __future__ import annotations

import collections
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from flask_solid_objects import Actor, observable, operation, query
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import InvalidActor, PayloadTooLarge, StagingUnavailable
from flask_solid_objects.values import ActorKey

KEY = ActorKey(actor_type="X", actor_id="1")
LIMIT = 10_000


class Opaque:
    pass


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


def observable_with_arguments() -> type[Actor]:
    class Bad(Actor):
        @observable
        def seen(self, other: int) -> int:  # type: ignore[misc]
            return other

    return Bad


def asynchronous_generator() -> type[Actor]:
    class Bad(Actor):
        @operation
        async def do(self) -> Any:
            yield 1

    return Bad


def static_inside() -> type[Actor]:
    class Bad(Actor):
        @operation
        @staticmethod
        def do(value: int) -> None: ...

    return Bad


def static_outside() -> type[Actor]:
    class Bad(Actor):
        @staticmethod
        @operation
        def do(value: int) -> None: ...

    return Bad


def class_method() -> type[Actor]:
    class Bad(Actor):
        @operation  # type: ignore[arg-type]
        @classmethod
        def do(cls) -> None: ...

    return Bad


def property_outside() -> type[Actor]:
    class Bad(Actor):
        @property  # type: ignore[arg-type]
        @operation
        def do(self) -> None: ...

    return Bad


def second_name() -> type[Actor]:
    class Bad(Actor):
        @operation
        def do(self) -> None: ...

        again = do

    return Bad


def unresolvable_argument() -> type[Actor]:
    class Bad(Actor):
        @operation
        def do(self, value: collections.Missing) -> None: ...  # type: ignore[name-defined]

    return Bad


@pytest.mark.parametrize(
    ("make", "where", "what"),
    [
        (unstorable_argument, "Bad.do", "Opaque"),
        (star_arguments, "Bad.do", "*values"),
        (keyword_arguments, "Bad.do", "**values"),
        (positional_only, "Bad.do", "positional-only"),
        (asynchronous, "Bad.do", "plain def"),
        (wrong_argument_default, "Bad.do", "default of value"),
        (undecorated_override, "Bad.do", "@operation"),
        (override_with_other_parameters, "Bad.do", "parameters"),
        (override_with_another_kind, "Bad.do", "@operation"),
        (observable_with_arguments, "Bad.seen", "no arguments"),
        (asynchronous_generator, "Bad.do", "plain def"),
        (static_inside, "Bad.do", "plain method"),
        (static_outside, "Bad.do", "plain method"),
        (class_method, "Bad.do", "plain method"),
        (property_outside, "Bad.do", "plain method"),
        (second_name, "Bad.again", "second name"),
        (unresolvable_argument, "Bad.do", "Missing"),
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


class Basket(Actor):
    items: list[Item] = []

    @operation
    def put(self, item: Item, times: int = 1) -> int:
        self.items.extend([item] * times)
        return len(self.items)

    @query
    def names(self) -> list[str]:
        return [item.name for item in self.items]


@pytest.fixture(scope="module")
def basket() -> Any:
    return Registry().register(Basket)


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
def test_bad_arguments_are_refused_with_their_path(basket: Any, args: Any, kwargs: Any, path: str) -> None:
    """Missing, extra and wrong arguments are named before anything is written."""
    with pytest.raises(Exception, match="argument") as raised:
        basket.lookup("put").encode_arguments(args, kwargs, LIMIT)

    assert raised.value.path == path  # type: ignore[attr-defined]


def test_arguments_are_stored_by_name_only_as_given(basket: Any) -> None:
    """Defaults apply at the turn, so they are not stored."""
    put = basket.lookup("put")

    assert put.encode_arguments((Item("x"),), {}, LIMIT) == '{"item":{"name":"x","price":0.0}}'
    assert put.decode_arguments('{"item":{"name":"x"}}') == {"item": Item("x")}
    with pytest.raises(Exception, match="argument"):
        put.decode_arguments('{"item":{"name":"x"},"gone":1}')


def test_results_fit_their_annotation(basket: Any) -> None:
    """A result of another type is refused; a good one comes back as a fresh copy."""
    names = basket.lookup("names")

    assert names.decode_result(names.encode_result(["a"], LIMIT)) == ["a"]
    with pytest.raises(Exception, match=r"result\[0\]"):
        names.encode_result([1], LIMIT)


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
    for verb in (actor.add.send, actor.add.using(delay=1).schedule):
        with pytest.raises(StagingUnavailable, match="needs a turn"):
            verb(amount=1)
    for verb in (actor.add.emit, actor.add.stage):
        with pytest.raises(AttributeError, match="is an operation"):
            verb(amount=1)
    with pytest.raises(Exception, match=r"without \.using"):
        actor.add.using(timeout=1)(amount=1)


def test_arguments_are_limited_in_size(basket: Any) -> None:
    """The limit in bytes is checked before anything is written."""
    with pytest.raises(PayloadTooLarge, match="SOLID_OBJECTS_MAX_PAYLOAD_BYTES"):
        basket.lookup("put").encode_arguments((Item("x" * LIMIT),), {}, LIMIT)


def test_self_may_be_annotated() -> None:
    """The annotation of self is not one of an argument."""

    class Typed(Actor):
        @operation
        def do(self: Actor, value: int) -> int:
            return value

    definition = Registry().register(Typed)

    assert definition.lookup("do").encode_arguments((1,), {}, LIMIT) == '{"value":1}'
