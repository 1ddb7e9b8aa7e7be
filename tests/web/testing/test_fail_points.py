"""Named steps at which a test fails or holds what it tests."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flask_solid_objects.seams import Checkpoints
from flask_solid_objects.testing import Testing
from tests.web.testing.shop import ShopUnderTest


def test_fail_point_in_an_effect(shop: ShopUnderTest, kit: Testing, cart: Any) -> None:
    """After a crash between the work and its record the effect runs again under the same id."""
    effect_id = cart.pay()
    with kit.fail_at("effect.handled", ConnectionError("down")) as point:
        kit.drain()

    assert ([(effect_id, 1), (effect_id, 2)], 1) == (shop.charged, point.reached)
    assert cart.snapshot().log == ["paid 5"]


def test_fail_point_in_a_turn(kit: Testing, cart: Any) -> None:
    """After a crash of the worker the message runs again, and counts once."""
    cart.add.send()
    with kit.fail_at("turn.handled", ConnectionError, times=2) as point:
        kit.drain()

    assert (point.reached, cart.snapshot().items) == (2, 1)


def test_fail_point_in_a_call(kit: Testing, cart: Any) -> None:
    """In a call the error comes to the caller, and nothing is written."""
    with kit.fail_at("turn.handled", ConnectionError("down")), pytest.raises(ConnectionError, match="down"):
        cart.add()

    assert cart.snapshot().items == 0


def test_fail_point_at_an_unknown_commit(kit: Testing, cart: Any) -> None:
    """A commit whose end is unknown is resolved: the message runs once."""
    cart.add.send()
    with kit.fail_at("claim.acknowledging", OSError("cut off")):
        kit.drain()

    assert cart.snapshot().items == 1


def test_fail_point_that_nothing_reaches(kit: Testing) -> None:
    """A step that nothing reaches is an error that names it."""
    with pytest.raises(AssertionError, match=r"'turn\.handeld'"), kit.fail_at("turn.handeld", ValueError):
        kit.drain()


def test_fail_point_hides_no_error(kit: Testing) -> None:
    """An error of the test itself is not hidden by a step that was not reached."""
    with pytest.raises(KeyError), kit.fail_at("turn.handled", ValueError):
        raise KeyError


def test_fail_point_ends_with_its_block(kit: Testing, cart: Any) -> None:
    """Outside of the block nothing fails: the message that waits runs, and the next one."""
    with kit.fail_at("turn.handled", ConnectionError, times=9), pytest.raises(ConnectionError):
        cart.add()

    assert cart.add() == 2


def test_fail_points_cost_nothing_unless_used(shop: ShopUnderTest, kit: Testing) -> None:
    """An application that sets no fail point keeps its plain checkpoints."""
    kit.drain()

    assert Checkpoints is type(shop.solid.runtime.core.seams.checkpoints)


def test_errors_of_drained_roles_are_the_tests(kit: Testing, cart: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that no fail point raised comes out of the drain."""
    monkeypatch.setattr("flask_solid_objects.runtime.worker.Worker._drain", lambda self, claim: 1 / 0)
    cart.add.send()

    with pytest.raises(ZeroDivisionError):
        kit.drain()


def test_hold(shop: ShopUnderTest, kit: Testing, cart: Any) -> None:
    """A held step lets a test look at what is so meanwhile."""
    results: list[int] = []

    def call() -> None:
        with shop.app.app_context():
            results.append(cart.add())

    thread = threading.Thread(target=call)
    with kit.hold("turn.handled") as held:
        thread.start()
        held.wait_reached()
        before = cart.snapshot().items
    thread.join()

    assert (before, results) == (0, [1])


def test_hold_that_nobody_reaches(kit: Testing) -> None:
    """Waiting for a step that nobody reaches is an error that names it."""
    with kit.hold("turn.handled") as held, pytest.raises(AssertionError, match=r"turn\.handled"):
        held.wait_reached(timeout=0.01)
