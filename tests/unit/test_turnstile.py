"""The gates at which callers of one process admit one after another."""

from __future__ import annotations

import threading

import pytest

from flask_solid_objects.runtime.turnstile import Turnstile
from flask_solid_objects.values import ActorKey

ONE, TWO = ActorKey(actor_type="A", actor_id="1"), ActorKey(actor_type="A", actor_id="2")


def test_one_passes_at_a_time() -> None:
    """Of many threads at one gate, one is inside; all get through; nothing is left behind."""
    turnstile, inside, most = Turnstile(), 0, 0
    guard = threading.Lock()

    def pass_through() -> None:
        nonlocal inside, most
        for _ in range(50):
            with turnstile.at(ONE, 10):
                with guard:
                    inside += 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=pass_through) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (most, len(turnstile)) == (1, 0)


def test_nobody_waits_longer_than_allowed() -> None:
    """Who does not get through in time goes on without, and others' gates are open."""
    turnstile = Turnstile()
    with turnstile.at(ONE, 1), turnstile.at(TWO, 0), turnstile.at(ONE, 0.01), turnstile.at(ONE, -5):
        assert len(turnstile) == 2
    assert len(turnstile) == 0


def test_pass_may_be_given_back_early() -> None:
    """Giving back lets the next one through at once; the end of the block gives back nothing twice."""
    turnstile = Turnstile()
    with turnstile.at(ONE, 1) as first:
        first.give_back()
        first.give_back()
        with turnstile.at(ONE, 0) as second:
            with turnstile.at(ONE, 0) as third:
                third.give_back()
            second.give_back()

    assert len(turnstile) == 0


def test_error_inside_gives_back() -> None:
    """An error of the call does not close the gate."""
    turnstile = Turnstile()
    with pytest.raises(ValueError, match="broken"), turnstile.at(ONE, 1):
        raise ValueError("broken")
    with turnstile.at(ONE, 0):
        assert len(turnstile) == 1
