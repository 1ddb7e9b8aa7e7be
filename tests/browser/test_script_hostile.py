"""What other people's code, a bad day, or somebody with bad intentions does to a page that is live."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

import pytest
from flask import Response

from tests.browser.conftest import Pages, heard, wait_for_event, wait_for_text
from tests.browser.stub_server import Stub

if TYPE_CHECKING:
    from playwright.sync_api import Page

COUNT = ".count"
COUNTER = "counter.room:1"
OTHER = "#counter-room-2 .count"
TROUBLE = ("Failed to load resource", "Response Status Error", r"htmx:(error|afterRequest|sendAbort|timeout)")
# Attributes are inherited by themselves in htmx 2, and by this addition in htmx 4.
BOOST = 'hx-boost="true" hx-boost:inherited="true"'
# None of these is what the server renders.
UNSOUND = [
    "",
    "null",
    "{",
    "[1]",
    "[[]]",
    '[["room:9~mac-ann"]]',
    '[["room:9~mac-ann","9","1",["count"]]]',
    '[["room:9~mac-ann","9",1,"count"]]',
    '[["room:9~mac-ann","9",1,[7]]]',
    '[["room:9~mac-ann","9",1.5,["count"]]]',
    '[["room:9~mac-ann","nine",1,["count"]]]',
    f'[["room:9~mac-ann","{"9" * 5000}",1,["count"]]]',
    '[["room:9","9",1,["count"]]]',
    '[["room:\\ud8009~mac-ann","9",1,["count"]]]',
    f'[["{"r" * 70_000}:9~mac-ann","9",1,["count"]]]',
    '[[{"s":"room:9~mac-ann"},"9",1,["count"]]]',
]


def counters(stub: Stub, *numbers: int) -> str:
    return "".join(stub.component(f"counter.room:{n}", "ann") for n in numbers)


def send_at_once(stub: Stub, *numbers: int, count: int) -> None:
    """One frame with a turn of each of these actors."""
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(f"room:{n}", count=count) for n in numbers])
    stub.lose_messages = False


def test_attributes_that_are_not_ours(stub: Stub, pages: Pages) -> None:
    """HTML of other people with a data-solid that makes no sense never reaches the server, and breaks nothing."""
    pages.allow("warning: solid: data-solid is not a list")
    bad = "".join(
        f'<p id="bad{n}" data-solid="{escape(each)}"></p><p data-solid-c data-solid="{escape(each)}" hx-get="/x"></p>'
        for n, each in enumerate(UNSOUND)
    )
    page = pages.live(bad + counters(stub, 1))
    stub.turn(count=1)
    wait_for_text(page, COUNT, "1")

    assert [item["k"] for items in stub.subscribed for item in items] == ["room:1~mac-ann"]
    assert len(pages.errors) == 2 * len(UNSOUND)


def test_a_thousand_elements_come_and_go(stub: Stub, pages: Pages) -> None:
    """What was added and removed again leaves no listener, no node and no subscription behind."""
    page = pages.live(counters(stub, 1))
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def measure() -> dict[str, float]:
        session.send("HeapProfiler.collectGarbage")
        metrics = session.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in metrics if each["name"] in {"JSEventListeners", "Nodes"}}

    def come_and_go(first: int) -> None:
        html = [stub.component(f"counter.room:{n}", "ann") for n in range(first, first + 500)]
        page.evaluate(
            """async html => {
              const box = document.createElement('div');
              document.body.append(box);
              for (let n = 0; n < html.length; n += 50) {
                box.innerHTML = html.slice(n, n + 50).join('');
                htmx.process(box);
                await new Promise(requestAnimationFrame);
                box.replaceChildren();
              }
              box.remove();
            }""",
            html,
        )
        stub.turn(count=first)
        wait_for_text(page, COUNT, str(first))
        stub.wait_for(lambda: stub.connections[0].streams == {"room:1"})

    come_and_go(100)
    before = measure()
    come_and_go(600)
    after = measure()

    assert after["JSEventListeners"] - before["JSEventListeners"] < 50
    assert after["Nodes"] - before["Nodes"] < 200
    assert [asked.parts for asked in stub.refetches()] == [(COUNTER,), (COUNTER,)]


def test_the_script_twice(stub: Stub, pages: Pages) -> None:
    """A second script tag does nothing: one socket, one request for a change."""
    page = pages.live(
        '<script defer src="/static/solid-objects.js?again" data-base="/solid"></script>' + counters(stub, 1)
    )
    stub.turn(count=1)
    wait_for_text(page, COUNT, "1")

    assert (stub.opened, len(stub.refetches())) == (1, 1)


def test_the_same_component_twice(stub: Stub, pages: Pages) -> None:
    """Two places of one page may show the same component, though ids should differ; one that fails makes no storm."""
    pages.allow(*TROUBLE)
    page = pages.live(counters(stub, 1, 1, 2))
    both = "() => [...document.querySelectorAll('#counter-room-1 .count')].every(el => el.textContent === '%s')"
    stub.turn(count=1)
    page.wait_for_function(both % 1)
    send_at_once(stub, 1, 2, count=2)
    page.wait_for_function(both % 2)
    before = len(stub.refetches(COUNTER))
    stub.answers[COUNTER] = lambda: Response("<h1>Traceback</h1>", 500)
    stub.turn(count=3)
    wait_for_event(page, "failed", 2)
    for count in range(3, 6):
        stub.turn("room:2", count=count)
        wait_for_text(page, OTHER, str(count))
    failed = len(stub.refetches(COUNTER)) - before
    stub.answers.clear()
    page.wait_for_function(both % 3)

    assert before <= 5
    assert failed <= 5


def test_two_hundred_components(stub: Stub, pages: Pages) -> None:
    """A large page catches up a few requests at a time."""
    stub.settings["url-max"] = "250"
    stub.delay = 0.02
    page = pages.live(counters(stub, *range(1, 201)), watch="room:200")
    send_at_once(stub, *range(1, 201), count=7)
    page.wait_for_function("() => [...document.querySelectorAll('.count')].every(el => el.textContent === '7')")

    assert stub.most_at_once <= 4
    assert sorted(part for asked in stub.refetches() for part in asked.parts) == sorted(
        f"counter.room:{n}" for n in range(1, 201)
    )


def test_the_user_goes_first(stub: Stub, pages: Pages) -> None:
    """However many refetches hang, there is a connection left for what the user does."""
    stub.settings["batch"] = "off"
    page = pages.live(counters(stub, *range(1, 11)), watch="room:10")
    gates = [stub.hold(f"counter.room:{n}") for n in range(1, 5)]
    send_at_once(stub, *range(1, 10), count=3)
    for gate in gates:
        gate.wait_until_reached()
    page.click("#counter-room-10 button")
    wait_for_text(page, "#counter-room-10 .count", "1")
    while_waiting = len(stub.refetches())
    for gate in gates:
        gate.open()
    wait_for_text(page, "#counter-room-9 .count", "3")

    assert while_waiting == 4


def test_long_handles(stub: Stub, pages: Pages) -> None:
    """Subscriptions are sent in frames that the server takes, however long the names of actors are."""
    names = [f"room:{n}{'x' * 900}" for n in range(100)]
    page = pages.live("".join(f"<i {stub.deps('ann', (name, ['count']))}></i>" for name in names), watch=names[-1])

    assert page.evaluate("document.querySelectorAll('.solid-stale').length") == 0
    assert sorted(item["k"].partition("~")[0] for items in stub.subscribed for item in items) == sorted(names)
    assert max(len(json.dumps(items)) for items in stub.subscribed) < 60_000


def test_sleep_is_noticed(stub: Stub, pages: Pages) -> None:
    """After a sleep the socket is replaced at once, even if the computer's steady clock stood still meanwhile."""
    page = pages.live(counters(stub, 1))
    stub.turn(count=1)
    wait_for_text(page, COUNT, "1")  # so nothing is on its way any more that would be a sign of life
    stub.freeze()
    page.evaluate("real = Date.now; Date.now = () => real() + 3600e3; 0")
    stub.turn(count=2)
    wait_for_text(page, COUNT, "2")

    assert stub.opened == 2


