"""What an actor is told that asks about one of its effects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.errors import NonRetryableError
from flask_solid_objects.values import EffectContext
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Outside, Roles, charge
from tests.runtime.outboxes.dying import Crashing
from tests.runtime.outboxes.rows import count, execute, find_effect


class Asker(Actor):
    """Emits with on_status, asks, and notes all that the answer may name."""

    heard: list[Any] = []

    @operation
    def begin(self, recovers: bool = False) -> str:
        return charge.using(
            on_status=self.told, on_recovery=self.told if recovers else None, on_success=self.told
        ).emit(amount=5)

    @operation
    def begin_untold(self) -> str:
        return charge.emit(amount=5)

    @operation
    def inquire(self, effect_id: str, here: bool = False) -> None:
        (charge.using(on_status=self.told_here) if here else charge).request_status(effect_id)

    @operation
    def told(
        self, effect_id: str, outcome: str = "", result: str | None = None, arguments: dict[str, Any] | None = None
    ) -> None:
        self.heard.append([outcome, result, arguments])

    @operation
    def told_here(self, outcome: str) -> None:
        self.heard.append(outcome)


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=(Asker,), max_attempts=2)


@pytest.fixture
def crashing(rt: RuntimeUnderTest, make_runtime: MakeRuntime, make_roles: Callable[..., Roles]) -> Crashing:
    return Crashing(make_roles(make_runtime(own=(Asker,))), make_roles(rt))


def test_status_of_a_completed_effect(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """A completed effect is answered with its arguments and its result."""
    effect_id = rt.ref("Asker", "a").begin()
    crashing.alive.settle()

    assert _answers(rt, crashing, effect_id) == [["completed", "paid 5", {"amount": 5}]]


def test_status_of_a_pending_effect(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """An effect that has not begun is pending."""
    effect_id = rt.ref("Asker", "a").begin()
    execute(rt, "UPDATE solid_objects_effects SET available_at = '2100-01-01 00:00:00.000000'")

    assert _answers(rt, crashing, effect_id) == [["pending", None, None]]


@pytest.mark.parametrize("recovers", [False, True])
def test_status_of_a_running_effect(rt: RuntimeUnderTest, crashing: Crashing, recovers: bool) -> None:
    """An effect that a living process runs is deferred."""
    effect_id = rt.ref("Asker", "a").begin(recovers=recovers)
    crashing.claim()

    assert _answers(rt, crashing, effect_id) == [["deferred", None, None]]


def test_status_of_an_effect_that_will_run_again(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """An effect of a silent process that did not opt in is deferred: it may still run."""
    effect_id = rt.ref("Asker", "a").begin()
    crashing.claim()
    crashing.silence()
    _ask(rt, crashing, effect_id)

    assert rt.ref("Asker", "a").snapshot().heard[:1] == [["deferred", None, None]]


def test_status_of_a_dead_effect(rt: RuntimeUnderTest, crashing: Crashing, outside: Outside) -> None:
    """An effect that failed for good is dead."""
    outside.answer = _fails_for_good
    effect_id = rt.ref("Asker", "a").begin()
    crashing.alive.settle()

    assert _answers(rt, crashing, effect_id) == [["dead", None, None]]


def test_status_of_an_abandoned_effect(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """A question about an abandoned effect retires it: the recovery is told, and the answer says retired."""
    effect_id = rt.ref("Asker", "a").begin(recovers=True)
    crashing.claim()
    crashing.silence()
    _ask(rt, crashing, effect_id)

    assert rt.ref("Asker", "a").snapshot().heard == [["retired", None, {"amount": 5}], ["retired", None, None]]
    assert find_effect(rt, effect_id).status == "completed"


def test_status_of_a_retired_effect(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """A later question about a retired effect is answered with already_retired, and tells the recovery no more."""
    effect_id = rt.ref("Asker", "a").begin(recovers=True)
    crashing.claim()
    crashing.silence()
    crashing.recover()
    crashing.alive.settle()

    assert _answers(rt, crashing, effect_id) == [["already_retired", None, None]]


def test_status_of_a_pruned_effect(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """An effect whose row is gone is missing, told to the callback that its binding still has."""
    effect_id = rt.ref("Asker", "a").begin()
    crashing.alive.settle()
    execute(rt, "DELETE FROM solid_objects_effects WHERE name = 'charge'")

    assert _answers(rt, crashing, effect_id) == [["missing", None, None]]


def test_status_of_an_unknown_effect(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """An id that was never emitted is missing, told to the callback of the question."""
    rt.ref("Asker", "a").inquire(effect_id="3b1f8c1e-0000-4000-8000-000000000000", here=True)
    crashing.alive.settle()

    assert rt.ref("Asker", "a").heard == ["missing"]


def test_status_of_another_actors_effect(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """An effect of another actor is missing: nobody learns of it."""
    effect_id = rt.ref("Asker", "b").begin()
    crashing.alive.settle()
    rt.ref("Asker", "a").inquire(effect_id=effect_id, here=True)
    crashing.alive.settle()

    assert rt.ref("Asker", "a").heard == ["missing"]


@pytest.mark.parametrize("effect_id", ["x", "not a uuid at all", "x" * 300, "a\u00e9"])
def test_status_of_what_is_no_id(rt: RuntimeUnderTest, crashing: Crashing, effect_id: str) -> None:
    """Text that is no id of an effect is missing, and stops nobody."""
    rt.ref("Asker", "a").inquire(effect_id=effect_id, here=True)
    crashing.alive.settle()

    assert rt.ref("Asker", "a").heard == ["missing"]


def test_question_without_a_callback(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """A question that nobody could hear the answer of is dead, with the remedy, and stops nobody."""
    effect_id = rt.ref("Asker", "a").begin_untold()
    crashing.alive.settle()
    rt.ref("Asker", "a").inquire(effect_id=effect_id)
    crashing.alive.settle()
    with rt.database.engine.connect() as connection:
        [error] = connection.exec_driver_sql("SELECT error FROM solid_objects_effects WHERE status = 'dead'").scalars()
    document = json.loads(error) if isinstance(error, str) else error

    assert "on_status=" in document["message"]
    assert count(rt, "solid_objects_effects", "status = 'pending'") == 0


def test_callback_of_the_question_comes_first(rt: RuntimeUnderTest, crashing: Crashing) -> None:
    """on_status= of the question is told instead of the one of the emit."""
    effect_id = rt.ref("Asker", "a").begin()
    crashing.alive.settle()
    rt.ref("Asker", "a").inquire(effect_id=effect_id, here=True)
    crashing.alive.settle()

    assert rt.ref("Asker", "a").heard[1:] == ["completed"]


def _ask(rt: RuntimeUnderTest, crashing: Crashing, effect_id: str) -> None:
    """Ask, and deliver the answer without letting the effect role look for abandoned effects by itself."""
    rt.ref("Asker", "a").inquire(effect_id=effect_id)
    crashing.alive.effects._recover = lambda: None  # type: ignore[method-assign]
    crashing.alive.settle()


def _answers(rt: RuntimeUnderTest, crashing: Crashing, effect_id: str) -> list[Any]:
    """What the actor heard of its question."""
    before = len(rt.ref("Asker", "a").snapshot().heard)
    _ask(rt, crashing, effect_id)
    return list(rt.ref("Asker", "a").snapshot().heard[before:])


def _fails_for_good(context: EffectContext, amount: int) -> str:
    raise NonRetryableError("outside")
