"""What docs/guide-tickets.md says of payments, played: cards that do not work, forms sent twice, crashes in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from example_app import payments
from example_app.actors import Event, solid
from example_app.orders import Order, db
from tests.example.conftest import EVENT, Example
from tests.example.visitors import Filled, Visitor

PRICE = 3200


def buy(one: Visitor, *seats: str, card: str = "works") -> Filled:
    """Hold seats and press Buy."""
    for seat in seats:
        one.press(f"Hold seat {seat}")
    return one.press("Buy 1 seat" if len(seats) == 1 else f"Buy {len(seats)} seats", card=card)


# -- a card that works -------------------------------------------------------------------------


def test_a_paid_seat_is_sold(example: Example) -> None:
    """Seats are being paid until the bank has answered, and sold then."""
    one, two = example.visit(), example.visit()
    buy(one, "A1", "A2")
    meanwhile = (one.seat("A1"), two.seat("A1"))
    example.settle()

    assert meanwhile == ("Seat A1: being paid by you", "Seat A1: held")
    assert (one.seat("A1"), two.seat("A1")) == ("Seat A1: yours", "Seat A1: sold")
    assert example.charged == [2 * PRICE]


def test_a_seat_that_is_being_paid_does_not_expire(example: Example) -> None:
    """Pressing Buy cancels the reminder: a slow bank costs nobody a seat."""
    one = example.visit()
    buy(one, "A1")

    assert example.ring(timedelta(hours=1)) == 0
    assert one.seat("A1") == "Seat A1: being paid by you"


def test_a_sale_has_its_order(example: Example) -> None:
    """The sale writes a row of the shop's own table, which its buyer sees and nobody else."""
    one, two = example.visit(), example.visit()
    buy(one, "A1", "A2")
    before = example.orders
    example.settle()

    assert (before, example.orders) == ([], [("A1, A2", 2 * PRICE)])
    assert "A1, A2" in one.look("/orders")
    assert "Nothing yet" in two.look("/orders")


