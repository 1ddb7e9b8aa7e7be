"""What is sensitive is nowhere: in no page, no form, no command's output; and script text stays text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL

from tests.web.dashboard.html import Html
from tests.web.dashboard.routes import FORMS, PAGES
from tests.web.dashboard.site import Browser, DashboardSite, fill
from tests.web.test_cli import run, run_json

SCRIPT = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'`${{7*7}}{{ 7*7 }}"
_SECRET = "4711"


def pages(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> dict[str, str]:
    """The text of every page, of every message, and of every actor."""
    paths = [each.at(ids).path for each in PAGES + FORMS]
    paths += [f"/messages/{row[0]}" for row in site.rows("SELECT id FROM solid_objects_messages")]
    paths += [f"/dead-letters/{row[0]}/edit" for row in site.rows("SELECT id FROM solid_objects_dead_letters")]
    found = {}
    for path in paths:
        answer = browser.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text[:300]}"
        found[path] = answer.text
    for row in site.rows("SELECT actor_type, actor_id FROM solid_objects_instances"):
        actor_id = row[1].decode() if isinstance(row[1], bytes) else row[1]
        query = {"type": row[0], "id": actor_id}
        found[f"{query}"] = browser.client.get("/admin/solid/actor", query_string=query).text
    return found


def commands(site: DashboardSite, ids: dict[str, Any]) -> dict[str, str]:
    """What the commands print that show rows."""
    asked = [
        ("actors", "list"),
        ("actors", "show", "Account", "a"),
        ("dead-letters", "list"),
        ("dead-letters", "show", str(ids["dead_letter"])),
        ("dead-letters", "list", "--kind", "effect"),
        ("dead-letters", "list", "--kind", "broadcast"),
        ("effects", "list"),
        ("reminders", "list"),
    ]
    asked += [("dead-letters", "show", str(row[0])) for row in site.rows("SELECT id FROM solid_objects_dead_letters")]
    return {f"{each} {more}": run(site, *each, *more) for each in asked for more in ((), ("--json",))}


def test_secrets(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Sensitive state, arguments, results, reads, effects, sends and reminders are shown by nothing."""
    account = site.Account.ref("a")
    assert (account.sign(), account.pin) == ("sig-4711", "pin-4711")
    account.settle.send(card="card-4711")
    account.charge_card(card="card-4711")
    account.tell(other="c")
    site.drain()
    account.charge_card(card="card-4711")
    account.settle.send(card="card-4711")
    shown = pages(site, browser, ids) | commands(site, ids)

    assert {where: text for where, text in shown.items() if _SECRET in text} == {}
    assert "[hidden]" in " ".join(shown.values())
    (effect, *_) = run_json(site, "dead-letters", "list", "--kind", "effect")
    assert effect["arguments"] == {"card": "[hidden]", "cents": 5}
    assert {each["arguments"]["card"] for each in run_json(site, "reminders", "list")} == {"[hidden]"}


