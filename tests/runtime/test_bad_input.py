"""Bad input has the same answer on every database: one error that names the value, and nothing written."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.errors import (
    InvalidActorId,
    InvalidArguments,
    InvalidPayload,
    MessageFailed,
    PayloadTooLarge,
)
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.store.tables import Tables
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class Keeper(Actor):
    """Keeps whatever it is given."""

    kept: Any = None

    @operation
    def keep(self, value: Any) -> Any:
        self.kept = value
        return value

    @operation
    def count(self, number: int) -> int:
        return number

    @operation
    def spoil(self, where: str) -> Any:
        bad = {"nan": float("nan"), "big": 2**64, "nul": "a\0", "lone": "\ud800", "deep": nested(101), "own": object()}
        if where.startswith("state"):
            self.kept = bad[where.removeprefix("state ")]
            return None
        return bad[where.removeprefix("result ")]


@pytest.fixture
def rt(make_runtime: MakeRuntime) -> RuntimeUnderTest:
    keeper = type("Keeper", (Keeper,), {"__module__": __name__})
    return make_runtime(actors=(keeper,), max_attempts=1, max_payload_bytes=1000, max_state_bytes=2000)


def keeper(rt: RuntimeUnderTest, actor_id: Any = "a") -> Any:
    return make_reference(rt.registry, rt.registry.get("Keeper"), actor_id)


def rows(engine: Engine, tables: Tables) -> list[int]:
    with engine.connect() as connection:
        counted = (tables.instances, tables.messages, tables.ready_messages)
        return [connection.execute(select(func.count()).select_from(table)).scalar_one() for table in counted]


BAD = {
    "nan": (float("nan"), InvalidPayload, "arguments.value"),
    "infinity": ([1, {"x": float("inf")}], InvalidPayload, "arguments.value[1].x"),
    "2**64": (2**64, InvalidPayload, "arguments.value"),
    "-2**63-1": ({"n": -(2**63) - 1}, InvalidPayload, "arguments.value.n"),
    "nul": ("a\0b", InvalidPayload, "arguments.value"),
    "nul in a key": ({"a\0": 1}, InvalidPayload, "arguments.value key"),
    "lone surrogate": (["\udc00"], InvalidPayload, "arguments.value[0]"),
    "depth 101": (nested(101), InvalidPayload, None),
    "oversize": ("x" * 1001, PayloadTooLarge, "arguments"),
    "object": (object(), InvalidPayload, "arguments.value"),
    "keys alike": ({1: "a", "1": "b"}, InvalidPayload, "arguments.value"),
}


@pytest.mark.parametrize("verb", ["call", "send"])
@pytest.mark.parametrize("name", BAD)
def test_value_that_cannot_be_stored(
    rt: RuntimeUnderTest, engine: Engine, tables: Tables, name: str, verb: str
) -> None:
    """Refused before anything is written, with the path of the value."""
    value, error, path = BAD[name]
    keep = keeper(rt).keep if verb == "call" else keeper(rt).keep.send
    with pytest.raises(error) as raised:
        keep(value=value)

    assert path is None or raised.value.path == path  # type: ignore[attr-defined]
    assert rows(engine, tables) == [0, 0, 0]


@pytest.mark.parametrize(
    "arguments", [{}, {"number": "1"}, {"number": 1.5}, {"number": None}, {"number": 1, "other": 2}, {"n": 1}]
)
def test_arguments_that_do_not_fit(
    rt: RuntimeUnderTest, engine: Engine, tables: Tables, arguments: dict[str, Any]
) -> None:
    """Wrong types, missing and extra arguments are refused before anything is written."""
    with pytest.raises(InvalidArguments):
        keeper(rt).count(**arguments)
    with pytest.raises(InvalidArguments):
        keeper(rt).count.send(**arguments)

    assert rows(engine, tables) == [0, 0, 0]


@pytest.mark.parametrize("actor_id", ["", "x" * 192, "a\0", "\ud800", 7, None])
def test_ids_that_cannot_be(rt: RuntimeUnderTest, engine: Engine, tables: Tables, actor_id: Any) -> None:
    """A reference with such an id is not made."""
    with pytest.raises(InvalidActorId):
        keeper(rt, actor_id)

    assert rows(engine, tables) == [0, 0, 0]


def test_ids_compare_byte_for_byte(rt: RuntimeUnderTest) -> None:
    """Ids that differ by case, accent, width or spaces are different actors everywhere."""
    ids = ["a", "A", "á", "a\u0301", "a ", " a", "ａ", "ß", "ss", "i", "ı", "😀", "x" * 191, "\t", "%", "_", "'", "\\"]
    for number, actor_id in enumerate(ids):
        assert keeper(rt, actor_id).keep(value=number) == number

    assert [keeper(rt, actor_id).snapshot().kept for actor_id in ids] == list(range(len(ids)))
    assert sorted(each.key.actor_id for each in rt.runtime.operators.actors()) == sorted(ids)


def test_idempotency_keys_compare_byte_for_byte(rt: RuntimeUnderTest) -> None:
    """Keys that differ by case or spaces are different requests."""
    keep = keeper(rt).keep
    for number, key in enumerate(["k", "K", "k ", " k", "ḱ", "x" * 191]):
        assert keep.using(idempotency_key=key)(value=number) == number


@pytest.mark.parametrize("what", ["nan", "big", "nul", "lone", "deep", "own"])
@pytest.mark.parametrize("where", ["state", "result"])
def test_state_or_result_that_cannot_be_stored(rt: RuntimeUnderTest, where: str, what: str) -> None:
    """The turn fails with the path, its message is a dead letter, and the state stays as it was."""
    keeper(rt).keep(value="before")
    with pytest.raises(MessageFailed) as raised:
        keeper(rt).spoil(where=f"{where} {what}")

    assert raised.value.details["class"] == "InvalidPayload"
    assert raised.value.details["message"].startswith("state.kept" if where == "state" else "result")
    assert keeper(rt).snapshot().kept == "before"


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, 0, -1, 2**63 - 1, -(2**63), 0.1, 1e300, 1.5, "", "\u0001", "😀", "\\u0000", '"'),
        *([], {}, {"": ""}, [None], {"a": {"b": [1, 2.5, "x"]}}, "2020-01-01", "1", "null", nested(98)),
    ],
)
def test_value_comes_back_as_it_was(rt: RuntimeUnderTest, value: Any) -> None:
    """What may be stored is the same after the trip through arguments, state and result."""
    assert keeper(rt).keep(value=value) == value
    assert keeper(rt).snapshot().kept == value
    message = keeper(rt).keep.send(value=value)
    rt.drain()
    assert message.result() == value
    assert type(keeper(rt).kept) is type(value)


def test_oversize_state_and_result(rt: RuntimeUnderTest) -> None:
    """State over its limit fails the turn and names the setting."""
    keeper(rt).keep(value="x" * 900)

    class Big(Actor):
        text: str = ""

        @operation
        def grow(self) -> None:
            self.text = "x" * 3000

    rt.registry.register(Big)
    with pytest.raises(MessageFailed, match="SOLID_OBJECTS_MAX_STATE_BYTES"):
        make_reference(rt.registry, rt.registry.get("Big"), "a").grow()
