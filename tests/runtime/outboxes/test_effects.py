"""Effects: emitted with the commit, run after it, tried again, and ended as completed or dead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.attribute import attribute
from flask_solid_objects.actors.observable import observable
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.errors import (
    ActorCallCycle,
    MessageFailed,
    Rejected,
    StagingUnavailable,
)
from flask_solid_objects.values import EffectContext, MessageStatus
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Outside, Roles, Till, charge
from tests.runtime.outboxes.answers import fails_until
from tests.runtime.outboxes.rows import count, error_of, execute, find_effect

EFFECTS_TABLE = "solid_objects_effects"


class Refuser(Actor):
    """Emits where nothing may come of it."""

    emits: bool = attribute(False, observable=True)

    @observable
    def shown(self) -> str:
        return charge.emit(amount=1) if self.emits else ""

    @operation
    def emit_and_reject(self) -> None:
        charge.emit(amount=1)
        raise Rejected("no", "No.")

    @operation
    def emit_when_observed(self) -> None:
        self.emits = True

    @operation
    def run_itself(self) -> None:
        charge(EffectContext(**_CONTEXT), amount=1)


_CONTEXT: dict[str, Any] = {
    "id": "x",
    "name": "charge",
    "attempt": 1,
    "max_attempts": 1,
    "source_message_id": 1,
    "actor_type": "Refuser",
    "actor_id": "a",
    "enqueued_at": None,
}


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=(Till, Refuser), max_attempts=3)


# -- emitting ----------------------------------------------------------------------------------


def test_emitted_with_the_commit(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """An effect is stored with the turn that emits it, runs later, and its actor hears the result."""
    [effect_id] = rt.ref("Till", "a").pay(amount=5)

    assert (find_effect(rt, effect_id).status, outside.amounts) == ("pending", [])
    roles.settle()
    assert outside.amounts == [5]
    assert rt.ref("Till", "a").log == ["paid 5"]
    assert (find_effect(rt, effect_id).status, find_effect(rt, effect_id).result) == ("completed", '"paid 5"')


def test_order_of_emits_is_the_order_of_runs(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """Effects of one turn that are due at once are run by one worker in the order in which they were emitted."""
    rt.ref("Till", "a").pay(amount=1, times=5)
    roles.settle()

    assert outside.amounts == [1, 2, 3, 4, 5]


def test_failed_turn_emits_nothing(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """A turn that raises after the emit leaves no effect, at none of its attempts."""
    with pytest.raises(MessageFailed):
        rt.ref("Till", "a").pay_and_raise(amount=1)
    roles.settle()

    assert (count(rt, EFFECTS_TABLE), outside.calls) == (0, [])


def test_rejected_turn_emits_nothing(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """A turn that says no after the emit leaves no effect."""
    with pytest.raises(Rejected):
        rt.ref("Refuser", "a").emit_and_reject()
    roles.settle()

    assert (count(rt, EFFECTS_TABLE), outside.calls) == (0, [])


def test_query_emits_nothing(rt: RuntimeUnderTest) -> None:
    """A query that emits is QueryMutatedState."""
    with pytest.raises(MessageFailed) as raised:
        rt.ref("Till", "a").emit_in_query()

    assert raised.value.details["class"] == "QueryMutatedState"
    assert count(rt, EFFECTS_TABLE) == 0


def test_query_that_emits_is_not_tried_again(rt: RuntimeUnderTest) -> None:
    """A query that emits is dead at its first attempt."""
    with pytest.raises(MessageFailed):
        rt.ref("Till", "a").emit_in_query()

    assert [letter.attempts for letter in rt.runtime.operators.dead_letters()] == [1]


def test_observable_emits_nothing(rt: RuntimeUnderTest) -> None:
    """A turn whose observable emits is dead at its first attempt, as QueryMutatedState."""
    message = rt.ref("Refuser", "a").emit_when_observed.send()
    rt.drain()

    assert (message.status(), message.outcome().attempts) == (MessageStatus.DEAD, 1)
    assert message.outcome().error["class"] == "QueryMutatedState"
    assert count(rt, EFFECTS_TABLE) == 0


def test_emit_outside_of_a_turn() -> None:
    """Outside of a turn there is nothing that an effect could commit with."""
    with pytest.raises(StagingUnavailable):
        charge.emit(amount=1)


def test_turn_cannot_run_an_effect_itself(rt: RuntimeUnderTest, outside: Outside) -> None:
    """An operation that calls the function of an effect is told to emit it."""
    with pytest.raises(MessageFailed) as raised:
        rt.ref("Refuser", "a").run_itself()

    assert ActorCallCycle.__name__ == raised.value.details["class"]
    assert outside.calls == []


# -- attempts ----------------------------------------------------------------------------------


def test_id_is_stable(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """All attempts have the id that emit() returned, and count from one."""
    outside.answer = fails_until(3)
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert outside.ids == [effect_id] * 3
    assert [(context.attempt, context.max_attempts) for context, _ in outside.calls] == [(1, 3), (2, 3), (3, 3)]
    assert rt.ref("Till", "a").log == ["paid 5"]


def test_context_names_its_source(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """The context says which actor and which message emitted the effect."""
    message = rt.ref("Till", "a").pay.send(amount=5)
    roles.settle()
    context = outside.calls[0][0]

    assert (context.actor_type, context.actor_id, context.name) == ("Till", "a", "charge")
    assert context.source_message_id == message.id


def test_retries_back_off(make_runtime: MakeRuntime, make_roles: Callable[..., Roles], outside: Outside) -> None:
    """After an attempt that failed the effect waits for the retry delay of that attempt, and is pending."""
    outside.answer = fails_until(9)
    rt = make_runtime(own=(Till,), retry_delay=lambda attempt: 1000.0 * attempt)
    roles = make_roles(rt)
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()
    row = find_effect(rt, effect_id)

    assert (row.status, row.attempts, len(outside.calls)) == ("pending", 1, 1)
    assert timedelta(seconds=890) <= row.available_at - row.updated_at <= timedelta(seconds=1110)
    assert error_of(rt, effect_id)["class"] == "RuntimeError"


def test_delay_counts_from_the_commit(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """An effect with a delay waits as pending until it is due."""
    effect_id = rt.ref("Till", "a").pay_quietly(amount=5, delay=1000.0)
    roles.settle()

    row = find_effect(rt, effect_id)
    assert (row.status, outside.calls) == ("pending", [])
    assert timedelta(seconds=999) <= row.available_at - row.created_at <= timedelta(seconds=1001)
    execute(rt, f"UPDATE {EFFECTS_TABLE} SET available_at = '2020-01-01 00:00:00.000000'")
    roles.settle()
    assert outside.amounts == [5]


def test_max_attempts_of_the_emit(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """The option of .using() comes before the setting."""
    outside.answer = fails_until(9)
    rt.ref("Till", "a").pay_quietly(amount=5, attempts=2)
    roles.settle()

    assert len(outside.calls) == 2
