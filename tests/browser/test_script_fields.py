"""What the user is doing in a component survives its refetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Pages, wait_for_text
from tests.browser.stub_server import Stub

if TYPE_CHECKING:
    from playwright.sync_api import Page

LINES = "line\n" * 50
SCROLLED = "['#area', '.inner'].map(each => document.querySelector(each).scrollTop).concat(scrollY)"
STATE = """() => ({
  same: window.field === document.activeElement,
  focus: document.activeElement.id,
  caret: document.activeElement.selectionStart,
  typed: ['named', 'plain', 'area'].map(id => document.getElementById(id).value),
  box: document.getElementById('box').checked,
  pick: document.getElementById('pick').value,
})"""


def form(stub: Stub, actor: str, _user: str) -> str:
    count = stub.actor(actor).values["count"]
    rows = "".join(f'<li id="row{n}">{n}</li>' for n in range(count, -1, -1))
    return (
        f'<ul>{rows}</ul><b class="count">{count}</b><form id="f"><p>'
        '<input id="named" name="a" value="x"><input id="plain" name="b"><textarea id="area" name="c">t</textarea>'
        '<input type="checkbox" id="box" name="d"><select id="pick" name="e"><option>1</option><option>2</option>'
        f'</select></p><input id="fed" name="g" value="{count}"></form>'
    )


@pytest.fixture
def page(stub: Stub, pages: Pages) -> Page:
    stub.components["form"] = form
    page = pages.live(stub.component("form.room:1", "ann") + stub.component("counter.room:2", "ann"))
    page.fill("#plain", "half a sen")
    page.fill("#area", "more text")
    page.check("#box")
    page.select_option("#pick", "2")
    page.fill("#named", "abcdef")
    page.evaluate("field = document.activeElement; field.setSelectionRange(3, 3)")
    return page


def expected() -> dict[str, Any]:
    typed = ["abcdef", "half a sen", "more text"]
    return {"same": True, "focus": "named", "caret": 3, "typed": typed, "box": True, "pick": "2"}


def test_focus_caret_and_input_stay(stub: Stub, page: Page) -> None:
    """Focus, caret, typed text, ticks and choices stay, while rows are inserted above them."""
    for count in (1, 3):
        stub.turn(count=count)
        wait_for_text(page, ".count", str(count))

    assert page.evaluate(STATE) == expected()
    assert page.evaluate("document.querySelectorAll('li').length") == 4


def test_they_stay_in_a_batch(stub: Stub, page: Page) -> None:
    """The same holds when the component is one part of a batch."""
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=2), stub.turn("room:2", count=2)])
    wait_for_text(page, "#form-room-1 .count", "2")

    assert page.evaluate(STATE) == expected()
    assert stub.count("batch") == 1


def test_a_new_default_replaces_what_nobody_edits(stub: Stub, page: Page) -> None:
    """A field whose default the server changed takes it, unless the user is in it."""
    page.fill("#fed", "mine")
    stub.turn(count=1)
    wait_for_text(page, ".count", "1")
    while_focused = page.input_value("#fed")
    page.focus("#plain")
    stub.turn(count=2)
    wait_for_text(page, ".count", "2")

    assert while_focused == "mine"
    assert page.input_value("#fed") == "2"


def test_elements_that_a_refetch_brought_in_are_wired(stub: Stub, pages: Pages) -> None:
    """A button that came with a refetch works, and inherits nothing from the component around it."""
    stub.pages["part"] = lambda _user: "<em>pressed</em>"
    stub.components["grown"] = lambda stub, actor, user: (
        f'<b class="count">{stub.actor(actor).values["count"]}</b>'
        + ('<p><button hx-get="/part">up</button></p>' if stub.actor(actor).values["count"] else "")
    )
    page = pages.live(stub.component("grown.room:1", "ann"))
    stub.turn(count=1)
    page.wait_for_selector("button")
    # htmx 2 wires what is new a little after it is there.
    page.wait_for_function("() => !document.querySelector('.htmx-settling, .htmx-added, .htmx-request')")
    page.click("button")

    wait_for_text(page, "button em", "pressed")
    assert page.evaluate("document.querySelector('.count').textContent") == "1"


def test_protected_regions_stay(stub: Stub, pages: Pages) -> None:
    """What is marked with hx-morph-skip is left as the user has it, and the rest follows."""
    stub.components["skip"] = lambda stub, actor, _user: (
        f'<b class="count">{stub.actor(actor).values["count"]}</b>'
        "<details hx-morph-skip><summary>more</summary>text</details>"
    )
    page = pages.live(stub.component("skip.room:1", "ann"))
    page.click("summary")
    stub.turn(count=1)
    wait_for_text(page, ".count", "1")

    assert page.evaluate("document.querySelector('details').open") is True


def test_scroll_positions_stay(stub: Stub, pages: Pages) -> None:
    """Neither the page, nor a field, nor a part that scrolls by itself goes back, also when it grows."""
    stub.components["long"] = lambda stub, actor, _user: (
        f'<b class="count">{stub.actor(actor).values["count"]}</b>{"<p>line</p>" * 100}'
        f'<textarea id="area" rows="2">{LINES}</textarea>'
        f'<ol class="inner">{"<li>line</li>" * (50 + stub.actor(actor).values["count"])}</ol>'
    )
    page = pages.live(stub.component("long.room:1", "ann"))
    page.evaluate(
        """() => {
          const sheet = new CSSStyleSheet();
          sheet.replaceSync('.inner { height: 50px; overflow: auto }');
          document.adoptedStyleSheets.push(sheet);
        }"""
    )
    page.evaluate(
        "for (const each of document.querySelectorAll('#area, .inner')) each.scrollTop = 99; scrollTo(0, 300)"
    )
    before = page.evaluate(SCROLLED)
    stub.turn(count=1)
    wait_for_text(page, ".count", "1")

    assert before == [99, 99, 300]
    assert page.evaluate(SCROLLED) == before


def folded(stub: Stub, actor: str, _user: str) -> str:
    values = stub.actor(actor).values
    unfolded = " open" if values["title"] == "unfolded" else ""
    return (
        f'<b class="count">{values["count"]}</b><details class="one"{unfolded}><summary>one</summary>text</details>'
        f'<details class="two" open><summary>two</summary>text</details><dialog{unfolded}>text</dialog>'
    )


OPEN = "['.one', '.two', 'dialog'].map(each => document.querySelector(each).open)"


def test_what_was_opened_stays_open(stub: Stub, pages: Pages) -> None:
    """Details and dialogs stay as the user has them, alone and in a batch, and new ones come as the server says."""
    stub.components["folded"] = folded
    page = pages.live(stub.component("folded.room:1", "ann") + stub.component("counter.room:2", "ann"))
    page.click(".one summary")
    page.click(".two summary")
    page.evaluate("document.querySelector('dialog').show()")
    for count in (1, 2):
        stub.turn(count=count)
        wait_for_text(page, ".count", str(count))
    alone = page.evaluate(OPEN)
    stub.lose_messages = True
    stub.connections[0].send([stub.turn(count=3), stub.turn("room:2", count=3)])
    wait_for_text(page, ".count", "3")

    assert alone == [True, False, True]
    assert page.evaluate(OPEN) == alone
    assert stub.count("batch") == 1


def test_the_server_may_open_and_close(stub: Stub, pages: Pages) -> None:
    """When the server itself renders it otherwise than before, that is what is shown."""
    stub.components["folded"] = folded
    page = pages.live(stub.component("folded.room:1", "ann"))
    page.click(".one summary")
    page.click(".one summary")
    stub.turn(count=1, title="unfolded")
    wait_for_text(page, ".count", "1")
    opened = page.evaluate(OPEN)
    stub.turn(count=2, title="none")
    wait_for_text(page, ".count", "2")

    assert opened == [True, True, True]
    assert page.evaluate(OPEN) == [False, True, False]


def test_what_plays_goes_on(stub: Stub, pages: Pages) -> None:
    """A film is the same element after a refetch, and neither pauses nor starts anew."""
    stub.components["film"] = lambda stub, actor, _user: (
        f'<b class="count">{stub.actor(actor).values["count"]}</b><canvas></canvas><video muted></video>'
        f"{'<p>line</p>' * stub.actor(actor).values['count']}"
    )
    page = pages.live(stub.component("film.room:1", "ann"))
    page.evaluate(
        """() => {
          const [canvas, film] = ['canvas', 'video'].map(name => document.querySelector(name));
          canvas.getContext('2d').fillRect(0, 0, 9, 9);
          film.muted = true;
          film.srcObject = canvas.captureStream();
          window.film = film;
          window.interrupted = [];
          return film.play().then(() => {
            for (const name of ['pause', 'emptied', 'loadstart'])
              film.addEventListener(name, () => interrupted.push(name));
          });
        }"""
    )
    stub.turn(count=2)
    wait_for_text(page, ".count", "2")

    assert page.evaluate("[film === document.querySelector('video'), film.paused, interrupted]") == [True, False, []]


@pytest.mark.parametrize("stub", [2], ids=["htmx2"], indirect=True)
def test_htmx_2_without_idiomorph(stub: Stub, pages: Pages) -> None:
    """Components are replaced instead of morphed: typed text is lost, and all else works."""
    stub.scripts = ["htmx-2.0.11.min.js"]
    stub.components["form"] = form
    page = pages.live(stub.component("form.room:1", "ann"))
    page.fill("#plain", "half a sen")
    for count in (1, 2):
        stub.turn(count=count)
        wait_for_text(page, ".count", str(count))

    assert page.evaluate("document.activeElement.id") == "plain"
    assert page.input_value("#plain") == ""
