"""A Chromium, a stub server per test on each major of htmx, and pages on which an unexpected error fails the test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.stub_server import Stub

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WATCH = """
addEventListener('securitypolicyviolation', e => console.error('CSP violation: ' + e.violatedDirective));
window.heard = [];
const names = ['open', 'close', 'event', 'gone', 'failed', 'rejected', 'changed', 'changed:count', 'on:goal', 'stale'];
for (const name of names) {
  document.addEventListener(`solid:${name}`, e => heard.push({...e.detail, event: name, id: e.target.id ?? ''}), true);
}
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests; without Chromium they are skipped, unless the environment insists."""
    if not os.environ.get("SOLID_REQUIRE_BROWSER"):
        if shutil.which(CHROMIUM) is None:
            pytest.skip(f"{CHROMIUM} is not there")
        pytest.importorskip("playwright.sync_api")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(params=[4, 2], ids=["htmx4", "htmx2"])
def stub(request: pytest.FixtureRequest) -> Iterator[Stub]:
    with Stub(request.param).running() as running:
        running.components["counter"] = lambda stub, actor, user: (
            f'<b class="count">{stub.actor(actor).values["count"]}</b> <i>{user}</i>'
            f'<button hx-post="/act/{actor}" hx-target="closest section" hx-swap="outerMorph">up</button>'
        )
        yield running


class Visitors:
    """Pages of one test, each user with an own cookie jar; what goes wrong in them is collected."""

    def __init__(self, browser: Browser, url: str, cookies: dict[str, str] | None = None) -> None:
        self._browser, self._url, self._cookies = browser, url, cookies or {}
        self._contexts: dict[str, BrowserContext] = {}
        self.errors: list[str] = []
        self._allowed: list[str] = []

    def allow(self, *patterns: str) -> None:
        """Errors that belong to what the test does."""
        self._allowed += patterns

    def context(self, user: str = "ann") -> BrowserContext:
        if user not in self._contexts:
            context = self._browser.new_context()
            context.set_default_timeout(10_000)
            for name, value in {"user": user, **self._cookies}.items():
                context.add_cookies([{"name": name, "value": value, "url": self._url}])
            context.add_init_script(WATCH)
            self._contexts[user] = context
        return self._contexts[user]

    def blank(self, user: str = "ann") -> Page:
        """A page that has not gone anywhere yet."""
        page = self.context(user).new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        return page

    def open(self, path: str = "page", user: str = "ann") -> Page:
        page = self.blank(user)
        page.goto(f"{self._url}/{path}")
        return page

    def close(self) -> None:
        for context in self._contexts.values():
            context.close()

    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not any(re.search(pattern, error) for pattern in self._allowed)]

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.errors.append(f"{message.type}: {message.text}")


class Pages(Visitors):
    """Pages of the stub."""

    def __init__(self, browser: Browser, stub: Stub) -> None:
        super().__init__(browser, stub.url)
        self._stub = stub

    def live(self, body: str | None = None, user: str = "ann", watch: str = "room:1") -> Page:
        """A page whose subscription has been answered."""
        if body is not None:
            self._stub.pages["page"] = lambda _user: body
        before = sum(watch in connection.streams for connection in self._stub.connections)
        page = self.open(user=user)
        self._stub.wait_for_watchers(before + 1, watch)
        return page


@pytest.fixture
def pages(browser: Browser, stub: Stub) -> Iterator[Pages]:
    opened = Pages(browser, stub)
    yield opened
    opened.close()
    assert opened.unexpected() == []


def text(page: Page, selector: str) -> Any:
    return page.evaluate("s => document.querySelector(s)?.textContent", selector)


def wait_for_text(page: Page, selector: str, expected: str) -> None:
    page.wait_for_function(
        "([s, expected]) => document.querySelector(s)?.textContent === expected", arg=[selector, expected]
    )


def heard(page: Page, name: str) -> list[dict[str, Any]]:
    """The events of this name that the page has seen."""
    found: list[dict[str, Any]] = page.evaluate("name => heard.filter(seen => seen.event === name)", name)
    return found


def wait_for_event(page: Page, name: str, count: int = 1) -> list[dict[str, Any]]:
    page.wait_for_function("([name, n]) => heard.filter(e => e.event === name).length >= n", arg=[name, count])
    return heard(page, name)


def record_texts(page: Page, selector: str) -> None:
    """Keep every text that the element shows from now on in ``window.shown``."""
    page.evaluate(
        """selector => {
          window.shown = [];
          const look = () => {
            const now = document.querySelector(selector)?.textContent;
            if (now !== undefined && shown.at(-1) !== now) shown.push(now);
          };
          look();
          new MutationObserver(look).observe(document, {childList: true, subtree: true, characterData: true});
        }""",
        selector,
    )


def hide(page: Page, hidden: bool) -> None:
    """The tab goes to the back, or comes to the front."""
    page.evaluate(
        """hidden => {
          Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
          document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )
