"""No answer takes the page back, and no error page gets into it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from flask import Response

from tests.browser.conftest import Pages, heard, record_texts, text, wait_for_event, wait_for_text
from tests.browser.stub_server import Stub, to_login

COUNT = ".count"
COUNTER = "counter.room:1"
# What htmx itself, or the browser, logs about requests that failed or were given up.
TROUBLE = ("Failed to load resource", "Response Status Error", r"htmx:(error|afterRequest|sendAbort|timeout)")


def late_answer(stub: Stub, pages: Pages) -> list[str]:
    """What is shown when the answer to a refetch comes after the user's own action has brought newer HTML."""
    stub.pages["page"] = lambda user: stub.component(COUNTER, user) + stub.component("counter.room:2", user)
    page = pages.live()
    gate = stub.hold(COUNTER)
    stub.turn(count=1)
    gate.wait_until_reached()
    page.click("#counter-room-1 button")
    wait_for_text(page, COUNT, "2")
    record_texts(page, COUNT)
    gate.open()
    if stub.fence:
        wait_for_event(page, "rejected")
    else:
        page.wait_for_function("() => shown.includes('1')")
    stub.turn("room:2", count=1)
    wait_for_text(page, "#counter-room-2 .count", "1")
    wait_for_text(page, COUNT, "2")
    shown: list[str] = page.evaluate("shown")
    return shown


def test_a_late_answer_is_rejected(stub: Stub, pages: Pages) -> None:
    """An old answer after newer HTML is never shown."""
    assert late_answer(stub, pages) == ["2"]


def test_without_the_fence_the_late_answer_wins(stub: Stub, pages: Pages) -> None:
    """Control: the same order of events takes an unfenced page back, until it is repaired."""
    stub.fence = False

    assert late_answer(stub, pages) == ["2", "1", "2"]


def test_a_late_batch_is_taken_in_parts(stub: Stub, pages: Pages) -> None:
    """Of a late batch the outdated part is rejected and the others are shown."""
    page = pages.live(stub.component(COUNTER, "ann") + stub.component("counter.room:2", "ann"))
    gate = stub.hold(COUNTER)
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=1), stub.turn("room:2", count=6)])
    gate.wait_until_reached()
    page.click("#counter-room-1 button")
    wait_for_text(page, COUNT, "2")
    record_texts(page, COUNT)
    gate.open()
    wait_for_text(page, "#counter-room-2 .count", "6")

    assert page.evaluate("shown") == ["2"]
    assert [event["id"] for event in heard(page, "rejected")] == ["counter-room-1"]


def test_a_late_outer_answer_with_an_old_inside(stub: Stub, pages: Pages) -> None:
    """An outer answer that would bring back an older inner component is rejected and asked for again."""
    stub.components["outer"] = lambda stub, actor, user: (
        f"<p>{stub.actor(actor).values['count']}</p>{stub.component(COUNTER, user)}"
    )
    page = pages.live(stub.component("outer.board:1", "ann"))
    gate = stub.hold("outer.board:1")
    stub.turn("board:1", count=5)
    gate.wait_until_reached()
    page.click("button")
    wait_for_text(page, COUNT, "1")
    record_texts(page, COUNT)
    gate.open()
    wait_for_text(page, "p", "5")

    assert page.evaluate("shown") == ["1"]
    assert len(stub.refetches("outer.board:1")) == 2


def test_a_new_incarnation_wins(stub: Stub, pages: Pages) -> None:
    """It has a lower revision and more digits; the request for the old one is given up."""
    pages.allow(*TROUBLE)
    for count in range(1, 4):
        stub.turn(count=count)
    page = pages.live(stub.component(COUNTER, "ann"))
    gate = stub.hold(COUNTER)
    stub.turn(count=99)
    gate.wait_until_reached()
    stub.reborn(count=7)
    wait_for_text(page, COUNT, "7")
    record_texts(page, COUNT)
    gate.open()
    stub.turn(count=8)
    wait_for_text(page, COUNT, "8")

    assert page.evaluate("shown") == ["7", "8"]
    assert '"10"' in page.evaluate("document.querySelector('section').dataset.solid")


def test_a_message_of_the_dead_incarnation_is_ignored(stub: Stub, pages: Pages) -> None:
    """Incarnation 10 is newer than 9, although it sorts before it as text."""
    page = pages.live(stub.component(COUNTER, "ann") + stub.component("counter.room:2", "ann"))
    stub.reborn(count=7)
    wait_for_text(page, COUNT, "7")
    before = len(stub.refetches(COUNTER))
    stub.tell("room:1", {"t": "inv", "s": "room:1", "i": "9", "r": 50, "p": 49, "n": None})
    stub.turn("room:2", count=1)
    wait_for_text(page, "#counter-room-2 .count", "1")

    assert len(stub.refetches(COUNTER)) == before


