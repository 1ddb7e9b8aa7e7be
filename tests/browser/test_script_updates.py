"""Turns reach the pages that show them, with as few requests as possible."""

from __future__ import annotations

from tests.browser.conftest import Pages, heard, record_texts, text, wait_for_event, wait_for_text
from tests.browser.stub_server import Stub

COUNT = ".count"
COUNTER = "counter.room:1"


def one_counter(stub: Stub, name: str = "room:1") -> str:
    return stub.component(f"counter.{name}", "ann")


def test_two_pages_follow(stub: Stub, pages: Pages) -> None:
    """A turn is seen in two pages of two users, each with its own HTML over one socket."""
    stub.pages["page"] = lambda user: stub.component(COUNTER, user)
    ann, ben = pages.live(user="ann"), pages.live(user="ben")
    stub.turn(count=7)
    wait_for_text(ann, COUNT, "7")
    wait_for_text(ben, COUNT, "7")

    assert text(ann, "i") == "ann"
    assert text(ben, "i") == "ben"
    assert stub.opened == 2


def test_a_turn_between_render_and_subscription_is_not_missed(stub: Stub, pages: Pages) -> None:
    """The page subscribes with what it shows, and is told at once that it is behind."""

    def late(_user: str) -> str:
        html = one_counter(stub)
        stub.turn(count=5)
        return html

    stub.pages["page"] = late
    page = pages.live()

    wait_for_text(page, COUNT, "5")
    assert stub.subscribed == [[{"k": "room:1~mac-ann", "i": "9", "r": 1}]]


def test_the_lowest_pair_is_subscribed(stub: Stub, pages: Pages) -> None:
    """Of elements that were rendered at different revisions the oldest counts, wherever it stands."""
    old = one_counter(stub)
    stub.turn(count=5)
    page = pages.live(stub.scalar("ann") + old + stub.scalar("ann"))
    wait_for_text(page, COUNT, "5")

    assert stub.subscribed == [[{"k": "room:1~mac-ann", "i": "9", "r": 1}]]


def test_what_is_not_shown_is_not_asked_for(stub: Stub, pages: Pages) -> None:
    """A turn that changed other observables costs no request."""
    page = pages.live(one_counter(stub) + one_counter(stub, "room:2"))
    stub.turn(title="new")
    stub.turn("room:2", count=3)
    wait_for_text(page, "#counter-room-2 .count", "3")

    assert [asked.parts for asked in stub.refetches()] == [("counter.room:2",)]


def test_one_request_in_flight(stub: Stub, pages: Pages) -> None:
    """Twenty turns while an answer is under way cost one more request, which brings the last state."""
    page = pages.live(one_counter(stub))
    gate = stub.hold(COUNTER)
    stub.turn(count=1)
    gate.wait_until_reached()
    for count in range(2, 21):
        stub.turn(count=count)
    gate.open()
    wait_for_text(page, COUNT, "20")

    assert len(stub.refetches()) == 2


def test_progress_is_shown_under_constant_change(stub: Stub, pages: Pages) -> None:
    """An answer that is already behind is shown all the same: nobody starves."""
    page = pages.live(one_counter(stub))
    record_texts(page, COUNT)
    gate = stub.hold(COUNTER)
    stub.turn(count=1)
    for count in range(2, 6):
        gate.wait_until_reached()
        following = stub.hold(COUNTER)
        stub.turn(count=count)
        gate.open()
        gate = following
    gate.open()
    wait_for_text(page, COUNT, "5")

    assert page.evaluate("shown") == ["0", "1", "2", "3", "4", "5"]


def test_four_components_one_request(stub: Stub, pages: Pages) -> None:
    """Four stale components of three actors are asked for by one batch."""
    stub.components["both"] = lambda stub, actor, user: f"<u>{stub.actor('board:1').values['title']}</u>"
    tokens = ["counter.room:1", "counter.room:2", "both.room:1", "both.room:2"]
    page = pages.live("".join(stub.component(token, "ann") for token in tokens))
    stub.lose_messages = True
    messages = [stub.turn("room:1", count=1), stub.turn("room:2", count=2), stub.turn("board:1", title="new")]
    stub.connections[0].send(messages)
    wait_for_text(page, "#counter-room-1 .count", "1")
    wait_for_text(page, "#counter-room-2 .count", "2")
    wait_for_text(page, "#both-room-1 u", "new")
    wait_for_text(page, "#both-room-2 u", "new")

    assert [(asked.kind, sorted(asked.parts)) for asked in stub.refetches()] == [("batch", sorted(tokens))]
    assert stub.opened == 1


def test_what_was_deleted_leaves_the_page(stub: Stub, pages: Pages) -> None:
    """A part of a batch may say that its component is to be removed."""
    page = pages.live(one_counter(stub) + one_counter(stub, "room:2"))
    stub.deleted.add(COUNTER)
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=1), stub.turn("room:2", count=1)])
    wait_for_text(page, "#counter-room-2 .count", "1")
    page.wait_for_function("() => !document.querySelector('#counter-room-1')")

    assert len(stub.refetches()) == 1
    stub.wait_for(lambda: "room:1" not in stub.connections[0].streams)


