"""A dashboard on each database, filled or not, and an operator's browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL

from tests.web.dashboard.site import Browser, DashboardSite, fill


@pytest.fixture
def config() -> dict[str, Any]:
    """Settings of the site beside its own."""
    return {}


@pytest.fixture
def site(database_url: URL, config: dict[str, Any]) -> Iterator[DashboardSite]:
    made = DashboardSite(database_url, **config)
    with made.ready(made=True):
        yield made


@pytest.fixture
def ids(site: DashboardSite) -> dict[str, Any]:
    """One row of each kind is there; their ids by name."""
    return fill(site)


@pytest.fixture
def browser(site: DashboardSite) -> Browser:
    return Browser(site)
