"""Retries of what died: messages as they were or edited, effects, broadcasts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.web.dashboard.html import Html
from tests.web.dashboard.site import Browser, DashboardSite


def die(site: DashboardSite, operation: str, **arguments: Any) -> tuple[int, int]:
    """The ids of a message that died, and of its dead letter."""
    message = getattr(site.Account.ref("a"), operation).send(**arguments)
    site.drain()
    (row,) = site.rows("SELECT id FROM solid_objects_dead_letters WHERE message_id = :id", id=message.id)
    return message.id, row[0]


def stored(site: DashboardSite, message_id: int) -> Any:
    """The arguments of a message."""
    detail = site.solid.runtime.core.database.read(
        lambda tx: site.solid.runtime.core.store.timeline.detail(tx, message_id)
    )
    assert detail is not None
    return json.loads(detail.arguments)


def copies(site: DashboardSite, message_id: int) -> list[int]:
    """The messages that were sent instead of one."""
    rows = site.rows("SELECT id FROM solid_objects_messages WHERE caused_by = :id ORDER BY id", id=message_id)
    return [row[0] for row in rows]


def test_retry(site: DashboardSite, browser: Browser) -> None:
    """A dead message is sent again, linked to it, which stays as it is; twice gives the same one."""
    message_id, letter = die(site, "fail", text="broken")
    page = browser.open("/dead-letters")
    first = browser.press(page, "Send again")
    second = browser.press(page, "Send again")
    (copy,) = copies(site, message_id)
    shown = browser.after(first)

    assert first.headers["Location"] == second.headers["Location"] == f"/admin/solid/messages/{copy}"
    assert (stored(site, copy), f"message {message_id}" in shown.text) == (stored(site, message_id), True)
    assert "Send again" not in browser.open("/dead-letters").buttons
    assert f"/admin/solid/messages/{copy}" in browser.open("/dead-letters").links
    assert site.acts()[0] == ("dead_letter.retry", "message", str(letter), "olga")


def test_edited_retry(site: DashboardSite, browser: Browser) -> None:
    """Other arguments make a new message that is linked to the one that died."""
    message_id, letter = die(site, "fail", text="broken")
    link = next(link for link in browser.open(f"/messages/{message_id}").links if link.endswith("/edit"))
    form = browser.open(link).form_of("Send")
    assert form.fields["argument.text"] == "broken"
    browser.after(browser.send(form, **{"argument.text": "mended"}))
    (copy,) = copies(site, message_id)

    assert (stored(site, copy), stored(site, message_id)) == ({"text": "mended"}, {"text": "broken"})
    assert browser.send(form, **{"argument.text": "mended"}).headers["Location"].endswith(f"/{copy}")
    assert browser.send(form, **{"argument.text": "again"}).status_code == 422
    assert copies(site, message_id) == [copy]
    assert site.acts()[0] == ("dead_letter.retry", "message", str(letter), "olga")


def test_a_plain_retry_after_an_edited_one(site: DashboardSite, browser: Browser) -> None:
    """Who still has the old page learns that it was sent again with other arguments."""
    message_id, letter = die(site, "fail", text="broken")
    old = browser.open("/dead-letters")
    form = browser.open(f"/dead-letters/{letter}/edit").form_of("Send")
    browser.after(browser.send(form, **{"argument.text": "mended"}))

    assert browser.press(old, "Send again").status_code == 409
    assert len(copies(site, message_id)) == 1


@pytest.mark.parametrize(
    "text",
    ["", " ", "two\nlines", "\nfirst", "with\rreturn", "\r\n", "{}", "null", "<b>&amp;</b>", "ü\U0001f600", "x" * 3000],
)
def test_an_untouched_form_changes_nothing(site: DashboardSite, browser: Browser, text: str) -> None:
    """Sending the form as it came gives the same arguments, whatever text they are."""
    message_id, letter = die(site, "fail", text=text)
    browser.after(browser.press(browser.open(f"/dead-letters/{letter}/edit"), "Send"))
    (copy,) = copies(site, message_id)

    assert stored(site, copy) == stored(site, message_id)


def test_misfits(site: DashboardSite, browser: Browser) -> None:
    """Wrong JSON and arguments that do not fit come back as they were typed, with 422; nothing is written."""
    message_id, letter = die(site, "settle", card="card-4711", cents=5)
    form = browser.open(f"/dead-letters/{letter}/edit").form_of("Send")
    before = site.everything()
    for text in ("five", '"five"', "[1", "NaN"):
        answer = browser.send(form, **{"argument.card": "new", "argument.cents": text})
        page = Html(answer.text)
        assert (answer.status_code, page.form_of("Send").fields["argument.cents"]) == (422, text)
        assert "arguments.cents" in page.text
    assert site.everything() == before
    assert copies(site, message_id) == []


def test_what_is_hidden_is_given_anew(site: DashboardSite, browser: Browser) -> None:
    """A sensitive argument is not in the form, and is neither left out nor sent as its mask."""
    message_id, letter = die(site, "settle", card="card-4711", cents=5)
    answer = browser.get(f"/dead-letters/{letter}/edit")
    form = Html(answer.text).form_of("Send")
    assert ("4711" in answer.text, form.fields["argument.card"], form.fields["argument.cents"]) == (False, "", "5")
    refused = browser.send(form)
    assert (refused.status_code, "is hidden: give it anew" in refused.text) == (422, True)
    browser.after(browser.send(form, **{"argument.card": "card-1"}))
    (copy,) = copies(site, message_id)

    assert stored(site, copy) == {"card": "card-1", "cents": 5}


def test_a_masking_hook(site: DashboardSite, browser: Browser) -> None:
    """What the redaction hook masks has to be given anew too, so that no mask is ever sent."""
    site.solid.redact("Account")(lambda what, operation, value: {**value, "text": "****"} if "text" in value else value)
    message_id, letter = die(site, "fail", text="broken")
    form = browser.open(f"/dead-letters/{letter}/edit").form_of("Send")
    assert form.fields["argument.text"] == ""
    assert browser.send(form).status_code == 422
    browser.after(browser.send(form, **{"argument.text": "mended"}))
    (copy,) = copies(site, message_id)

    assert stored(site, copy) == {"text": "mended"}


def test_missing_letters(site: DashboardSite, browser: Browser) -> None:
    """Retries of what is gone are 404 and leave no event."""
    token, before = {"solid_token": browser.token()}, site.everything()
    for path in ("/dead-letters/9/retry", "/dead-letters/9/edit", "/effects/x/retry", "/broadcasts/x/retry"):
        assert browser.client.post(f"/admin/solid{path}", data=token).status_code == 404
    assert browser.get("/dead-letters/9/edit").status_code == 404
    assert site.everything() == before


@pytest.mark.parametrize("kind", ["effect", "broadcast"])
def test_outboxes(site: DashboardSite, browser: Browser, ids: dict[str, Any], kind: str) -> None:
    """A dead effect or broadcast starts from the beginning, under its id; a second time changes nothing more."""
    page = browser.open(f"/dead-letters?kind={kind}")
    table, column = f"solid_objects_{kind}s", f"{kind}_id"
    for _ in range(2):
        assert "is pending" in browser.after(browser.press(page, "Retry")).text
        row = site.rows(f"SELECT status, attempt_count FROM {table} WHERE {column} = :id", id=ids[kind])
        assert row == [("pending", 0)]
    assert site.acts() == [(f"{kind}.retry", kind, ids[kind], "olga")] * 2
    assert "There are none." in browser.open(f"/dead-letters?kind={kind}").text