def test_a_destroyed_actor_does_not_hold_up_the_others(stub: Stub, pages: Pages) -> None:
    """Its pair is lower than the one that is shown; the answer is taken all the same, and is not stale."""
    stub.components["both"] = lambda stub, actor, user: (
        f"<u>{stub.actor(actor).values['count']} {stub.actor('board:1').values['title']}</u>"
    )
    stub.turn(count=5)
    page = pages.live(stub.component("both.room:1", "ann"))
    stub.destroy()
    wait_for_event(page, "gone")
    for title in ("new", "newer"):
        stub.turn("board:1", title=title)
        wait_for_text(page, "u", f"0 {title}")
    marked = page.evaluate("document.querySelectorAll('.solid-stale').length")
    asked = len(stub.refetches())
    stub.reborn(count=7)
    wait_for_text(page, "u", "7 newer")

    assert (marked, asked, heard(page, "rejected")) == (0, 2, [])


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_not_repeated(stub: Stub, pages: Pages, status: int) -> None:
    """The old HTML stays, marked; the component is asked for once per newer revision."""
    pages.allow(*TROUBLE)
    page = pages.context().new_page()
    page.clock.install()
    stub.pages["page"] = lambda user: stub.component(COUNTER, user) + stub.component("counter.room:2", user)
    page.goto(f"{stub.url}/page")
    stub.wait_for_watchers(name="room:2")
    stub.answers[COUNTER] = lambda: Response("<h1>No</h1>", status)
    stub.turn(count=1)
    failed = wait_for_event(page, "failed")
    page.clock.fast_forward(40_000)
    stub.turn("room:2", count=3)
    wait_for_text(page, "#counter-room-2 .count", "3")

    assert [(event["id"], event["status"]) for event in failed] == [("counter-room-1", status)]
    assert len(stub.refetches(COUNTER)) == 1
    assert text(page, COUNT) == "0"
    assert page.evaluate("document.querySelector('#counter-room-1').className") == "solid-stale"

    stub.answers.clear()
    stub.turn(count=2)
    wait_for_text(page, COUNT, "2")
    assert page.evaluate("document.querySelectorAll('.solid-stale').length") == 0


def test_a_server_error_is_retried(stub: Stub, pages: Pages) -> None:
    """The old HTML stays until the server is well again."""
    pages.allow(*TROUBLE)
    page = pages.live(stub.component(COUNTER, "ann"))
    record_texts(page, "body")
    stub.answers[COUNTER] = lambda: Response("<h1>Traceback</h1>", 500)
    stub.turn(count=3)
    wait_for_event(page, "failed", 3)
    page.wait_for_function("() => document.querySelector('section').classList.contains('solid-stale')")
    stub.answers.clear()
    wait_for_text(page, COUNT, "3")

    assert "Traceback" not in "".join(page.evaluate("shown"))
    assert page.evaluate("document.querySelector('section').classList.contains('solid-stale')") is False


def test_an_error_page_with_the_component_in_it(stub: Stub, pages: Pages) -> None:
    """An error is an error, even when its page contains the component."""
    pages.allow(*TROUBLE)
    page = pages.live(stub.component(COUNTER, "ann"))
    stub.answers[COUNTER] = lambda: Response(f"{stub.component(COUNTER, 'ann')}", 500)
    stub.turn(count=3)
    wait_for_event(page, "failed", 2)
    shown = text(page, COUNT)
    stub.answers.clear()
    wait_for_text(page, COUNT, "3")

    assert shown == "0"


def test_a_broken_batch_is_taken_apart(stub: Stub, pages: Pages) -> None:
    """After a batch has failed its components are asked for one by one, and one bad part stops no other."""
    pages.allow(*TROUBLE)
    page = pages.live(stub.component(COUNTER, "ann") + stub.component("counter.room:2", "ann"))
    page.evaluate("Math.random = () => 0.5")  # so that both come up again at the same moment
    stub.answers["batch"] = stub.answers["counter.room:2"] = lambda: Response("<h1>Traceback</h1>", 500)
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=1), stub.turn("room:2", count=1)])
    wait_for_text(page, COUNT, "1")

    assert text(page, "#counter-room-2 .count") == "0"
    assert stub.count("batch") == 1


def test_a_part_that_was_left_out_is_asked_for_alone(stub: Stub, pages: Pages) -> None:
    """A batch answers without the parts that it refuses; the page then learns why."""
    pages.allow(*TROUBLE)
    page = pages.live(stub.component(COUNTER, "ann") + stub.component("counter.room:2", "ann"))
    stub.answers["counter.room:2"] = lambda: Response(status=403)
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=1), stub.turn("room:2", count=1)])
    failed = wait_for_event(page, "failed")

    assert [(event["id"], event["status"]) for event in failed] == [("counter-room-2", 403)]
    assert text(page, COUNT) == "1"
    assert [asked.parts for asked in stub.refetches()][1:] == [("counter.room:2",)]


