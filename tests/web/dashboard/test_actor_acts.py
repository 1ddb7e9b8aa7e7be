"""Buttons on the page of an actor: what they do, what they write down, and that pressing twice does nothing more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.web.dashboard.html import Html
from tests.web.dashboard.site import PREFIX, Browser, DashboardSite

_STATE = "SELECT paused_at IS NOT NULL FROM solid_objects_instances WHERE actor_id = :id"
_ACTOR = "/actor?type=Account&id=a"


def press_again(browser: Browser, form: Any, **values: str) -> str:
    """Send a form that was sent before; the text of the page to which it leads."""
    return browser.after(browser.send(form, **values)).text


def test_pause(site: DashboardSite, browser: Browser) -> None:
    """Pause and resume change the actor, say so, and are each one event however often they change nothing."""
    site.Account.ref("a").pay(cents=1)
    page = browser.open(_ACTOR)
    assert "Resume" not in page.buttons
    paused = browser.after(browser.press(page, "Pause"))
    assert ("It starts no more turns" in paused.text, site.rows(_STATE, id="a")[0][0]) == (True, 1)
    assert ("paused" in paused.text, "Pause" in paused.buttons) == (True, False)
    assert "paused already" in press_again(browser, page.form_of("Pause"))
    resumed = browser.after(browser.press(paused, "Resume"))
    assert ("It goes on" in resumed.text, site.rows(_STATE, id="a")[0][0]) == (True, 0)
    assert "was not paused" in press_again(browser, paused.form_of("Resume"))

    assert [act[0] for act in site.acts()] == ["actor.pause"] * 2 + ["actor.resume"] * 2
    assert set(site.acts()) == {
        ("actor.pause", "actor", "Account/a", "olga"),
        ("actor.resume", "actor", "Account/a", "olga"),
    }
    assert "actor.pause" in resumed.text


def test_a_notice_is_shown_once(site: DashboardSite, browser: Browser) -> None:
    """What was done is said on the next page only, and a refetch does not take it away before."""
    site.Account.ref("a").pay(cents=1)
    answer = browser.press(browser.open(_ACTOR), "Pause")
    part = browser.get(answer.headers["Location"], **{"HX-Request": "true"}).text
    assert "It starts no more turns" not in part
    assert "It starts no more turns" in browser.after(answer).text
    assert "It starts no more turns" not in browser.open(_ACTOR).text


def test_retry_now(site: DashboardSite, browser: Browser) -> None:
    """A head that waits for its next attempt runs at once; nothing happens when nothing waits."""
    site.Account.ref("a").pay.send(cents=1)
    site.execute("UPDATE solid_objects_instances SET ready_at = '2999-01-01 00:00:00'")
    row = site.solid.runtime.core.store.administration._tables.ready_messages
    site.change(row.update().values(available_at=datetime(2999, 1, 1, tzinfo=UTC), delayed=True, blocking=True))
    page = browser.open(_ACTOR)
    assert "backing off" in page.text
    assert "tried again now" in browser.after(browser.press(page, "Try again now")).text
    site.drain()
    assert "Nothing waited" in press_again(browser, page.form_of("Try again now"))

    assert site.Account.ref("a").snapshot().cents == 1
    assert [act[0] for act in site.acts()] == ["actor.retry_now"] * 2


def test_skip(site: DashboardSite, browser: Browser) -> None:
    """Skip ends the message that the button names; when another one is the head by now, nothing happens."""
    account = site.Account.ref("a")
    first, second = account.pay.send(cents=1), account.pay.send(cents=2)
    page = browser.open(_ACTOR)
    button = f"Skip message {first.id}"
    assert f"Message {first.id} was skipped" in browser.after(browser.press(page, button)).text
    assert "Another message is at the head" in press_again(browser, page.form_of(button))
    site.drain()

    assert (first.status().value, second.status().value, account.snapshot().cents) == ("skipped", "completed", 2)
    assert "Another message is at the head" in press_again(browser, page.form_of(button))


def test_fail(site: DashboardSite, browser: Browser) -> None:
    """Fail makes the named message a dead letter, once."""
    message = site.Account.ref("a").pay.send(cents=1)
    page = browser.open(_ACTOR)
    button = f"Fail message {message.id}"
    done = browser.after(browser.press(page, button))
    assert f"Message {message.id} is a dead letter now" in done.text
    assert "Another message is at the head" in press_again(browser, page.form_of(button))

    assert message.status().value == "dead"
    assert site.rows("SELECT message_id FROM solid_objects_dead_letters") == [(message.id,)]
    assert site.acts()[0] == ("actor.fail", "actor", "Account/a", "olga")


def test_the_head_of_a_long_mailbox(site: DashboardSite, browser: Browser) -> None:
    """With more messages than a page shows, on every page the buttons name the one that is next."""
    account = site.Account.ref("a")
    first, *_ = [account.pay.send(cents=1) for _ in range(30)]
    page = browser.open(_ACTOR)
    older = browser.open(next(link for link in page.links if "before=" in link))
    assert f"Skip message {first.id}" in page.buttons
    assert f"Skip message {first.id}" in older.buttons
    browser.after(browser.press(page, f"Skip message {first.id}"))

    assert first.status().value == "skipped"


def test_send_by_form(site: DashboardSite, browser: Browser) -> None:
    """A form made of the signature sends one message however often it is pressed; the next form sends another."""
    page = browser.open("/send?type=Account&id=new&operation=pay")
    form = page.form_of("Send pay")
    answers = [browser.send(form, **{"argument.cents": "5", "argument.note": "line 1\nline 2"}) for _ in range(2)]
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert '"note": "line 1\\nline 2"' in browser.after(answers[0]).text
    other = browser.send(form, **{"argument.cents": "6"})
    assert (other.status_code, "idempotency" in other.text.lower()) == (422, True)
    again = browser.open("/send?type=Account&id=new&operation=pay").form_of("Send pay")
    browser.after(browser.send(again, **{"argument.cents": "7"}))
    site.drain()

    assert site.Account.ref("new").snapshot().cents == 12
    assert [act[:3] for act in site.acts()] == [("actor.send", "actor", "Account/new")] * 2


def test_send_wrong(site: DashboardSite, browser: Browser) -> None:
    """What does not fit comes back with 422, the reason, and the form as it was filled in; nothing is written."""
    before = site.everything()
    form = browser.open("/send?type=Account&id=a&operation=pay").form_of("Send pay")
    wrong = {
        "five": "is no JSON",
        '"five"': "expected `int`",
        "": "missing",
        "NaN": "is no JSON",
        "1e999": "is no JSON",
        "[" * 5000: "is no JSON",
        "9" * 30: "",
        '"\\ud800"': "",
    }
    for text, reason in wrong.items():
        answer = browser.send(form, **{"argument.cents": text, "argument.note": "<kept>"})

        page = Html(answer.text)

        assert (text[:9], answer.status_code) == (text[:9], 422)
        assert reason in page.text
        assert page.form_of("Send pay").fields["argument.cents"] == text
        assert page.form_of("Send pay").fields["argument.note"] == "<kept>"
    assert site.everything() == before


def test_unknown_sends(site: DashboardSite, browser: Browser) -> None:
    """Types, operations and ids that cannot be are pages, not errors; queries and reads cannot be sent."""
    token, before = browser.token(), site.everything()
    for given in (
        {"type": "Nobody", "id": "a", "operation": "pay"},
        {"type": "Account", "id": "a", "operation": "nothing"},
        {"type": "Account", "id": "a", "operation": "pin"},
        {"type": "Counter", "id": "a", "operation": "notes"},
        {"type": "Account", "id": "", "operation": "pay"},
        {"type": "Account", "id": "x" * 192, "operation": "pay"},
        {"type": "Account", "operation": "pay"},
    ):
        sent = browser.client.post(PREFIX + "/send", data={"solid_token": token, "once": "o", **given})
        assert (given, sent.status_code) == (given, 404)
        assert browser.client.get(PREFIX + "/send", query_string=given).status_code == 404
    once = {"solid_token": token, "type": "Account", "id": "a", "operation": "sign"}
    assert browser.client.post(PREFIX + "/send", data=once).status_code == 400
    assert site.everything() == before


def test_destroy(site: DashboardSite, browser: Browser) -> None:
    """Destroying needs the id typed exactly; a second time it was gone already."""
    site.Account.ref("a b").pay(cents=1)
    form = browser.open("/actor?type=Account&id=a+b").form_of("Destroy")
    for text in ("", "A B", "a b ", "Account/a b"):
        assert "Nothing was destroyed" in press_again(browser, form, confirmation=text)
    assert site.acts() == []
    assert "is destroyed" in press_again(browser, form, confirmation="a b")
    assert "was gone already" in press_again(browser, form, confirmation="a b")

    assert site.rows("SELECT count(*) FROM solid_objects_instances") == [(0,)]
    assert site.acts() == [("actor.destroy", "actor", "Account/a b", "olga")]