def test_a_clock_that_is_set_back(stub: Stub, pages: Pages) -> None:
    """Time limits go on when somebody sets the clock back by an hour."""
    stub.beat = 0.4
    page = pages.live(counters(stub, 1))
    page.evaluate("real = Date.now; Date.now = () => real() - 3600e3; 0")
    stub.freeze()
    stub.turn(count=1)
    wait_for_text(page, COUNT, "1")

    assert stub.opened == 2


def test_code_of_the_page_that_throws(stub: Stub, pages: Pages) -> None:
    """A listener with a bug keeps nothing from the rest of the page."""
    pages.allow("exception: of the page")
    watch = stub.deps("ann", ("room:1", ["count"]))
    page = pages.live(f'<p id="one" {watch}></p><p id="two" {watch}></p>{counters(stub, 1)}')
    page.evaluate(
        """for (const name of ['open', 'close', 'changed', 'event', 'stale'])
          document.addEventListener(`solid:${name}`, () => { throw new Error('of the page'); }, true);"""
    )
    stub.cut()
    stub.turn(count=1)
    wait_for_text(page, COUNT, "1")

    assert [event["id"] for event in heard(page, "changed")] == ["one", "two"]


def test_two_tabs(stub: Stub, pages: Pages) -> None:
    """Two tabs of one user follow with a socket each, and the end of one is nothing to the other."""
    stub.pages["page"] = lambda user: stub.component(COUNTER, user)
    one, two = pages.live(), pages.live()
    stub.turn(count=1)
    for page in (one, two):
        wait_for_text(page, COUNT, "1")
    one.close()
    stub.wait_for(lambda: len(stub.connections) == 1)
    stub.turn(count=2)
    wait_for_text(two, COUNT, "2")

    assert stub.opened == 2


