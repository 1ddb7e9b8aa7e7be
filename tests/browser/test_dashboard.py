"""The dashboard in a real browser: under its own policy, by keyboard, on a phone, and left alone while it is used."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import URL
from werkzeug.serving import make_server

from tests.browser.conftest import Visitors
from tests.web.dashboard.routes import FORMS, PAGES
from tests.web.dashboard.site import PREFIX, DashboardSite, fill

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_ACTOR = f"{PREFIX[1:]}/actor?type=Account&id=a"
# More than the five seconds between two refetches.
_REFETCH = 5_500


class Served:
    """A filled site on SQLite, served in threads."""

    def __init__(self, site: DashboardSite, ids: dict[str, Any], visitors: Visitors) -> None:
        self.site, self.ids, self._visitors = site, ids, visitors
        self.url = visitors._url

    def visit(self, path: str, *, width: int = 1200, still: bool = False) -> Page:
        """Open a page; in one that is ``still`` time passes only when the test says so."""
        page = self._visitors.blank()
        page.set_viewport_size({"width": width, "height": 800})
        if still:
            page.clock.install()
        page.request.get(f"{self.url}/login/olga")
        page.goto(f"{self._visitors._url}/{path}")
        return page


@pytest.fixture
def served(browser: Browser, tmp_path: Path) -> Iterator[Served]:
    site = DashboardSite(URL.create("sqlite", database=str(tmp_path / "dashboard.sqlite3")))
    with site.ready():
        ids = fill(site)
        server = make_server("127.0.0.1", 0, site.app, threaded=True)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        visitors = Visitors(browser, f"http://127.0.0.1:{server.server_port}")
        yield Served(site, ids, visitors)
        visitors.close()
        server.shutdown()
        thread.join(20)
        server.server_close()

    assert visitors.unexpected() == []


@pytest.mark.parametrize("width", [1200, 360])
def test_pages(served: Served, width: int) -> None:
    """No page breaks its own policy, nor is any wider than its window."""
    page = served.visit(_ACTOR, width=width)
    for each in (each for each in PAGES + FORMS if each.endpoint != "metrics"):
        page.goto(f"{served.url}{PREFIX}{each.at(served.ids).path}")
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

        assert (each.path, over) == (each.path, 0)
        assert page.locator("h1").is_visible()


def test_keyboard(served: Served) -> None:
    """Pausing, opening a form and destroying with a typed id need no mouse."""
    page = served.visit(_ACTOR)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=It starts no more turns")
    page.locator("summary", has_text="Destroy").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("a")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=is destroyed")

    assert [act[0] for act in served.site.acts()] == ["actor.pause", "actor.destroy"]


def test_follows(served: Served) -> None:
    """The page shows what happens meanwhile, and what was typed stays when nothing is refetched."""
    page = served.visit(_ACTOR, still=True)
    served.site.Account.ref("a").pay(cents=1000)
    before = page.locator(".timeline li").count()
    page.clock.run_for(_REFETCH)
    page.wait_for_function("n => document.querySelectorAll('.timeline li').length > n", arg=before)

    assert "1003" in page.locator("pre").first.inner_text()


def test_is_left_alone(served: Served) -> None:
    """While a form is open, or the switch is off, nothing is asked; the switch is remembered."""
    page, asked = served.visit(_ACTOR, still=True), list[str]()
    page.on("request", lambda request: asked.append(request.url) if "/actor?" in request.url else None)
    page.locator("summary", has_text="Destroy").click()
    page.locator("input[name=confirmation]").fill("a")
    page.clock.run_for(3 * _REFETCH)
    assert (asked, page.locator("input[name=confirmation]").input_value()) == ([], "a")

    page.locator("summary", has_text="Destroy").click()
    page.locator("#live").uncheck()
    page.locator("h1").click()
    page.clock.run_for(3 * _REFETCH)
    assert asked == []
    page.reload()
    assert not page.locator("#live").is_checked()
    asked.clear()
    page.clock.run_for(_REFETCH)
    assert asked == []
    page.locator("#live").check()
    page.locator("h1").click()
    with page.expect_request(lambda request: "/actor?" in request.url):
        page.clock.run_for(_REFETCH)


@pytest.mark.parametrize("text", ["\nfirst\r\nsecond\n", "\n\nfirst\nsecond\n", ""])
def test_line_breaks(served: Served, text: str) -> None:
    """What a browser does with the line breaks of a text changes nothing in the arguments."""
    served.site.Account.ref("a").fail.send(text=text)
    served.site.drain()
    letter = served.site.rows("SELECT max(id) FROM solid_objects_dead_letters")[0][0]
    page = served.visit(f"{PREFIX[1:]}/dead-letters/{letter}/edit")
    page.get_by_role("button", name="Send", exact=True).click()
    page.wait_for_selector("text=It was sent again")
    stored = served.site.rows("SELECT arguments FROM solid_objects_messages ORDER BY id DESC LIMIT 2")

    assert stored[0] == stored[1]
