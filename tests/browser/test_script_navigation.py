"""Pages change under the script: by navigation, by history, by anyone's code."""

from __future__ import annotations

from flask import Response

from tests.browser.conftest import Pages, wait_for_event, wait_for_text
from tests.browser.stub_server import Stub

COUNT = ".count"
COUNTER = "counter.room:1"


def test_history_back_shows_the_present(stub: Stub, pages: Pages) -> None:
    """Going back restores the page and brings it up to date, over the socket that was open all the time."""
    stub.pages["page"] = lambda user: stub.component(COUNTER, user) + '<a href="/other" hx-boost="true">on</a>'
    stub.pages["other"] = lambda user: "<h1>Other</h1>" + stub.component("counter.room:2", user)
    page = pages.live()
    page.evaluate("window.kept = true")
    page.click("a")
    page.wait_for_selector("h1")
    stub.wait_for_watchers(name="room:2")
    stub.turn(count=8)
    page.go_back()
    wait_for_text(page, "#counter-room-1 .count", "8")
    stub.wait_for_watchers()
    stub.turn(count=9)
    wait_for_text(page, "#counter-room-1 .count", "9")

    assert page.evaluate("window.kept") is True
    assert stub.opened == 1


def test_removed_elements_leave_no_request_behind(stub: Stub, pages: Pages) -> None:
    """A component that was removed while its refetch was under way is never asked for again."""
    pages.allow(r"error: htmx:(afterRequest|sendAbort)")  # how htmx 2 logs a request that was given up
    page = pages.live(stub.component(COUNTER, "ann") + stub.component("counter.room:2", "ann"))
    gate = stub.hold(COUNTER)
    stub.turn(count=1)
    gate.wait_until_reached()
    page.evaluate("document.querySelector('#counter-room-1').remove()")
    stub.wait_for(lambda: all("room:1" not in connection.streams for connection in stub.connections))
    gate.open()
    stub.turn(count=2)
    stub.turn("room:2", count=2)
    wait_for_text(page, COUNT, "2")

    assert len(stub.refetches(COUNTER)) == 1
    assert page.evaluate("document.querySelector('#counter-room-1')") is None


def test_no_socket_without_live_elements(stub: Stub, pages: Pages) -> None:
    """The socket is closed some time after the last live element has left, and opened for a new one."""
    stub.settings["idle"] = "50"
    page = pages.live(stub.component(COUNTER, "ann"))
    page.evaluate("kept = document.querySelector('section'); kept.remove()")
    stub.wait_for(lambda: not stub.connections)
    stub.turn(count=3)
    page.evaluate("document.body.append(kept)")

    wait_for_text(page, COUNT, "3")


def test_a_page_without_live_elements_opens_nothing(stub: Stub, pages: Pages) -> None:
    """The script can be on every page."""
    stub.pages["page"] = lambda _user: "<p>plain</p>"
    page = pages.open()
    page.wait_for_function("() => window.solidObjects")

    assert stub.count("ws") == 0


def test_elements_that_anyone_adds_are_live(stub: Stub, pages: Pages) -> None:
    """HTML that other code brings in is subscribed to, and corrected if it is behind, though nobody told htmx of it."""
    old = stub.component("counter.room:2", "ann") + stub.scalar("ann")
    page = pages.live(stub.component(COUNTER, "ann"))
    stub.turn("room:2", count=4)
    stub.turn(count=6)
    wait_for_text(page, COUNT, "6")
    page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", old)
    wait_for_text(page, "#counter-room-2 .count", "4")
    wait_for_text(page, ".scalar", "6")
    page.wait_for_function("() => !document.querySelector('.htmx-settling, .htmx-added, .htmx-request')")
    page.click("#counter-room-2 button")
    wait_for_text(page, "#counter-room-2 .count", "5")

    assert stub.opened == 1


def test_leaving_the_page_closes_the_socket(stub: Stub, pages: Pages) -> None:
    """A page that was left has no socket."""
    page = pages.live(stub.component(COUNTER, "ann"))
    stub.pages["plain"] = lambda _user: "<p>plain</p>"
    page.goto(f"{stub.url}/plain")

    stub.wait_for(lambda: not stub.connections)


def test_a_page_from_the_back_forward_cache_catches_up(stub: Stub, pages: Pages) -> None:
    """The socket is closed when the page goes into the cache, and opened again when it comes back."""
    page = pages.live(stub.component(COUNTER, "ann"))
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))")
    stub.wait_for(lambda: not stub.connections)
    stub.turn(count=3)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")

    wait_for_text(page, COUNT, "3")
    assert stub.opened == 2


def test_back_from_the_login(stub: Stub, pages: Pages) -> None:
    """A page that comes back out of the cache asks again for what was refused."""
    pages.allow("Failed to load resource", "Response Status Error")
    page = pages.live(stub.component(COUNTER, "ann"))
    page.evaluate("document.addEventListener('solid:failed', e => e.preventDefault())")
    stub.answers[COUNTER] = lambda: Response("", 401, {"Solid-Login": "/login"})
    stub.turn(count=3)
    wait_for_event(page, "failed")
    stub.answers.clear()
    page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))")
    stub.wait_for(lambda: not stub.connections)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")

    wait_for_text(page, COUNT, "3")
