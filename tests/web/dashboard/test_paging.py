"""Lists that are longer than a page: each row once, in order, whatever the ids and the times are."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from flask_solid_objects.runtime.browsing import PAGE
from flask_solid_objects.values import ActorKey
from tests.web.dashboard.html import Html
from tests.web.dashboard.site import PREFIX, Browser, DashboardSite

ODD_IDS = [
    *(" ", "  ", "0", ".", "..", "%", "%2F", "a/b", "a?b=c&d#e", "+", "a+b", "'", '"', "\\", "a\tb", "a\nb"),
    *("ä", "ß", "ẞ", "日本", "\U0001f600", "\U0010ffff", "e\u0301", "é", "a", "A", "a ", "null", "None", "False"),
    *("x" * 191, "x" * 190 + "y", "\U0001f600" * 191, "<b>", "{{ 1 }}", "-1", "\u202eabc", "\ufeff", "\xa0", "\x7f"),
]
LISTS = [
    "/actors",
    "/actors?type=Account",
    "/actors?lease=paused",
    "/mailbox",
    "/mailbox?status=running",
    "/reminders",
    "/reminders?status=scheduled",
    "/effects",
    "/effects?type=Account",
    "/broadcasts",
    "/dead-letters",
    "/dead-letters?type=Account",
    "/dead-letters?kind=effect",
    "/audit",
    "/actor?type=Account&id=a",
]


def rows(text: str) -> list[str]:
    """The rows of a page, by what tells them apart; of an actor the sequences of its turns."""
    body = text[text.index("<main") :]
    listed = re.findall(r"<tr>(?!<th)(.*?)</tr>", body, re.DOTALL) if 'class="timeline"' not in body else []
    listed += re.findall(r'class="seq">(\d+)<', body)
    return [html.unescape(re.sub(r"<time.*?</time>|<[^>]*>", " ", row)) for row in listed]


def actor_links(browser: Browser, path: str) -> list[str]:
    """The links to actors, over all pages of a list."""
    links = [link for text in browser.walk(path) for link in Html(text).links]
    return [link for link in links if urlsplit(link).path == PREFIX + "/actor"]


def ids_of(links: list[str]) -> list[str]:
    return [parse_qs(urlsplit(link).query, keep_blank_values=True)["id"][0] for link in links]


def test_actors(site: DashboardSite, browser: Browser) -> None:
    """Of all actors and of one type each is listed once, those of a type in the order of their ids."""
    for actor_id in ODD_IDS:
        site.Account.ref(actor_id).pay.send(cents=1)
    site.Counter.ref("z").increment.send()
    of_type = browser.walk("/actors?type=Account")

    assert [len(rows(text)) for text in of_type] == [PAGE, len(ODD_IDS) - PAGE]
    assert ids_of(actor_links(browser, "/actors?type=Account")) == sorted(ODD_IDS, key=str.encode)
    assert sorted(ids_of(actor_links(browser, "/actors"))) == sorted([*ODD_IDS, "z"])


@pytest.mark.parametrize("prefix", ["x", "a", "%", "\U0010ffff", "\U0001f600", " ", "\\", "_", "x" * 191, "x" * 300])
def test_prefixes(site: DashboardSite, browser: Browser, prefix: str) -> None:
    """The beginning of an id means these characters, byte for byte, and no pattern."""
    for actor_id in ODD_IDS:
        site.Account.ref(actor_id).pay.send(cents=1)
    page = browser.client.get(PREFIX + "/actors", query_string={"type": "Account", "prefix": prefix})

    assert page.text.count("<tr><td>") == len([each for each in ODD_IDS if each.startswith(prefix)])


def test_odd_ids(site: DashboardSite, browser: Browser) -> None:
    """Every link to an actor leads to that actor, and its buttons act on it alone."""
    for actor_id in ODD_IDS:
        site.Account.ref(actor_id).pay.send(cents=1)
    links = actor_links(browser, "/actors?type=Account")
    for link in links:
        page = browser.open(link)
        form = page.form_of("Pause")
        answer = browser.send(form)
        assert form.action.replace("/pause?", "/resume?") == browser.after(answer).form_of("Resume").action
    paused = site.rows("SELECT count(*) FROM solid_objects_instances WHERE paused_at IS NOT NULL")

    assert (len(links), paused) == (len(ODD_IDS), [(len(ODD_IDS),)])
    for actor_id in ("x" * 191, "a", "A", "a "):
        history = site.solid.runtime.browsing.actor(
            ActorKey(actor_type="Account", actor_id=actor_id), context="olga"
        ).history
        assert [event.action for event in history] == ["actor.pause"]


def fill_lists(site: DashboardSite) -> dict[str, int]:
    """More than two pages of everything, all at the same times; how many rows each list has."""
    many = 2 * PAGE + 5
    tables = site.solid.runtime.core.store.administration._tables
    account = site.Account.ref("a")
    for number in range(many):
        account.pay(cents=1, note=f"n{number}")
        account.charge_card()
        account.arm(key=f"k{number}")
        site.Account.ref(f"d{number}").fail.send(text="broken")
    site.drain()
    for number in range(many):
        account.charge_card()
        site.Account.ref(f"w{number}").pay.send(cents=1)
    for number in range(many):
        site.solid.runtime.operators.pause(ActorKey(actor_type="Account", actor_id=f"d{number}"), context="x")
    same = datetime(2020, 1, 1, tzinfo=UTC)
    site.change(tables.ready_messages.update().values(available_at=same))
    site.change(tables.reminders.update().values(next_run_at=same))
    site.change(tables.effects.update().values(available_at=same, created_at=same))
    site.change(tables.administration_events.update().values(occurred_at=same))
    site.change(tables.dead_letters.update().values(last_failed_at=same))
    instances = site.rows("SELECT id FROM solid_objects_instances")
    count = lambda statement: site.rows(f"SELECT count(*) FROM solid_objects_{statement}")[0][0]  # noqa: E731
    return {
        "/actors": len(instances),
        "/actors?type=Account": len(instances),
        "/actors?lease=paused": many,
        "/mailbox": many,
        "/mailbox?status=running": 0,
        "/reminders": many,
        "/reminders?status=scheduled": many,
        "/effects": many,
        "/effects?type=Account": many,
        "/broadcasts": count("broadcasts"),
        "/dead-letters": many,
        "/dead-letters?type=Account": many,
        "/dead-letters?kind=effect": many,
        "/audit": many,
        "/actor?type=Account&id=a": count("messages WHERE actor_id = 'a'"),
    }


def test_lists(site: DashboardSite, browser: Browser) -> None:
    """Each list over several pages gives each row once, with all times equal."""
    expected = fill_lists(site)
    assert set(expected) == set(LISTS)
    for path, count in expected.items():
        pages = [rows(text) for text in browser.walk(path)]
        found = [row for page in pages for row in page]
        full = {len(page) for page in pages[:-1]}

        assert (path, len(found), full <= {PAGE}) == (path, count, True)
        if path not in ("/audit", "/broadcasts"):
            assert (path, len(set(found))) == (path, count)


@pytest.mark.parametrize("path", LISTS)
def test_odd_cursors(site: DashboardSite, browser: Browser, path: str) -> None:
    """A cursor that no page gave is 404 or an empty page, never an error of the server."""
    site.Account.ref("a").pay(cents=1)
    odd = ["-1", "0", "x", "1e3", "9" * 18, "9" * 19, "9" * 40, "٣", " 1", "1_000", "\0", "a\0b", "2020-01-01_1_2"]
    odd += ["2020-01-01T00:00:00+00:00_1_2", "0001-01-01T00:00:00+14:00_1_2", "9999-12-31T23:59:59.999999+00:00_1_2"]
    odd += ["2020-01-01T00:00:00+00:00_-1_2", f"2020-01-01T00:00:00+00:00_{'9' * 30}_2", "_", "__", "a_b_c", "%", "'"]
    for name in ("after", "before"):
        for text in odd:
            query = query_of(path) | {name: text}
            answer = browser.client.get(PREFIX + path.partition("?")[0], query_string=query)

            assert (name, text, answer.status_code in (200, 400, 404)) == (name, text, True), answer.text[:500]


def query_of(path: str) -> dict[str, Any]:
    _, _, query = path.partition("?")
    return dict(pair.split("=") for pair in query.split("&")) if query else {}


@pytest.mark.parametrize("number", ["0", "9" * 18, "9223372036854775807", "9223372036854775808", "9" * 40])
def test_odd_numbers(site: DashboardSite, browser: Browser, number: str) -> None:
    """A row that cannot be is not there."""
    token = {"solid_token": browser.token()}
    assert browser.get(f"/messages/{number}").status_code == 404
    assert browser.get(f"/dead-letters/{number}/edit").status_code == 404
    for path in (f"/reminders/{number}/run", f"/dead-letters/{number}/retry", f"/dead-letters/{number}/edit"):
        assert browser.client.post(PREFIX + path, data=token).status_code in (404, 405)


@pytest.mark.parametrize("text", ["\0", "a\0b", "x" * 5000, "%", "'", "\U0010ffff", "é" * 300])
def test_odd_texts(site: DashboardSite, browser: Browser, text: str) -> None:
    """Filters and names of any text find nothing, and no server fails on them."""
    for page in ("actors", "mailbox", "reminders", "effects", "broadcasts", "dead-letters", "actor", "send", "audit"):
        for name in ("type", "prefix", "lease", "status", "kind", "id", "operation"):
            query = {"type": "Account", "id": "a", name: text}
            status = browser.client.get(f"{PREFIX}/{page}", query_string=query).status_code
            assert (page, name, status in (200, 400, 404)) == (page, name, True)
    token = browser.token()
    for path in ("/redrives/start", "/actor/pause", "/actor/destroy", "/actor/skip", "/send"):
        for name in ("kind", "type", "id", "limit", "message_id", "confirmation", "once", "operation"):
            form = {"type": "Account", "id": "a", "kind": "effect", "once": "o", "operation": "sign", name: text}
            status = browser.client.post(PREFIX + path, data=form | {"solid_token": token}).status_code
            assert (path, name, status in (303, 400, 404, 422)) == (path, name, True)
    for path in ("/effects/{}/retry", "/broadcasts/{}/retry", "/redrives/{}/cancel"):
        answer = browser.client.post(PREFIX + path.format(quote(text)), data={"solid_token": token})
        assert (path, answer.status_code) in ((path, 404), (path, 400))
