"""A site on each database, served, and pages of it that are closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import URL

from flask_solid_objects.seams import Seams
from tests.web.live.site import Page, Site


@pytest.fixture
def config() -> dict[str, object]:
    """Settings of the site beside its own."""
    return {}


@pytest.fixture
def site(database_url: URL, seams: Seams, config: dict[str, object]) -> Iterator[Site]:
    with Site(database_url, seams, **config).ready() as made:
        yield made


@pytest.fixture
def open_page(site: Site) -> Iterator[Callable[[str], Page]]:
    """Opens pages with a socket that has been greeted."""
    made: list[Page] = []
    with site.served() as port:

        def make(user: str) -> Page:
            page = Page(site, user, port)
            made.append(page)
            page.open()
            return page

        yield make
        for page in made:
            page.close()