def test_unknown_types(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Of types, operations and effects that this process does not know, no value is shown."""
    site.Account.ref("a").refuse.send(why="why-4711")
    site.drain()
    site.solid.registry._definitions.pop("Account")
    site.solid.registry.effects.mapping().clear()  # type: ignore[attr-defined]
    numbers = [row[0] for row in site.rows("SELECT id FROM solid_objects_messages")]
    texts = {number: browser.get(f"/messages/{number}").text for number in numbers}
    texts[0] = browser.open("/actor?type=Account&id=a").text
    texts |= dict(enumerate(commands(site, ids).values(), start=10**6))

    assert {where: text for where, text in texts.items() if _SECRET in text or "Elm Street" in text} == {}
    assert "this process does not know" in texts[0]
    assert browser.get(f"/dead-letters/{ids['dead_letter']}/edit").status_code == 404


def test_leftovers(site: DashboardSite, browser: Browser) -> None:
    """State and arguments under names that the class has no more are not shown, since nobody can say what they were."""
    message = site.Account.ref("a").fail.send(text="x")
    site.execute("UPDATE solid_objects_instances SET state = :state", state='{"cents":1,"old_pin":"old-4711"}')
    site.execute("UPDATE solid_objects_messages SET arguments = :text", text='{"text":"seen","old_card":"old-4711"}')
    actor, shown = browser.open("/actor?type=Account&id=a").text, browser.open(f"/messages/{message.id}").text

    assert ("4711" in actor + shown, "old_pin" in actor, "old_card" in shown, "seen" in shown) == (
        False,
        True,
        True,
        True,
    )


def test_hook(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """The hook of a type sees every value without what is sensitive, and what it returns is shown instead."""
    seen: list[tuple[str, str | None, Any]] = []

    @site.solid.redact("Account")
    def hide(what: str, operation: str | None, value: Any) -> Any:
        seen.append((what, operation, value))
        return "masked"

    site.Account.ref("a").refuse.send(why="why-1")
    site.Account.ref("a").pay(cents=77)
    site.drain()
    shown = pages(site, browser, ids)

    assert {what for what, _, _ in seen} == {"state", "arguments", "result", "rejection"}
    assert [value for _, _, value in seen if _SECRET in str(value)] == []
    assert {where: text for where, text in shown.items() if "Elm Street" in text or "why-1" in text} == {}
    assert "masked" in shown["{'type': 'Account', 'id': 'a'}"]


@pytest.mark.parametrize("answer", [ZeroDivisionError("secret-4711"), object(), {"x": object()}, float("nan")])
def test_failing_hook(site: DashboardSite, browser: Browser, ids: dict[str, Any], answer: Any) -> None:
    """A hook that raises, or returns what is no JSON, hides the value and says so; the page is there."""

    @site.solid.redact("Account")
    def hide(what: str, operation: str | None, value: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    text = browser.get("/actor?type=Account&id=a").text
    listed = run(site, "dead-letters", "show", str(ids["dead_letter"]), "--json")

    assert ("the redaction hook failed" in text, "Elm Street" in text, _SECRET in text) == (True, False, False)
    assert ("the redaction hook failed" in listed, _SECRET in listed) == (True, False)


def test_long_values(site: DashboardSite, browser: Browser) -> None:
    """Values are cut at the limit, and say how long they are."""
    site.Account.ref("a").pay(cents=1, note="n" * 5000)
    message = site.rows("SELECT max(id) FROM solid_objects_messages")[0][0]
    text = browser.open(f"/messages/{message}").text

    assert ("n" * 1900 in text, "n" * 2001 in text, "characters)" in text) == (True, False, True)


@pytest.fixture
def scripted(database_url: URL) -> Iterator[tuple[DashboardSite, dict[str, Any]]]:
    """A site whose every text is script."""
    site = DashboardSite(database_url)
    with site.ready(made=True):
        ids = fill(site)
        account = site.Account.ref(SCRIPT)
        account.pay(cents=1, note=SCRIPT)
        account.fail.send(text=SCRIPT)
        account.refuse.using(idempotency_key=SCRIPT).send(text=SCRIPT, why=SCRIPT)
        account.arm(key=SCRIPT)
        account.charge_card()
        site.drain()
        account.pay.send(cents=1)
        browser = Browser(site, user="x")
        with browser.client.session_transaction() as session:
            session["user"] = SCRIPT
        browser.after(browser.press(browser.client_page("actor", type="Account", id=SCRIPT), "Pause"))
        error = '{"class": "<script>E</script>", "message": "<script>M</script>", "backtrace": ["<script>B</script>"]}'
        for table in ("effects", "broadcasts", "reminders"):
            site.execute(f"UPDATE solid_objects_{table} SET error = :error", error=error)
        dead = "UPDATE solid_objects_messages SET error = :error WHERE id = :id"
        site.execute(dead, error=error, id=ids["dead_message"])
        site.execute("UPDATE solid_objects_broadcasts SET observable_name = :text", text=SCRIPT)
        site.execute("UPDATE solid_objects_effects SET name = :text", text=SCRIPT)
        site.execute("UPDATE solid_objects_dead_letters SET exception_class = :text", text="<script>C</script>")
        site.execute("UPDATE solid_objects_processes SET hostname = :text", text="<script>H</script>")
        site.execute(
            "UPDATE solid_objects_instances SET parked_until = '2999-01-01 00:00:00', parked_error = :e", e=error
        )
        yield site, ids


def test_script_text(scripted: tuple[DashboardSite, dict[str, Any]]) -> None:
    """Text that would be script in ids, arguments, errors, keys, names and operators is text on every page."""
    site, ids = scripted
    browser = Browser(site)
    shown = pages(site, browser, ids)
    shown["filters"] = browser.client.get(
        "/admin/solid/actors", query_string={"type": SCRIPT, "prefix": SCRIPT, "lease": SCRIPT}
    ).text
    shown["unknown"] = browser.client.get("/admin/solid/actor", query_string={"type": SCRIPT, "id": SCRIPT}).text
    shown["dead"] = browser.client.get("/admin/solid/dead-letters", query_string={"type": SCRIPT, "kind": SCRIPT}).text
    wrong = {where: page.inline for where, text in shown.items() if (page := Html(text)).inline}

    assert wrong == {}
    for mark in ("E", "M", "B", "C"):
        assert f"&lt;script&gt;{mark}&lt;/script&gt;" in " ".join(shown.values())
    assert {
        where
        for where, text in shown.items()
        if "<script>" in text or "<img" in text or "49" in Html(text).text.split()
    } == set()


def test_script_in_json_outputs(scripted: tuple[DashboardSite, dict[str, Any]]) -> None:
    """The metrics cannot be forged by a name."""
    site, _ = scripted
    lines = Browser(site).get("/metrics").text.splitlines()

    assert [
        line
        for line in lines
        if not line.startswith(("# HELP solid_objects_", "# TYPE solid_objects_", "solid_objects_"))
    ] == []