def test_batches_are_split_by_the_length_of_the_url(stub: Stub, pages: Pages) -> None:
    """No URL gets longer than data-url-max."""
    stub.settings["url-max"] = "60"
    page = pages.live("".join(one_counter(stub, f"room:{n}") for n in range(4)), watch="room:0")
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(f"room:{n}", count=8) for n in range(4)])
    for n in range(4):
        wait_for_text(page, f"#counter-room-{n} .count", "8")

    assert [len(asked.parts) for asked in stub.refetches()] == [2, 2]


def test_inner_component_alone(stub: Stub, pages: Pages) -> None:
    """A change of the inner component does not refetch the outer one."""
    stub.components["outer"] = lambda stub, actor, user: f"<p>outer</p>{stub.component(COUNTER, user)}"
    page = pages.live(stub.component("outer.board:1", "ann"))
    stub.turn(count=4)
    wait_for_text(page, COUNT, "4")

    assert [asked.parts for asked in stub.refetches()] == [(COUNTER,)]


def test_outer_component_brings_the_inner(stub: Stub, pages: Pages) -> None:
    """When both are stale only the outer one is asked for."""
    stub.components["outer"] = lambda stub, actor, user: (
        f"<p>{stub.actor(actor).values['count']}</p>{stub.component(COUNTER, user)}"
    )
    page = pages.live(stub.component("outer.board:1", "ann"))
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=4), stub.turn("board:1", count=6)])
    wait_for_text(page, COUNT, "4")
    wait_for_text(page, "p", "6")

    assert [asked.parts for asked in stub.refetches()] == [("outer.board:1",)]


def test_scalars_are_painted_without_a_request(stub: Stub, pages: Pages) -> None:
    """A broadcast value appears wherever it is shown, and nothing is fetched."""
    page = pages.live(f"<p id=a>{stub.scalar('ann')}</p><p id=b>{stub.scalar('ann')}</p>")
    stub.turn(count=12)
    wait_for_text(page, "#a", "12")
    wait_for_text(page, "#b", "12")

    assert stub.refetches() == []


def test_values_are_text(stub: Stub, pages: Pages) -> None:
    """Markup in a value is shown, not obeyed."""
    page = pages.live(stub.scalar("ann"))
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    stub.turn(count=evil)
    wait_for_text(page, ".scalar", evil)

    assert page.evaluate("document.querySelectorAll('.scalar *').length") == 0


def test_own_action_is_not_fetched_twice(stub: Stub, pages: Pages) -> None:
    """The answer to a click brings the news to its own page; only the other page fetches."""
    stub.pages["page"] = lambda user: stub.component(COUNTER, user)
    mine, other = pages.live(user="ann"), pages.live(user="ben")
    gate = stub.hold("act.room:1")
    mine.click("button")
    gate.wait_until_reached()
    wait_for_text(other, COUNT, "1")
    gate.open()
    wait_for_text(mine, COUNT, "1")
    stub.turn(count=5)
    wait_for_text(mine, COUNT, "5")
    wait_for_text(other, COUNT, "5")

    assert len(stub.refetches()) == 3


def test_the_answer_to_an_action_tells_the_page(stub: Stub, pages: Pages) -> None:
    """Without a socket, the rest of the page still follows what the user did."""
    pages.allow("WebSocket connection", "503")
    stub.sockets_refused = True
    stub.pages["page"] = lambda user: stub.component(COUNTER, user) + stub.scalar(user)
    page = pages.open()
    page.click("button")

    wait_for_text(page, COUNT, "1")
    wait_for_text(page, ".scalar", "1")


def test_events_reach_listeners_and_the_document(stub: Stub, pages: Pages) -> None:
    """A broadcast event triggers the elements that name its stream; a name cannot fake another event."""
    listener = stub.deps("ann", ("room:1", ["count"]))
    stub.pages["part"] = lambda _user: "<em>goal</em>"
    page = pages.live(f'<p id="one" hx-get="/part" hx-trigger="solid:on:goal" {listener}></p>')
    for name in ("not a name", "goal"):
        event = {"t": "ev", "s": "room:1", "i": "9", "r": 1, "n": name, "d": {"by": "eve"}}
        stub.tell("room:1", event)
    wait_for_text(page, "#one em", "goal")
    detail = {"stream": "room:1", "name": "goal", "data": {"by": "eve"}, "incarnation": "9", "revision": 1}

    assert heard(page, "event") == [{"event": "event", "id": "", **detail}]
    assert heard(page, "on:goal") == [{"event": "on:goal", "id": "one", **detail}]


def fragment(stub: Stub) -> str:
    watch = stub.deps("ann", ("room:1", ["count"]))
    return f'<div id="own" hx-get="/part" hx-trigger="solid:changed" hx-swap="innerHTML" {watch}></div>'