def test_a_redirect_to_a_login_page_is_not_swapped_in(stub: Stub, pages: Pages) -> None:
    """The login page answers with 200 and is dropped, with its title."""
    page = pages.live(stub.component(COUNTER, "ann"))
    page.evaluate("document.title = 'Mine'")
    record_texts(page, "body")
    stub.answers[COUNTER] = to_login
    stub.turn(count=3)
    stub.wait_for(lambda: len(stub.refetches()) > 1)
    stub.answers.clear()
    wait_for_text(page, COUNT, "3")

    assert "log in" not in "".join(page.evaluate("shown"))
    assert page.title() == "Mine"


def test_a_redirected_batch_is_not_swapped_in(stub: Stub, pages: Pages) -> None:
    """The login page as the answer to a batch changes nothing, not even the title."""
    page = pages.live(stub.component(COUNTER, "ann") + stub.component("counter.room:2", "ann"))
    page.evaluate("document.title = 'Mine'")
    record_texts(page, "body")
    stub.answers["batch"] = to_login
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=1), stub.turn("room:2", count=1)])
    wait_for_text(page, "#counter-room-1 .count", "1")
    wait_for_text(page, "#counter-room-2 .count", "1")

    assert "log in" not in "".join(page.evaluate("shown"))
    assert page.title() == "Mine"


def test_an_answer_without_anything_keeps_the_component(stub: Stub, pages: Pages) -> None:
    """An empty answer is no reason to empty the page."""
    page = pages.live(stub.component(COUNTER, "ann"))
    stub.answers[COUNTER] = lambda: Response("")
    stub.turn(count=3)
    stub.wait_for(lambda: len(stub.refetches()) > 1)
    stub.answers.clear()

    wait_for_text(page, COUNT, "3")


def unauthorized(url: str) -> Response:
    return Response("<h1>No</h1>", 401, {"Solid-Login": url})


def test_a_login_is_offered_once(stub: Stub, pages: Pages) -> None:
    """A refetch that answers 401 with Solid-Login takes the user there."""
    pages.allow(*TROUBLE)
    page = pages.live(stub.component(COUNTER, "ann"))
    stub.answers[COUNTER] = lambda: unauthorized("/login?next=/page")
    stub.turn(count=3)
    page.wait_for_url("**/login?next=/page")

    assert urlsplit(page.url).path == "/login"


def test_a_login_can_be_declined(stub: Stub, pages: Pages) -> None:
    """Code of the page that prevents solid:failed keeps the user where he is."""
    pages.allow(*TROUBLE)
    page = pages.live(stub.component(COUNTER, "ann"))
    page.evaluate("document.addEventListener('solid:failed', e => e.preventDefault())")
    stub.answers[COUNTER] = lambda: unauthorized("/login")
    stub.turn(count=3)
    failed = wait_for_event(page, "failed")

    assert failed[0]["login"] == f"{stub.url}/login"
    assert page.url == f"{stub.url}/page"


def test_a_login_elsewhere_is_ignored(stub: Stub, pages: Pages) -> None:
    """Solid-Login leads nowhere but to the page's own origin."""
    pages.allow(*TROUBLE)
    page = pages.live(stub.component(COUNTER, "ann"))
    stub.answers[COUNTER] = lambda: unauthorized("https://evil.example/login")
    stub.turn(count=3)
    failed = wait_for_event(page, "failed")

    assert failed[0].get("login") is None
    assert page.url == f"{stub.url}/page"


def test_an_answer_that_never_comes_is_given_up(stub: Stub, pages: Pages) -> None:
    """After data-timeout the request is repeated; after two failures the element is marked until it is well."""
    pages.allow(*TROUBLE)
    stub.settings["timeout"] = "200"
    page = pages.live(stub.component(COUNTER, "ann"))
    gates = [stub.hold(COUNTER), stub.hold(COUNTER)]
    stub.turn(count=3)
    page.wait_for_function("() => document.querySelector('section').classList.contains('solid-stale')")
    for gate in gates:
        gate.wait_until_reached()
    wait_for_text(page, COUNT, "3")
    for gate in gates:
        gate.open()

    assert [event["status"] for event in heard(page, "failed")] == [0, 0]
    assert page.evaluate("document.querySelectorAll('.solid-stale').length") == 0


def test_a_lagging_replica_is_asked_slowly(stub: Stub, pages: Pages) -> None:
    """An answer that is older than announced is no reason for a storm; the right one is taken when it comes."""
    old = stub.component(COUNTER, "ann")
    page = pages.live(old + stub.component("counter.room:2", "ann"))
    stub.answers[COUNTER] = lambda: Response(old)
    stub.turn(count=1)
    stub.wait_for(lambda: len(stub.refetches(COUNTER)) == 2)
    for count in range(1, 4):
        stub.turn("room:2", count=count)
        wait_for_text(page, "#counter-room-2 .count", str(count))
    asked = len(stub.refetches(COUNTER))
    stub.answers.clear()
    wait_for_text(page, COUNT, "1")

    assert asked <= 4
