"""What a page costs: so many statements whatever there is, each of them limited, and an answer when one is too slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flask_solid_objects.store.transaction import Transaction
from tests.counting import StatementCounter
from tests.store.test_bounded_reads import run, slow
from tests.web.dashboard.routes import FORMS, PAGES
from tests.web.dashboard.site import Browser, DashboardSite, fill
from tests.web.dashboard.test_paging import fill_lists

# Of the most expensive page, with the two that set and lift the limit.
_MOST = 20


@pytest.fixture
def counted(site: DashboardSite) -> Iterator[StatementCounter]:
    counter = StatementCounter(site.solid.runtime.core.database.engine)
    yield counter
    counter.close()


def costs(counted: StatementCounter, browser: Browser, ids: dict[str, Any]) -> dict[str, int]:
    """How many statements each page takes, the second time it is asked for."""
    found = {}
    for each in PAGES + FORMS:
        path = each.at(ids).path
        browser.get(path)
        with counted.measure() as measured:
            assert browser.get(path).status_code == 200
        found[each.path] = measured.statements
    return found


def test_statements(site: DashboardSite, browser: Browser, counted: StatementCounter) -> None:
    """Each page takes the same number of statements with few rows as with many."""
    ids = fill(site)
    few = costs(counted, browser, ids)
    fill_lists(site)
    many = costs(counted, browser, ids)

    assert many == few
    assert max(few.values()) <= _MOST


def test_parts_cost_no_more(site: DashboardSite, browser: Browser, counted: StatementCounter) -> None:
    """A refetch takes as many statements as the page."""
    fill(site)
    for path in ("/", "/actor?type=Account&id=a"):
        found = set()
        for headers in ({}, {"HX-Request": "true"}):
            browser.get(path, **headers)
            with counted.measure() as measured:
                browser.get(path, **headers)
            found.add(measured.statements)
        assert len(found) == 1


@pytest.fixture
def config() -> dict[str, Any]:
    return {"SOLID_OBJECTS_DASHBOARD_STATEMENT_TIMEOUT": 0.3}


def test_too_slow(site: DashboardSite, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page whose statement is ended says so with 503, and the next one is there."""
    core = site.solid.runtime.core

    def read(tx: Transaction) -> Any:
        return run(tx, slow(core.database))

    with monkeypatch.context() as patched:
        patched.setattr(core.store.overviews, "read", read)
        answer = browser.get("/")
        assert (answer.status_code, "Not now" in answer.text) == (503, True)
        assert browser.get("/metrics").status_code == 503
    assert browser.get("/").status_code == 200


def test_every_page_is_limited(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """No page reads without a limit, however it comes to its rows."""
    core, limited = site.solid.runtime.core, []
    plain, within = core.database.read, core.database.read_within

    def read(work: Any, **options: Any) -> Any:
        limited.append("deadline" in options)
        return plain(work, **options)

    core.database.read = read  # type: ignore[method-assign]
    try:
        for each in PAGES + FORMS:
            limited.clear()
            browser.get(each.at(ids).path)
            assert (each.path, all(limited)) == (each.path, True)
    finally:
        del core.database.read  # type: ignore[method-assign]
    assert core.database.read_within == within