def wait_until_settled(page: Page) -> None:
    page.wait_for_function("() => !document.querySelector('.htmx-settling, .htmx-added, .htmx-request')")


def test_swaps_of_the_page_itself(stub: Stub, pages: Pages) -> None:
    """Out-of-band parts and preserved elements of an application work in components and beside them."""
    stub.pages["part"] = lambda _user: '<em>answer</em><p id="own" hx-swap-oob="true">own</p>'
    stub.components["mixed"] = lambda stub, actor, _user: (
        f'<b class="count">{stub.actor(actor).values["count"]}</b><input id="kept" hx-preserve value="0">'
        '<button hx-get="/part" hx-target="#spot">go</button><span id="spot"></span>'
    )
    page = pages.live('<p id="own"></p>' + stub.component("mixed.room:1", "ann"))
    page.evaluate("kept = document.querySelector('#kept')")
    page.fill("#kept", "mine")
    page.click("button")
    wait_for_text(page, "#spot em", "answer")
    wait_for_text(page, "#own", "own")
    wait_until_settled(page)
    stub.turn(count=1)
    wait_for_text(page, COUNT, "1")
    wait_until_settled(page)
    page.click("button")
    wait_for_text(page, "#spot em", "answer")

    assert page.evaluate("[kept === document.querySelector('#kept'), kept.value]") == [True, "mine"]
    assert heard(page, "rejected") == []


def test_a_boosted_site(stub: Stub, pages: Pages) -> None:
    """On a page whose body is boosted, refetches change neither address, nor history, nor title."""
    stub.pages["page"] = lambda user: f'<main {BOOST}>{stub.component(COUNTER, user)}<a href="/other">on</a></main>'
    stub.pages["other"] = lambda user: f"<main {BOOST}><h1>Other</h1>{counters(stub, 1, 2)}</main>"
    page = pages.live()
    for count in (1, 2):
        stub.turn(count=count)
        wait_for_text(page, COUNT, str(count))
    page.evaluate("window.same = true")
    page.click("a")
    page.wait_for_selector("h1")
    length = page.evaluate("history.length")
    stub.wait_for_watchers(name="room:2")
    send_at_once(stub, 1, 2, count=3)
    wait_for_text(page, COUNT, "3")
    wait_for_text(page, OTHER, "3")

    assert (page.url, page.evaluate("history.length")) == (f"{stub.url}/other", length)
    assert (stub.opened, page.title(), page.evaluate("window.same")) == (1, "Stub", True)


def test_no_transition_between_the_fence_and_the_swap(stub: Stub, pages: Pages) -> None:
    """Where an application animates its swaps, ours are made at once."""
    page = pages.live(counters(stub, 1, 2))
    page.evaluate("htmx.config.globalViewTransitions = htmx.config.transitions = true")
    page.evaluate("animated = 0; document.startViewTransition = swap => { animated++; return {finished: swap()} }; 0")
    stub.turn(count=1)
    wait_for_text(page, COUNT, "1")
    send_at_once(stub, 1, 2, count=2)
    wait_for_text(page, OTHER, "2")

    assert page.evaluate("animated") == 0


@pytest.mark.parametrize("stub", [4], ids=["htmx4"], indirect=True)
def test_without_htmx(stub: Stub, pages: Pages) -> None:
    """The page says what is missing, and its scalars are live all the same."""
    pages.allow("error: solid: there is no htmx")
    stub.scripts = []
    page = pages.live(stub.scalar("ann"))
    stub.turn(count=5)
    wait_for_text(page, ".scalar", "5")

    said: list[Any] = pages.errors
    assert len(said) == 1
