"""How effects end: completed, rejected or dead, and what their actor hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from flask_solid_objects.errors import NonRetryableError, Rejected
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Outside, Roles, Till
from tests.runtime.outboxes.answers import fails_until, raises
from tests.runtime.outboxes.rows import error_of, execute, find_effect


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=(Till,), max_attempts=3)


def test_dead_after_the_last_attempt(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """After the last attempt the effect is dead, and its actor hears it once."""
    outside.answer = fails_until(9)
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()
    row = find_effect(rt, effect_id)

    assert (row.status, row.attempts, len(outside.calls)) == ("dead", 3, 3)
    assert rt.ref("Till", "a").log == ["declined 5: RuntimeError"]
    assert error_of(rt, effect_id)["outcome"] == "unknown"


def test_non_retryable_is_dead_at_once(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """NonRetryableError ends the effect as dead at the first attempt."""
    outside.answer = raises(NonRetryableError("gone"))
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()
    row = find_effect(rt, effect_id)

    assert (row.status, row.attempts, len(outside.calls)) == ("dead", 1, 1)
    assert error_of(rt, effect_id)["message"] == "gone"
    assert rt.ref("Till", "a").log == ["declined 5: NonRetryableError"]


def test_arguments_that_no_longer_fit_are_dead_at_once(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """An effect whose stored arguments its function no longer takes is dead without having run."""
    effect_id = rt.ref("Till", "a").pay_quietly(amount=5)
    execute(rt, 'UPDATE solid_objects_effects SET arguments = \'{"amount": "x"}\'')
    roles.settle()

    assert (find_effect(rt, effect_id).status, outside.calls) == ("dead", [])
    error = error_of(rt, effect_id)
    assert (error["class"], error["outcome"]) == ("InvalidArguments", "unknown")


def test_rejection_completes(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """Rejected ends the effect as completed with its code and details, and the actor hears a failure."""
    outside.answer = raises(Rejected("declined", "No money.", details={"limit": 3}))
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()
    error = error_of(rt, effect_id)

    assert (find_effect(rt, effect_id).status, len(outside.calls)) == ("completed", 1)
    assert (error["class"], error["code"], error["message"]) == ("Rejected", "declined", "No money.")
    assert (error["outcome"], error["details"]) == ("rejected", {"limit": 3})
    assert rt.ref("Till", "a").log == ["declined 5: Rejected"]


def test_rejection_with_odd_details_completes(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """A rejection whose details cannot be stored still completes, with its code and without them."""
    outside.answer = raises(Rejected("declined", "No.", details={"what": object()}))
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert find_effect(rt, effect_id).status == "completed"
    assert error_of(rt, effect_id)["code"] == "declined"
    assert "details" not in error_of(rt, effect_id)


@pytest.mark.parametrize("result", [object(), 5, "x" * 2_000_000, "\ud800"], ids=["object", "int", "long", "surrogate"])
def test_result_that_cannot_be_stored(rt: RuntimeUnderTest, roles: Roles, outside: Outside, result: Any) -> None:
    """The work was done, so an effect whose result cannot be stored is dead without running again."""
    outside.answer = lambda context, amount: result
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert (find_effect(rt, effect_id).status, len(outside.calls)) == ("dead", 1)
    assert rt.ref("Till", "a").log == [f"declined 5: {error_of(rt, effect_id)['class']}"]
    assert error_of(rt, effect_id)["outcome"] == "done"


def test_error_without_a_text(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """An error whose text holds what no database stores is recorded all the same."""
    outside.answer = raises(NonRetryableError("a\0b\ud800"))
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert find_effect(rt, effect_id).status == "dead"
    assert rt.ref("Till", "a").log == ["declined 5: NonRetryableError"]
