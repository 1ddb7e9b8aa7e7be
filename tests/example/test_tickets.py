"""What docs/guide-tickets.md says of holds, played: two visitors, forms sent twice, holds that end early and late."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest

from example_app.actors import Event
from tests.example.conftest import EVENT, Example

SIX_MINUTES = timedelta(minutes=6)


@pytest.fixture
def short_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holds that have run out as soon as they are made."""
    monkeypatch.setattr(sys.modules["example_app.actors"], "HOLD_TIME", timedelta(0))


# -- holding a seat ----------------------------------------------------------------------------


def test_a_seat_is_held_for_one(example: Example) -> None:
    """Two visitors press one seat: the first holds it, the second is told."""
    one, two = example.visit(), example.visit()
    one.press("Hold seat A1")
    two.press("Hold seat A1")

    assert "Seat A1 has just been taken." in two.page
    assert one.seat("A1") == "Give back seat A1"
    assert two.seat("A1") == "Seat A1: held"


def test_a_hold_sent_twice_is_one_hold(example: Example) -> None:
    """A double press sends one form twice, and the second time changes nothing."""
    one = example.visit()
    form = one.press("Hold seat A1")
    until = example.event.seats["A1"].until
    one.send(form)

    assert example.event.seats["A1"].until == until
    assert example.event.seats["A1"].hold == 1


def test_an_old_form_takes_no_seat_again(example: Example) -> None:
    """A form that a browser repeats after the seat was given back does not take it again."""
    one = example.visit()
    form = one.press("Hold seat A1")
    one.press("Give back seat A1")
    one.send(form)

    assert one.seat("A1") == "Hold seat A1"


def test_a_seat_may_be_held_once_more(example: Example) -> None:
    """Who has given a seat back may take it again, from the page as it is now."""
    one = example.visit()
    for button in ("Hold seat A1", "Give back seat A1", "Hold seat A1"):
        one.press(button)

    assert one.seat("A1") == "Give back seat A1"


# -- the end of a hold -------------------------------------------------------------------------


def test_a_hold_ends_by_its_reminder(example: Example) -> None:
    """After five minutes the reminder rings and frees the seat."""
    example.visit().press("Hold seat A1")
    rung = example.ring(SIX_MINUTES)
    example.work()

    assert rung == 1
    assert "A1" not in example.event.seats


@pytest.mark.usefixtures("short_holds")
def test_a_hold_ends_without_any_worker(example: Example) -> None:
    """When nothing ran at the deadline, the seat is free for all the same, in every later turn and on every page."""
    one, two = example.visit(), example.visit()
    one.press("Hold seat A1")
    shown = two.seat("A1")
    two.press("Hold seat A1")

    assert shown == "Hold seat A1"
    assert example.event.seats["A1"].hold == 2


def test_a_hold_that_has_ended_cannot_be_paid(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who pays too late is told, though no reminder ran."""
    one = example.visit()
    one.press("Hold seat A1")
    form = one.fill("Buy 1 seat")
    monkeypatch.setattr(sys.modules["example_app.actors"], "HOLD_TIME", timedelta(0))
    with example.app.app_context():
        Event.ref(EVENT).hold(seat="A1", holder=example.event.seats["A1"].holder)

    assert "Your hold has run out." in one.send(form)


@pytest.mark.usefixtures("short_holds")
def test_a_late_end_frees_no_newer_hold(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seat was held anew before a worker came to the end of the old hold: the end does nothing."""
    example.visit().press("Hold seat A1")
    monkeypatch.undo()
    with example.app.app_context():
        Event.ref(EVENT).hold.send(seat="A1", holder="two")
    rung = example.ring()
    example.work()

    assert rung == 1
    assert (example.event.seats["A1"].holder, example.event.seats["A1"].hold) == ("two", 2)


def test_the_end_of_another_hold_is_ignored(example: Example) -> None:
    """The handler compares the number of the hold, whoever sends it."""
    one = example.visit()
    for button in ("Hold seat A1", "Give back seat A1", "Hold seat A1"):
        one.press(button)
    with example.app.app_context():
        freed = Event.ref(EVENT).expire(seat="A1", hold=1)

    assert freed is False
    assert one.seat("A1") == "Give back seat A1"


def test_holding_again_moves_the_end(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """One seat has one reminder: a later hold moves it."""
    one = example.visit()
    one.press("Hold seat A1")
    holder = example.event.seats["A1"].holder
    monkeypatch.setattr(sys.modules["example_app.actors"], "HOLD_TIME", 2 * SIX_MINUTES)
    with example.app.app_context():
        Event.ref(EVENT).hold(seat="A1", holder=holder)

    assert (example.ring(SIX_MINUTES), example.ring(3 * SIX_MINUTES)) == (0, 1)


def test_a_seat_given_back_rings_no_more(example: Example) -> None:
    """Giving a seat back cancels its reminder."""
    one = example.visit()
    one.press("Hold seat A1")
    one.press("Give back seat A1")

    assert example.ring(SIX_MINUTES) == 0