def test_own_fragments_are_told(stub: Stub, pages: Pages) -> None:
    """People's own element refetches itself by solid:changed, and then carries the announced pair."""
    stub.pages["part"] = lambda _user: f"<em>{stub.actor().values['count']}</em>"
    page = pages.live(fragment(stub))
    stub.turn(title="of no interest")
    stub.turn(count=2)
    wait_for_text(page, "#own em", "2")

    assert heard(page, "changed") == [{"event": "changed", "id": "own", "names": ["count"]}]
    assert heard(page, "changed:count") == [{"event": "changed:count", "id": "own", "names": ["count"]}]
    assert page.evaluate("document.querySelector('#own').dataset.solid") == '[["room:1~mac-ann","9",3,["count"]]]'


def test_own_fragments_are_told_once_for_many_turns(stub: Stub, pages: Pages) -> None:
    """Changes of one moment are one event."""
    stub.pages["part"] = lambda _user: f"<em>{stub.actor().values['count']}</em>"
    page = pages.live(fragment(stub))
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=n) for n in range(1, 21)])
    wait_for_text(page, "#own em", "20")

    assert len(heard(page, "changed")) == 1


def test_own_fragments_are_told_after_a_gap(stub: Stub, pages: Pages) -> None:
    """What changed while the page was cut off is told once, after it has subscribed again."""
    stub.pages["part"] = lambda _user: f"<em>{stub.actor().values['count']}</em>"
    page = pages.live(fragment(stub))
    stub.cut()
    stub.turn(count=1)
    stub.turn(count=2)
    wait_for_text(page, "#own em", "2")

    assert len(wait_for_event(page, "changed")) == 1


def test_own_fragments_do_not_go_round_in_circles(stub: Stub, pages: Pages) -> None:
    """A fragment that always comes back behind is told again and again, but slower and slower."""
    html = fragment(stub).replace("innerHTML", "outerHTML")
    stub.pages["part"] = lambda _user: html
    page = pages.live(html + one_counter(stub, "room:2"))
    stub.turn(count=1)
    wait_for_event(page, "changed", 2)
    for count in range(1, 4):
        stub.turn("room:2", count=count)
        wait_for_text(page, COUNT, str(count))

    assert len(heard(page, "changed")) <= 4


def test_rows_of_a_table(stub: Stub, pages: Pages) -> None:
    """A component may be a row, alone and as part of a batch."""
    stub.components["row"] = lambda stub, actor, _user: f"<td>{stub.actor(actor).values['count']}</td>"
    rows = [stub.component(f"row.room:{n}", "ann") for n in (1, 2)]
    page = pages.live(f"<table><tbody>{''.join(rows)}</tbody></table>")
    stub.turn(count=1)
    wait_for_text(page, "tr#row-room-1 > td", "1")
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=2), stub.turn("room:2", count=2)])
    wait_for_text(page, "tr#row-room-1 > td", "2")
    wait_for_text(page, "tr#row-room-2 > td", "2")

    assert [asked.kind for asked in stub.refetches()] == ["component", "batch"]
    assert page.evaluate("document.querySelectorAll('table > tbody > tr > td').length") == 2


def test_batches_can_be_switched_off(stub: Stub, pages: Pages) -> None:
    """With data-batch="off" every component is asked for alone."""
    stub.settings["batch"] = "off"
    page = pages.live(one_counter(stub) + one_counter(stub, "room:2"))
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=1), stub.turn("room:2", count=1)])
    wait_for_text(page, "#counter-room-1 .count", "1")
    wait_for_text(page, "#counter-room-2 .count", "1")

    assert [asked.kind for asked in stub.refetches()] == ["component", "component"]


def test_refetches_spread_when_told(stub: Stub, pages: Pages) -> None:
    """A message with j is followed at a random moment within so many milliseconds."""
    page = pages.context().new_page()
    page.clock.install()
    stub.pages["page"] = lambda _user: one_counter(stub) + one_counter(stub, "room:2")
    page.goto(f"{stub.url}/page")
    stub.wait_for_watchers(name="room:2")
    page.evaluate("Math.random = () => 0.9")
    stub.spread = 10_000
    stub.turn(count=1)
    stub.spread = 0
    stub.turn("room:2", count=1)
    wait_for_text(page, "#counter-room-2 .count", "1")
    before = len(stub.refetches(COUNTER))
    page.clock.fast_forward(9_000)
    wait_for_text(page, "#counter-room-1 .count", "1")

    assert before == 0


def test_the_watch_on_the_policy_works(stub: Stub, pages: Pages) -> None:
    """Control: a violation of the content security policy would have been noticed."""
    pages.allow("CSP violation", "inline script")
    stub.pages["page"] = lambda _user: "<script>window.bad = 1</script>"
    page = pages.open()
    page.wait_for_function("() => window.solidObjects")

    assert any("CSP violation: script-src-elem" in error for error in pages.errors)
    assert page.evaluate("window.bad") is None