def test_an_order_that_cannot_be_written_sells_nothing(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order, seats and the line of the ledger are one commit: without the order there is none of them."""
    monkeypatch.setattr(payments, "charge", lambda *_, **__: "R-1")
    with example.app.app_context():
        db.session.add(Order(event_id="", holder="", seats="", cents=0, receipt="R-1", sold_at=datetime.now(UTC)))
        db.session.commit()
    one = example.visit()
    buy(one, "A1")
    example.settle()

    assert one.seat("A1") == "Seat A1: being paid by you"
    assert example.orders == [("", 0)]
    assert example.ledger == ["The event is on sale."]


def test_a_sale_has_one_line_in_the_ledger(example: Example) -> None:
    """The line is a message from actor to actor: it comes once, though its delivery was interrupted."""
    buy(example.visit(), "A1")
    with example.app.app_context(), solid.testing.fail_at("deliver.acknowledging", ConnectionError("down")):
        solid.testing.drain()
    example.settle()

    assert example.ledger == ["The event is on sale.", "Sold A1."]


# -- forms sent twice --------------------------------------------------------------------------


def test_buying_twice_by_one_form_charges_once(example: Example) -> None:
    """A double press on Buy is one message, one charge and one order, and nobody is told of a problem."""
    one = example.visit()
    form = buy(one, "A1")
    page = one.send(form)
    example.settle()
    one.send(form)
    example.settle()

    assert "notice problem" not in page + one.page
    assert example.charged == [PRICE]
    assert example.orders == [("A1", PRICE)]


def test_one_form_pays_with_one_card(example: Example) -> None:
    """The same form with another card is told so, and charges nothing."""
    one = example.visit()
    form = buy(one, "A1")
    page = one.send(Filled(form.action, {**form.data, "card": "slow"}))
    example.settle()

    assert "being paid with another card" in page
    assert example.charged == [PRICE]


def test_another_page_cannot_pay_again(example: Example) -> None:
    """A form without the key of the first, while that one is being paid, is told so."""
    one = example.visit()
    form = buy(one, "A1")
    page = one.send(Filled(form.action, {**form.data, "key": ""}))
    example.settle()

    assert "Your seats are being paid already." in page
    assert example.charged == [PRICE]


# -- cards that do not work --------------------------------------------------------------------


def test_a_declined_card_frees_the_seats(example: Example) -> None:
    """The visitor is told, nothing is sold or charged, and somebody else can have the seat."""
    one, two = example.visit(), example.visit()
    buy(one, "A1", card="declined")
    example.settle()

    assert "The card was declined." in one.look()
    assert two.seat("A1") == "Hold seat A1"
    assert (example.charged, example.orders) == ([], [])


def test_another_card_may_be_tried(example: Example) -> None:
    """After a declined card the seat can be held and bought with another one."""
    one = example.visit()
    buy(one, "A1", card="declined")
    example.settle()
    one.look()
    buy(one, "A1")
    example.settle()

    assert one.seat("A1") == "Seat A1: yours"
    assert "The card was declined." not in one.page


def test_a_bank_that_is_away_is_asked_again(example: Example) -> None:
    """An error is no answer: the charge is tried again."""
    one = example.visit()
    buy(one, "A1", card="slow")
    example.settle()

    assert one.seat("A1") == "Seat A1: yours"
    assert example.charged == [PRICE]


def test_a_bank_that_never_answers_keeps_no_money(example: Example) -> None:
    """After four tries the payment is given up; the money may have been taken, so it is asked back."""
    one = example.visit()
    buy(one, "A1", card="silent")
    example.effects.run_once()
    taken = example.charged
    example.settle()

    assert (taken, example.charged) == ([PRICE], [])
    assert one.seat("A1") == "Hold seat A1"
    assert "The bank did not answer. Nothing will be charged." in one.page


def test_a_charge_that_comes_too_late_is_asked_back(example: Example) -> None:
    """An operator repeats a charge that was given up: its seats are gone, so the money goes back."""
    payments.charge(example.app.instance_path, card="works", cents=PRICE, key="late")
    with example.app.app_context():
        Event.ref(EVENT).paid(effect_id="late", result="R-late")
    example.settle()

    assert (example.charged, example.orders) == ([], [])


def test_a_charge_asked_back_is_not_made_again(example: Example) -> None:
    """An operator repeats a charge after it was asked back: the bank refuses it."""
    one = example.visit()
    buy(one, "A1", card="silent")
    example.settle()
    repeated = example.repeat_dead_effects()
    example.settle()

    assert repeated == 1
    assert (example.charged, example.orders) == ([], [])
    assert one.seat("A1") == "Hold seat A1"


# -- crashes -----------------------------------------------------------------------------------


def test_an_effect_that_fails_after_the_charge_charges_once(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """The charge was made and its answer lost: the second try has the same id, so it is the same charge."""
    charge, keys = payments.charge, list[str]()

    def lose_first(*args: Any, **options: Any) -> str:
        receipt = charge(*args, **options)
        keys.append(options["key"])
        if len(keys) == 1:
            raise ConnectionError("The answer was lost.")
        return receipt

    monkeypatch.setattr(payments, "charge", lose_first)
    buy(example.visit(), "A1")
    example.settle()

    assert (len(keys), len(set(keys))) == (2, 1)
    assert example.charged == [PRICE]
    assert example.orders == [("A1", PRICE)]


@pytest.mark.parametrize("step", ["effect.claimed", "effect.handled", "end_effect.committing", "turn.handled"])
def test_a_process_may_die_anywhere(example: Example, step: str) -> None:
    """Before and after the charge, before its record, in the turn that sells: one charge, one order, one line."""
    example.work()
    buy(example.visit(), "A1")
    with example.app.app_context(), solid.testing.fail_at(step, SystemError("killed")):
        solid.testing.drain()
    example.settle()

    assert example.charged == [PRICE]
    assert example.orders == [("A1", PRICE)]
    assert example.ledger == ["The event is on sale.", "Sold A1."]
