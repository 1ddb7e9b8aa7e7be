"""References and their options, without a database."""

from __future__ import annotations

import copy
import enum
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flask_solid_objects import Actor, operation, query
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import ActorCallCycle, InvalidActorId, NotInitialized, StagingUnavailable
from flask_solid_objects.intents import CurrentTurn, current_turn
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.settings import Settings
from flask_solid_objects.values import ActorKey


class Thing(Actor):
    value: int = 0

    @operation
    def put(self, value: int) -> int:
        self.value = value
        return value

    @query
    def look(self) -> int:
        return self.value


class Recorder:
    """Stands where the runtime would, and records what reaches it."""

    settings = Settings()

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def record(*args: Any) -> None:
            self.seen.append((name, *args))

        return record


recorder = Recorder()
registry = Registry(make_reference=make_reference, current_runtime=lambda: recorder)
registry.register(Thing)


@pytest.fixture
def seen() -> list[Any]:
    recorder.seen.clear()
    return recorder.seen


@pytest.mark.parametrize("actor_id", ["", "x" * 192, "a\0b", "\ud800", 5, None, b"a"])
def test_bad_id_is_refused(actor_id: Any) -> None:
    """An id that a database could not store or compare is refused with the remedy."""
    with pytest.raises(InvalidActorId):
        Thing.ref(actor_id)


@pytest.mark.parametrize("actor_id", ["a", "x" * 191, "😀" * 191, " a ", "a\n"])
def test_any_other_text_is_an_id(actor_id: str) -> None:
    """1 to 191 characters of any kind are an id."""
    assert Thing.ref(actor_id).actor_id == actor_id


def test_member_of_a_text_enum_is_its_text() -> None:
    """An id is plain text, whatever class of text it came from."""

    class Which(str, enum.Enum):  # noqa: UP042 - the older form, whose text is not its value
        ONE = "one"

    assert type(Thing.ref(Which.ONE).actor_id) is str
    assert Thing.ref(Which.ONE).actor_id == "one"


@pytest.mark.parametrize("key", ["", "x" * 192, "\0", "\ud800", 5, None])
def test_message_is_not_looked_up_by_what_cannot_be_a_key(seen: list[Any], key: Any) -> None:
    """A key that no message can have is refused before the database is asked."""
    with pytest.raises((TypeError, ValueError), match="idempotency_key"):
        Thing.ref("1").find_message(idempotency_key=key)

    assert seen == []
    Thing.ref("1").find_message(idempotency_key="k")
    assert [name for name, *_ in seen] == ["find_message"]


def test_references_compare_copy_and_pickle() -> None:
    """A reference is its type and id."""
    one: Any = Thing.ref("1")

    assert one == Thing.ref("1")
    assert one != Thing.ref("2")
    assert copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(one)) == one
    assert len({one, Thing.ref("1")}) == 1
    with pytest.raises(AttributeError, match="operation"):
        one.value = 3
    with pytest.raises(AttributeError, match="it has: look, put, value"):
        one.missing()


def test_unregistered_class_says_so() -> None:
    """A class without @solid.actor has no references, and neither has an unregistered subclass."""

    class Child(Thing):
        pass

    with pytest.raises(NotInitialized, match=r"@solid\.actor"):
        Child.ref("1")


def test_options_reach_the_runtime(seen: list[Any]) -> None:
    """Delivery options go with the verb, and the arguments are the operation's own."""
    thing: Any = Thing.ref("1")
    thing.put.using(timeout=timedelta(seconds=2), idempotency_key="k", context="me")(value=1)
    thing.put.using(delay=5).send(value=2)
    _ = thing.using(context="me").value
    (_, _, _, arguments, call), (_, _, _, _, send), (_, _, read, _, options) = seen

    assert (arguments, call.timeout, call.idempotency_key, call.context) == ('{"value":1}', 2.0, "k", "me")
    assert (send.delay, read.name, options.context) == (5.0, "value", "me")


@pytest.mark.parametrize(
    ("options", "verb", "error", "text"),
    [
        ({"priority": 1}, "call", TypeError, "has no option 'priority'"),
        ({"delay": 1}, "call", TypeError, "has no option 'delay'"),
        ({"timeout": 1}, "send", TypeError, "has no option 'timeout'"),
        ({"timeout": 0}, "call", ValueError, "more than 0"),
        ({"timeout": float("nan")}, "call", ValueError, "finite"),
        ({"timeout": "5"}, "call", TypeError, "number of seconds"),
        ({"timeout": True}, "call", TypeError, "number of seconds"),
        ({"delay": -1}, "send", ValueError, "from 0"),
        ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "send", TypeError, "exclude"),
        ({"at": datetime(2030, 1, 1)}, "send", ValueError, "time zone"),
        ({"at": 5}, "send", TypeError, "aware datetime"),
        ({"idempotency_key": ""}, "call", ValueError, "1 to 191"),
        ({"idempotency_key": "x" * 192}, "call", ValueError, "1 to 191"),
        ({"idempotency_key": "\0"}, "call", ValueError, "NUL"),
        ({"idempotency_key": 5}, "call", TypeError, "text"),
    ],
)
def test_bad_options_are_refused(seen: list[Any], options: Any, verb: str, error: Any, text: str) -> None:
    """An option that the verb lacks or that cannot be is refused before anything is done."""
    thing: Any = Thing.ref("1")

    def act() -> None:
        bound = thing.put.using(**options)
        if verb == "call":
            bound(value=1)
        else:
            bound.send(value=1)

    with pytest.raises(error, match=text):
        act()

    assert seen == []


def test_queries_cannot_be_sent(seen: list[Any]) -> None:
    """Only operations can be sent."""
    thing: Any = Thing.ref("1")
    with pytest.raises(AttributeError, match="Only operations"):
        thing.look.send()
    with pytest.raises(TypeError, match="delay"):
        thing.look.using(delay=1)

    assert seen == []


def test_actor_code_cannot_call_and_can_look(seen: list[Any]) -> None:
    """In a turn, calls, reads and destroy are refused at once, staging needs a stage, a snapshot works."""
    thing: Any = Thing.ref("1")
    token = current_turn.set(CurrentTurn(key=ActorKey(actor_type="X", actor_id="1"), operation="do"))
    try:
        for act in (lambda: thing.put(value=1), thing.look, lambda: thing.value, thing.destroy):
            with pytest.raises(ActorCallCycle):
                act()
        with pytest.raises(StagingUnavailable):
            thing.put.send(value=1)
        for verb in (thing.put.schedule, thing.put.emit, thing.put.stage):
            with pytest.raises(AttributeError):
                verb(value=1)
        thing.snapshot()
    finally:
        current_turn.reset(token)

    assert [name for name, *_ in seen] == ["snapshot"]
