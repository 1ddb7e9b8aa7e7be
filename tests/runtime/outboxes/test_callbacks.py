"""Callbacks: what an actor hears of the end of its effects, once, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.effects import Effect
from flask_solid_objects.actors.operation import operation, query
from flask_solid_objects.errors import MessageFailed, StagingUnavailable
from flask_solid_objects.values import ActorKey, EffectContext
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Outside, Receiver, Roles, Till, charge
from tests.runtime.outboxes.rows import count, error_of, find_effect


class Listener(Actor):
    """Emits with the callbacks that a test names, and notes what they got."""

    heard: list[Any] = []

    @operation
    def begin(self, success: str | None = None, failure: str | None = None) -> str:
        return charge.using(on_success=self._bound(success), on_failure=self._bound(failure)).emit(amount=5)

    @operation
    def use(self, option: str, callback: str) -> None:
        charge.using(**{option: self._bound(callback)})

    @operation
    def use_foreign(self, foreign: str) -> None:
        if foreign == "reference":
            charge.using(on_success=type(self).ref("other").all_of_it)
        elif foreign == "function":
            charge.using(on_success=lambda: None)
        else:
            charge.using(on_success=self.look)

    @operation
    def all_of_it(self, effect_id: str, arguments: dict[str, Any], result: str) -> None:
        self.heard.append([effect_id, arguments, result])

    @operation
    def only_the_id(self, effect_id: str) -> None:
        self.heard.append(effect_id)

    @operation
    def nothing(self) -> None:
        self.heard.append("called")

    @operation
    def with_default(self, result: str, note: str = "default") -> None:
        self.heard.append([result, note])

    @operation
    def failed(self, effect_id: str, arguments: dict[str, Any], error: dict[str, Any]) -> None:
        self.heard.append([effect_id, arguments, error["class"]])

    @operation
    def other(self, amount: int) -> None:
        self.heard.append(amount)

    @operation
    def explode(self) -> None:
        raise RuntimeError("in the callback")

    @query
    def look(self) -> int:
        return len(self.heard)

    def _bound(self, name: str | None) -> Any:
        return None if name is None else getattr(self, name)


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=(Till, Listener, Receiver), max_attempts=2)


# -- what they get -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        ("all_of_it", ["<id>", {"amount": 5}, "paid 5"]),
        ("only_the_id", "<id>"),
        ("nothing", "called"),
        ("with_default", ["paid 5", "default"]),
    ],
)
def test_success_callback_gets_what_it_names(rt: RuntimeUnderTest, roles: Roles, callback: str, expected: Any) -> None:
    """A success callback gets those of effect_id, arguments and result that it names."""
    effect_id = rt.ref("Listener", "a").begin(success=callback)
    roles.settle()
    [heard] = rt.ref("Listener", "a").heard
    given = [effect_id, *expected[1:]] if callback == "all_of_it" else expected

    assert heard == (effect_id if callback == "only_the_id" else given)


def test_failure_callback_gets_the_error(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """A failure callback gets the id, the arguments and the stored error of the last attempt."""
    outside.answer = _fails
    effect_id = rt.ref("Listener", "a").begin(success="nothing", failure="failed")
    roles.settle()

    assert rt.ref("Listener", "a").heard == [[effect_id, {"amount": 5}, "RuntimeError"]]


def test_effect_without_callbacks_tells_nobody(rt: RuntimeUnderTest, roles: Roles) -> None:
    """An effect without callbacks ends without a message to its actor."""
    rt.ref("Listener", "a").begin()
    before = count(rt, "solid_objects_messages")
    roles.settle()

    assert count(rt, "solid_objects_messages") == before


def test_callback_names_its_cause(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """A callback is an internal message that the message which emitted has caused."""
    rt.ref("Listener", "a").begin(success="nothing")
    roles.settle()
    condition = "delivery_mode = 'internal' AND operation = 'nothing' AND caused_by = "

    assert count(rt, "solid_objects_messages", f"{condition}{outside.calls[0][0].source_message_id}") == 1


def test_failing_callback_leaves_the_effect_ended(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """A callback that raises is retried and dies like any message; the effect is not run again."""
    effect_id = rt.ref("Listener", "a").begin(success="explode")
    roles.settle()

    assert (find_effect(rt, effect_id).status, len(outside.calls)) == ("completed", 1)
    assert [letter.operation for letter in rt.runtime.operators.dead_letters()] == ["explode"]


# -- which are refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "callback", "name"),
    [
        ("on_success", "other", "amount"),
        ("on_failure", "other", "amount"),
        ("on_recovery", "other", "amount"),
        ("on_status", "other", "amount"),
        ("on_success", "failed", "error"),
        ("on_failure", "all_of_it", "result"),
        ("on_recovery", "all_of_it", "result"),
        ("on_status", "failed", "error"),
    ],
)
def test_callback_that_requires_something_else(rt: RuntimeUnderTest, option: str, callback: str, name: str) -> None:
    """A callback that requires what it will not get is a TypeError at .using that names the option and the name."""
    with pytest.raises(MessageFailed) as raised:
        rt.ref("Listener", "a").use(option=option, callback=callback)

    assert raised.value.details["class"] == "TypeError"
    assert raised.value.details["message"].startswith(f"{option}: {callback} requires {name},")


@pytest.mark.parametrize("foreign", ["reference", "function", "query"])
def test_callback_that_is_no_operation_of_this_actor(rt: RuntimeUnderTest, foreign: str) -> None:
    """An operation of another actor, a plain function or a query is a TypeError that names the option."""
    with pytest.raises(MessageFailed) as raised:
        rt.ref("Listener", "a").use_foreign(foreign=foreign)

    assert raised.value.details["class"] == "TypeError"
    assert "on_success takes an operation of this actor" in raised.value.details["message"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"delay": -1}, ValueError),
        ({"delay": float("nan")}, ValueError),
        ({"delay": "1"}, TypeError),
        ({"delay": True}, TypeError),
        ({"delay": timedelta(days=40000)}, ValueError),
        ({"max_attempts": 0}, ValueError),
        ({"max_attempts": 1.5}, TypeError),
        ({"max_attempts": True}, TypeError),
        ({"max_attempts": 10**9}, ValueError),
        ({"recovery_timeout": 0}, ValueError),
        ({"recovery_timeout": float("inf")}, ValueError),
        ({"recovery_timeout": "1"}, TypeError),
        ({"recovery_timeout": 5}, TypeError),
        ({"on_success": "paid"}, TypeError),
    ],
)
def test_options_are_checked(options: dict[str, Any], expected: type[Exception]) -> None:
    """An option that cannot be is refused at .using, by its name."""
    with pytest.raises(expected, match=next(iter(options))):
        charge.using(**options)


def test_time_differences_are_seconds() -> None:
    """A delay may be a timedelta."""
    assert isinstance(charge.using(delay=timedelta(minutes=1), max_attempts=3), Effect)


def test_status_needs_a_turn() -> None:
    """A question about an effect commits with a turn, like everything that is staged."""
    with pytest.raises(StagingUnavailable):
        charge.request_status("x")


# -- a full mailbox, a destroyed actor ---------------------------------------------------------


@pytest.fixture
def narrow(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    """A runtime whose mailboxes have room for one message."""
    return make_runtime(own=(Till, Listener), max_mailbox_length=1, max_attempts=2)


def test_callback_waits_for_room(narrow: RuntimeUnderTest, make_roles: Callable[..., Roles], outside: Outside) -> None:
    """A callback that finds the mailbox full is delivered once when there is room; the work is done once."""
    roles = make_roles(narrow)
    [effect_id] = narrow.ref("Till", "a").pay(amount=5)
    narrow.ref("Till", "a").add.send(amount=1)
    # More passes than attempts: a full mailbox is nobody's failure.
    for _ in range(5):
        roles.effects.run_once()

    assert (find_effect(narrow, effect_id).status, outside.amounts) == ("completed", [5])
    assert count(narrow, "solid_objects_messages", "operation = 'paid'") == 0
    roles.settle()
    assert outside.amounts == [5]
    assert narrow.ref("Till", "a").log == ["paid 5"]


def test_callback_that_waited_gets_the_same(
    narrow: RuntimeUnderTest, make_roles: Callable[..., Roles], outside: Outside
) -> None:
    """A failure callback that waited for room hears what it would have heard at once."""
    outside.answer = _fails
    roles = make_roles(narrow)
    effect_id = narrow.ref("Listener", "a").begin(failure="failed")
    narrow.ref("Listener", "a").nothing.send()
    for _ in range(3):
        roles.effects.run_once()
    roles.settle()

    assert error_of(narrow, effect_id)["class"] == "RuntimeError"
    assert narrow.ref("Listener", "a").heard == ["called", [effect_id, {"amount": 5}, "RuntimeError"]]


def test_paused_actor_hears_it_later(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """The callback of a paused actor waits in its mailbox."""
    rt.ref("Till", "a").pay(amount=5)
    rt.runtime.operators.pause(ActorKey(actor_type="Till", actor_id="a"))
    roles.settle()

    assert (outside.amounts, rt.ref("Till", "a").snapshot().log) == ([5], [])
    rt.runtime.operators.resume(ActorKey(actor_type="Till", actor_id="a"))
    roles.settle()
    assert rt.ref("Till", "a").log == ["paid 5"]


def test_result_for_a_destroyed_actor(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """The end of an effect whose actor was destroyed meanwhile is ignored, and does not make the actor again."""
    outside.answer = lambda context, amount: f"destroyed {rt.ref('Till', 'a').destroy()}"
    rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert outside.amounts == [5]
    assert count(rt, "solid_objects_instances") == 0
    assert count(rt, "solid_objects_effects") == 0


def test_result_for_the_next_incarnation(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """An actor that was destroyed and made again meanwhile hears nothing of its predecessor's effects."""

    def make_anew(context: EffectContext, amount: int) -> str:
        rt.ref("Till", "a").destroy()
        rt.ref("Till", "a").add()
        return "late"

    outside.answer = make_anew
    rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert (rt.ref("Till", "a").log, rt.ref("Till", "a").total) == ([], 1)


def _fails(context: EffectContext, amount: int) -> str:
    raise RuntimeError("outside")
