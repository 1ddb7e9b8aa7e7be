"""Fixtures of the tests of ``solid.testing``: an app on every database, its helpers, a cart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL

from flask_solid_objects.testing import Testing
from tests.web.testing.shop import ShopUnderTest


@pytest.fixture
def shop(database_url: URL) -> Iterator[ShopUnderTest]:
    with ShopUnderTest(database_url).ready(made=True) as ready:
        yield ready


@pytest.fixture
def kit(shop: ShopUnderTest) -> Testing:
    return shop.solid.testing


@pytest.fixture
def cart(shop: ShopUnderTest) -> Any:
    return shop.Cart.ref("a")


@pytest.fixture
def slow_shop(database_url: URL) -> Iterator[ShopUnderTest]:
    """An app whose retries wait for an hour."""
    with ShopUnderTest(database_url, SOLID_OBJECTS_RETRY_DELAY=lambda attempt: 3600.0).ready(made=True) as ready:
        yield ready
