"""The example in a real browser with the real server and every role: what two visitors see of each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from markupsafe import Markup
from werkzeug.serving import make_server

from example_app import create_app, seed
from example_app.actors import Event, solid
from flask_solid_objects.runtime.runtime import RoleCounts
from tests.browser.conftest import Visitors

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HTMX = {"htmx4": "vendor/htmx-4.0.1.min.js", "htmx2": "vendor/htmx-2.0.11.min.js"}
# htmx 2 adds a style of its own unless a meta tag forbids it.
CALM = '<meta name="htmx-config" content=\'{"includeIndicatorStyles":false}\'>'


class Shop:
    """The example, served with its roles, and its visitors."""

    def __init__(self, visitors: Visitors, app: Any) -> None:
        self.app, self._visitors = app, visitors
        self._count = 0

    def visit(self, path: str = "", *, live: bool = True) -> Page:
        """Open a page as a visitor of its own, with its socket open when it has live parts."""
        self._count += 1
        page = self._visitors.open(path, user=f"visitor {self._count}")
        if live:
            wait_until_live(page)
        return page


def wait_until_live(page: Page) -> None:
    page.wait_for_function("() => window.heard.some(each => each.event === 'open')")


@pytest.fixture(params=sorted(HTMX))
def shop(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[Shop]:
    """The example on a SQLite file, with each htmx."""
    app = create_app({"SQLALCHEMY_DATABASE_URI": f"sqlite:///{tmp_path / 'shop.sqlite3'}"})
    app.instance_path = str(tmp_path)
    scripts = app.extensions["solid_objects"].live._scripts
    app.jinja_env.globals["solid_scripts"] = lambda: Markup(CALM) + scripts(htmx=HTMX[request.param])
    with app.app_context():
        seed()
        runtime = solid.runtime
    supervisor = runtime.supervisor(RoleCounts())
    server = make_server("127.0.0.1", 0, app, threaded=True)
    server.daemon_threads = True
    threads = [threading.Thread(target=run) for run in (supervisor.run, server.serve_forever)]
    for thread in threads:
        thread.start()
    visitors = Visitors(browser, f"http://127.0.0.1:{server.server_port}")
    yield Shop(visitors, app)
    visitors.close()
    supervisor.stop()
    with app.app_context():
        runtime.close()
        server.shutdown()
        for thread in threads:
            thread.join(20)
        server.server_close()
        for engine in app.extensions["sqlalchemy"].engines.values():
            engine.dispose()

    assert visitors.unexpected() == []


def test_a_seat_is_seen_by_both(shop: Shop) -> None:
    """One holds and buys a seat; the other sees it held and sold without a reload, each in their own way."""
    one, two = shop.visit(), shop.visit()
    one.click("[aria-label='Hold seat B4']")
    two.wait_for_selector("[aria-label='Seat B4: held']")
    one.wait_for_selector("[aria-label='Give back seat B4']")
    one.click("text=Buy 1 seat")
    two.wait_for_selector("[aria-label='Seat B4: sold']")
    one.wait_for_selector("[aria-label='Seat B4: yours']")
    two.wait_for_selector("text=Sold B4.")

    assert one.locator("text=Bought: B4").count() == 1
    assert two.locator("text=Bought").count() == 0


def test_a_hold_that_ends_is_seen(shop: Shop) -> None:
    """A seat whose hold is over is free again on every page, by the reminder alone."""
    one = shop.visit()
    with shop.app.app_context():
        Event.ref("night-of-strings").hold(seat="C1", holder="somebody")
    one.wait_for_selector("[aria-label='Seat C1: held']")
    with shop.app.app_context():
        Event.ref("night-of-strings").expire(seat="C1", hold=1)

    one.wait_for_selector("[aria-label='Hold seat C1']")


def test_people_talk(shop: Shop) -> None:
    """What one says appears for the other, escaped, while the other's half-typed line and its focus stay."""
    one, two = shop.visit("chat/lobby", live=False), shop.visit("chat/lobby", live=False)
    for page, name in ((one, "Ann"), (two, "Bob")):
        page.fill("#name", name)
        page.click("text=Enter the room")
        page.wait_for_selector("#text")
        wait_until_live(page)
    two.fill("#text", "half typed")
    one.fill("#text", "Hello <b>there</b>")
    one.press("#text", "Enter")
    two.wait_for_selector("text=Hello <b>there</b>")
    one.wait_for_function("() => document.querySelector('#text').value === ''")

    assert two.input_value("#text") == "half typed"
    assert two.evaluate("document.activeElement.id") == "text"
    two.press("#text", "Enter")
    one.wait_for_selector("text=half typed")
    one.wait_for_selector("text=Bob")
    one.wait_for_function("() => document.querySelector('[data-solid-text=people]').textContent === '2'")


def test_jobs_follow(shop: Shop) -> None:
    """A job that was added elsewhere is seen from waiting to done."""
    one, two = shop.visit("customers/ada"), shop.visit("customers/ada")
    two.fill("#title", "Invoice for July")
    two.click("text=Add a job")

    one.wait_for_selector("li.job.done")
