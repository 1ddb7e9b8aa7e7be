"""Effects that are not executed: what was emitted, and how a test lets them end."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import URL

from flask_solid_objects.errors import NonRetryableError, Rejected
from flask_solid_objects.testing import Testing
from tests.web.testing.shop import ShopUnderTest


def test_fake_effects_run_nothing(shop: ShopUnderTest, kit: Testing, cart: Any) -> None:
    """Effects that are not answered are listed and stay pending, until the block is over."""
    with kit.fake_effects() as fake:
        effect_id = cart.pay(cents=7)
        cart.tell(other="b")
        kit.drain()
        emitted, charged = fake.emitted, list(shop.charged)
    kit.drain()

    assert [("charge", {"cents": 7}, effect_id, "Cart", "a")] == emitted
    assert ([], [(effect_id, 1)]) == (charged, shop.charged)


def test_fake_effects_list_in_order(shop: ShopUnderTest, kit: Testing, cart: Any) -> None:
    """What was emitted in the block is listed in order, and nothing from before."""
    cart.write_to(to="before")
    with kit.fake_effects() as fake:
        cart.pay(cents=1)
        cart.write_to(to="x")
        shop.Cart.ref("b").pay(cents=2)

        assert [(each.name, each.arguments) for each in fake.emitted] == [
            ("charge", {"cents": 1}),
            ("mail", {"to": "x"}),
            ("charge", {"cents": 2}),
        ]


def test_fake_effects_answer(shop: ShopUnderTest, kit: Testing, cart: Any) -> None:
    """A result takes the ordinary way: the effect ends and its actor hears of it."""
    with kit.fake_effects() as fake:
        cart.pay()
        cart.write_to(to="x")
        fake.answer(shop.charge, result="a receipt")
        kit.drain()

    assert (cart.snapshot().log, shop.charged) == (["a receipt"], [])


@pytest.mark.parametrize("error", [Rejected("declined", "no money"), NonRetryableError("no money")], ids=["no", "dead"])
def test_fake_effects_answer_with_an_error(shop: ShopUnderTest, kit: Testing, cart: Any, error: Exception) -> None:
    """An error is raised in the place of the function."""
    with kit.fake_effects() as fake:
        fake.answer(shop.charge, error=error)
        cart.pay()
        kit.drain()

    assert cart.snapshot().log == ["declined: no money"]


def test_fake_effects_answer_anew(slow_shop: ShopUnderTest) -> None:
    """The last answer counts, for an effect that has failed before as well."""
    cart, kit = slow_shop.Cart.ref("a"), slow_shop.solid.testing
    with kit.fake_effects() as fake:
        fake.answer(slow_shop.charge, error=ConnectionError("away"))
        cart.pay()
        kit.drain()
        fake.answer(slow_shop.charge, result="at last")
        kit.drain(skip_backoff=True)

    assert cart.snapshot().log == ["at last"]


def test_fake_effects_are_of_one_extension(shop: ShopUnderTest, kit: Testing) -> None:
    """Another extension of the same process runs its effects."""
    with ShopUnderTest(URL.create("sqlite", database=":memory:")).ready() as other, kit.fake_effects():
        other.Cart.ref("a").pay()
        other.solid.testing.drain()

        assert len(other.charged) == 1


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (lambda shop, fake: fake.answer(print), TypeError),
        (lambda shop, fake: fake.answer(shop.charge, result="x", error=ValueError()), TypeError),
        (lambda shop, fake: fake.answer(_foreign(), result=None), ValueError),
    ],
    ids=["no effect", "both", "foreign"],
)
def test_fake_effects_wrong_answers(shop: ShopUnderTest, kit: Testing, how: Any, error: type[Exception]) -> None:
    """An answer is for an effect of this application, and is a result or an error."""
    with kit.fake_effects() as fake, pytest.raises(error):
        how(shop, fake)


def _foreign() -> Any:
    return ShopUnderTest(URL.create("sqlite", database=":memory:")).charge
