"""The socket comes and goes; the page says so, and finds what it has missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Pages, heard, hide, text, wait_for_event, wait_for_text
from tests.browser.stub_server import Stub

if TYPE_CHECKING:
    from playwright.sync_api import Page

COUNT = ".count"
COUNTER = "counter.room:1"
OTHER = "#counter-room-2 .count"
NO_SOCKET = ("WebSocket connection", "Failed to load resource")


def two_counters(stub: Stub) -> str:
    return stub.component(COUNTER, "ann") + stub.component("counter.room:2", "ann")


def test_sockets_cut_and_back(stub: Stub, pages: Pages) -> None:
    """After a cut only what changed meanwhile is fetched."""
    page = pages.live(two_counters(stub))
    stub.cut()
    stub.turn(count=1)
    wait_for_text(page, COUNT, "1")

    assert [asked.parts for asked in stub.refetches()] == [(COUNTER,)]
    assert stub.opened == 2
    assert [event["event"] for event in heard(page, "open") + heard(page, "close")] == ["open", "open", "close"]


def test_fifty_changes_while_offline(stub: Stub, pages: Pages) -> None:
    """Coming back online, each view is fetched once for all that happened."""
    pages.allow(*NO_SOCKET)
    page = pages.live(two_counters(stub))
    pages.context().set_offline(True)
    stub.sockets_refused = True  # browsers differ in whether being offline is true of sockets
    stub.cut()
    for count in range(1, 51):
        stub.turn(count=count)
        stub.turn("room:2", count=count)
    stub.sockets_refused = False
    pages.context().set_offline(False)
    wait_for_text(page, COUNT, "50")
    wait_for_text(page, OTHER, "50")

    assert (len(stub.refetches(COUNTER)), len(stub.refetches("counter.room:2"))) == (1, 1)


def test_a_frozen_server_is_noticed(stub: Stub, pages: Pages) -> None:
    """A socket that stays open and says nothing is replaced after two and a half heart-beats."""
    stub.beat = 0.4
    page = pages.live(two_counters(stub))
    stub.freeze()
    stub.turn(count=4)
    wait_for_text(page, COUNT, "4")

    assert stub.opened == 2
    assert [event["code"] for event in heard(page, "close")] == [0]


def test_heart_beats_keep_the_socket(stub: Stub, pages: Pages) -> None:
    """A quiet server that beats is not taken for a frozen one."""
    stub.beat = 0.2
    page = pages.live(two_counters(stub))
    page.evaluate("started = performance.now()")
    page.wait_for_function("() => performance.now() - started > 2500")

    assert stub.opened == 1


def test_a_hidden_tab_fetches_nothing(stub: Stub, pages: Pages) -> None:
    """Scalars are painted in a hidden tab; components wait until somebody looks, and are fetched once."""
    page = pages.live(stub.component(COUNTER, "ann") + stub.scalar("ann"))
    hide(page, True)
    for count in range(1, 6):
        stub.turn(count=count)
    wait_for_text(page, ".scalar", "5")
    while_hidden = len(stub.refetches())
    hide(page, False)
    wait_for_text(page, COUNT, "5")

    assert while_hidden == 0
    assert len(stub.refetches()) == 1


def test_a_lost_message_is_found(stub: Stub, pages: Pages) -> None:
    """The message after the lost one names its predecessor."""
    page = pages.live(two_counters(stub))
    stub.lose_messages = True
    stub.turn(count=1)
    stub.lose_messages = False
    stub.turn(title="of no interest")

    wait_for_text(page, COUNT, "1")


def test_silent_turns_lose_nothing(stub: Stub, pages: Pages) -> None:
    """Gaps in the revisions that nobody published are not taken for lost messages."""
    page = pages.live(two_counters(stub))
    stub.actor().revision += 3
    stub.turn(title="of no interest")
    stub.turn("room:2", count=1)
    wait_for_text(page, OTHER, "1")

    assert stub.refetches(COUNTER) == []


@pytest.mark.parametrize("code", [1008, 1012, 1013])
def test_most_closes_are_not_for_ever(stub: Stub, pages: Pages, code: int) -> None:
    """A restart, an overload and a lost ping all end in a new socket."""
    page = pages.live(two_counters(stub))
    stub.cut(code)
    stub.turn(count=2)
    wait_for_text(page, COUNT, "2")

    assert [event["code"] for event in heard(page, "close")] == [code]


def test_a_refused_user_does_not_come_back(stub: Stub, pages: Pages) -> None:
    """Codes from 4400 to 4499 mean never again, by socket or by polling."""
    pages.allow(*NO_SOCKET)
    page = pages.context().new_page()
    page.clock.install()
    stub.pages["page"] = lambda _user: two_counters(stub)
    page.goto(f"{stub.url}/page")
    stub.wait_for_watchers(name="room:2")
    stub.cut(4403)
    closed = wait_for_event(page, "close")
    page.clock.fast_forward(50_000)
    page.wait_for_function("() => document.documentElement.classList.contains('solid-stale')")
    page.click("#counter-room-1 button")
    wait_for_text(page, COUNT, "1")

    assert closed[0]["code"] == 4403
    assert (stub.count("ws"), stub.count("sync")) == (1, 0)


def test_a_page_that_is_cut_off_says_so(stub: Stub, pages: Pages) -> None:
    """The mark is set after data-grace without a connection, and taken away when all is in sync again."""
    pages.allow(*NO_SOCKET)
    stub.settings["grace"] = "100"
    page = pages.live(two_counters(stub))
    stub.sockets_refused = True
    stub.cut()
    page.wait_for_function("() => document.documentElement.classList.contains('solid-stale')")
    gate = stub.hold(COUNTER)
    stub.turn(count=1)
    stub.sockets_refused = False
    gate.wait_until_reached()
    before = page.evaluate("document.documentElement.className")
    gate.open()
    page.wait_for_function("() => !document.documentElement.classList.contains('solid-stale')")

    assert before == "solid-stale"
    assert text(page, COUNT) == "1"


@pytest.mark.parametrize("why", ["denied", "expired"])
def test_what_is_gone_is_marked_and_left_alone(stub: Stub, pages: Pages, why: str) -> None:
    """The element is marked, the page is told, and the stream is never asked for again."""
    page = pages.live(two_counters(stub))
    stub.tell("room:1", {"t": "gone", "s": "room:1", "why": why})
    gone = wait_for_event(page, "gone")
    stub.cut()
    stub.turn(count=1)
    stub.turn("room:2", count=1)
    wait_for_text(page, OTHER, "1")

    assert [(event["stream"], event["why"]) for event in gone] == [("room:1", why)]
    assert page.evaluate("[...document.querySelectorAll('.solid-stale')].map(el => el.id)") == ["counter-room-1"]
    assert stub.subscribed[-1] == [{"k": "room:2~mac-ann", "i": "9", "r": 1}]
    assert stub.refetches(COUNTER) == []


MARKED = "() => document.querySelector('#counter-room-1').classList.contains('solid-stale')"


def follows_again(stub: Stub, page: Page) -> None:
    """The destroyed room is marked and not asked for; used anew it is shown and followed, and the mark goes."""
    wait_for_event(page, "gone")
    page.wait_for_function(MARKED)
    assert stub.refetches(COUNTER) == []
    stub.wait_for(lambda: {"k": "room:1~mac-ann", "i": "0", "r": 0} in [each for s in stub.subscribed for each in s])
    stub.reborn(count=7)
    wait_for_text(page, COUNT, "7")
    stub.turn(count=8)
    wait_for_text(page, COUNT, "8")
    wait_for_text(page, ".scalar", "8")

    assert page.evaluate("document.querySelectorAll('.solid-stale').length") == 0
    assert [event["why"] for event in heard(page, "gone")] == ["deleted"]


def test_what_was_destroyed_is_followed_when_it_is_used_anew(stub: Stub, pages: Pages) -> None:
    """The server goes on telling of an actor whose end it told; what came late from before the end says nothing."""
    page = pages.live(two_counters(stub) + stub.scalar("ann"))
    stub.destroy()
    stub.tell("room:1", {"t": "inv", "s": "room:1", "i": "9", "r": 50, "p": 49, "n": None})
    follows_again(stub, page)


def test_an_end_that_came_while_the_page_was_cut_off(stub: Stub, pages: Pages) -> None:
    """The refused subscription is asked for again as one of an actor that does not exist, also after a reconnect."""
    page = pages.live(two_counters(stub) + stub.scalar("ann"))
    stub.cut()
    stub.destroy()
    wait_for_event(page, "gone")
    stub.wait_for_watchers()
    stub.cut()
    stub.wait_for(lambda: not stub.connections)
    stub.wait_for_watchers()
    follows_again(stub, page)


def test_polling_follows_what_is_used_anew(stub: Stub, pages: Pages) -> None:
    """Polls go on asking for a destroyed actor, as one that does not exist."""
    stub.settings.update(socket="off", poll="100")
    stub.pages["page"] = lambda _user: two_counters(stub)
    page = pages.open()
    stub.wait_for(lambda: stub.count("sync") >= 1)
    stub.destroy()
    wait_for_event(page, "gone")
    page.wait_for_function(MARKED)
    stub.reborn(count=7)
    wait_for_text(page, COUNT, "7")

    assert page.evaluate("document.querySelectorAll('.solid-stale').length") == 0


def test_what_is_denied_from_the_start(stub: Stub, pages: Pages) -> None:
    """A subscription may be refused at once; the rest of the page is live."""
    stub.denied["room:1"] = "denied"
    page = pages.live(two_counters(stub), watch="room:2")
    wait_for_event(page, "gone")
    stub.turn("room:2", count=1)
    wait_for_text(page, OTHER, "1")

    assert page.evaluate("document.querySelector('#counter-room-1').className") == "solid-stale"


def test_polling_where_sockets_are_off(stub: Stub, pages: Pages) -> None:
    """With data-socket="off" the page asks in a rhythm what has changed, and for components only when something has."""
    stub.settings.update(socket="off", poll="200")
    stub.pages["page"] = lambda user: stub.component(COUNTER, user) + stub.scalar(user)
    page = pages.open()
    stub.wait_for(lambda: stub.count("sync") >= 2)
    before = len(stub.refetches())
    stub.turn(count=3)
    wait_for_text(page, COUNT, "3")
    wait_for_text(page, ".scalar", "3")

    assert before == 0
    assert len(stub.refetches()) == 1
    assert stub.count("ws") == 0


def test_polling_where_sockets_fail(stub: Stub, pages: Pages) -> None:
    """After three sockets that did not open the page polls, and it returns to the socket when that works again."""
    pages.allow(*NO_SOCKET)
    stub.sockets_refused = True
    stub.settings["poll"] = "200"
    stub.pages["page"] = lambda _user: two_counters(stub)
    page = pages.open()
    stub.wait_for(lambda: stub.count("sync") >= 1)
    attempts = stub.count("ws")
    stub.turn(count=3)
    wait_for_text(page, COUNT, "3")
    stub.sockets_refused = False
    page.evaluate("dispatchEvent(new Event('online'))")
    stub.wait_for_watchers(name="room:2")
    polls = stub.count("sync")
    stub.turn(count=4)
    wait_for_text(page, COUNT, "4")

    assert attempts >= 3
    assert stub.count("sync") <= polls + 1


def test_polling_stops_in_a_hidden_tab(stub: Stub, pages: Pages) -> None:
    """Nobody looks: nothing is asked; coming back asks at once."""
    stub.settings.update(socket="off", poll="100")
    stub.pages["page"] = lambda _user: two_counters(stub)
    page = pages.open()
    stub.wait_for(lambda: stub.count("sync") >= 1)
    hide(page, True)
    page.evaluate("started = performance.now()")
    page.wait_for_function("() => performance.now() - started > 300")
    polls = stub.count("sync")
    page.wait_for_function("() => performance.now() - started > 2500")
    while_hidden = stub.count("sync") - polls
    stub.turn(count=3)
    hide(page, False)
    wait_for_text(page, COUNT, "3")

    assert while_hidden == 0


def test_polling_knows_what_is_gone(stub: Stub, pages: Pages) -> None:
    """A poll answers with the same frames as the socket."""
    stub.settings.update(socket="off", poll="100")
    stub.denied["room:1"] = "denied"
    stub.pages["page"] = lambda _user: two_counters(stub)
    page = pages.open()
    wait_for_event(page, "gone")
    seen = stub.count("sync")
    stub.wait_for(lambda: stub.count("sync") > seen)

    assert [asked.parts for asked in stub.asked if asked.kind == "sync"][-1] == ("room:2~mac-ann",)
