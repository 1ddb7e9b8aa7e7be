"""Retrying many from the dashboard: the list's filters, the preview, the one press that starts it, and the progress."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import URL
from werkzeug.test import TestResponse

from flask_solid_objects import Access, Actor, EffectContext, attribute, operation
from flask_solid_objects.runtime.redriving import Redriving
from tests.apps import AppUnderTest
from tests.runtime.outboxes.operating import Denying, finish

AT = "/admin/solid"


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    """An app with a dashboard, a dead message of each of two operations and errors, a dead effect and broadcast."""
    under_test = AppUnderTest(
        database_url,
        SOLID_OBJECTS_MAX_ATTEMPTS=1,
        SOLID_OBJECTS_REDRIVE_BATCH_PAUSE=0.0,
        SOLID_OBJECTS_REDRIVE_BATCH_SIZE=1,
    )
    solid = under_test.solid

    @solid.effect
    def charge(context: EffectContext, *, amount: int) -> None:
        raise RuntimeError("the bank is away")

    @solid.actor
    class Till(Actor):
        total: int = attribute(0, observable=True)

        @operation
        def add(self) -> str:
            self.total += 1
            return charge.emit(amount=1)

        @operation
        def refuse(self) -> None:
            raise RuntimeError("the till is shut")

        @operation
        def break_down(self) -> None:
            raise LookupError("the drawer is gone")

    under_test.app.register_blueprint(solid.dashboard())
    with under_test.ready(made=True) as ready:
        till = Till.ref("a")
        till.add()
        till.refuse.send()
        till.break_down.send()
        till.refuse.send()
        for role in (solid.runtime.worker(), solid.runtime.effect_worker()):
            while role.run_once():
                pass
            leave = getattr(role, "_leave", None)
            if leave is not None:
                leave()
        with ready.db.engine.begin() as connection:
            connection.execute(ready.db.text("UPDATE solid_objects_broadcasts SET status = 'dead'"))
        yield ready


@pytest.fixture
def policy(app: AppUnderTest) -> Denying:
    """Allows everything until a test says otherwise, and remembers what it was asked."""
    made = Denying()

    @app.solid.authorize_administration
    def ask(access: Access) -> bool:
        return made(access)

    return made


@pytest.fixture
def client(app: AppUnderTest, policy: Denying) -> FlaskClient:
    return app.app.test_client()


def get(client: FlaskClient, path: str, status: int = 200, **query: str) -> str:
    answer = client.get(AT + path, query_string=query)
    assert answer.status_code == status
    return html.unescape(answer.text)


def press(client: FlaskClient, page: str, action: str, **changes: str) -> TestResponse:
    """Send the form of a page as a browser without scripts does."""
    form = re.search(rf'<form[^>]*action="{AT}{action}"[^>]*>(.*?)</form>', page, re.DOTALL)
    assert form is not None, page
    given = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form[1]))
    return client.post(AT + action, data={**given, **changes})


def events(app: AppUnderTest) -> list[tuple[Any, ...]]:
    statement = "SELECT action, kind FROM solid_objects_administration_events ORDER BY id"
    with app.db.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(app.db.text(statement))]


def test_filters_of_the_list(client: FlaskClient) -> None:
    """Dead letters are filtered by operation and error class, and the form to retry them carries these filters."""
    every, some = get(client, "/dead-letters"), get(client, "/dead-letters", operation="refuse", error="RuntimeError")
    none = get(client, "/dead-letters", operation="refuse", error="LookupError")

    assert (every.count(">refuse</a>"), every.count(">break_down</a>")) == (2, 1)
    assert (some.count(">refuse</a>"), some.count(">break_down</a>")) == (2, 0)
    assert 'name="operation" value="refuse"' in some.split("Retry all like these…")[1]
    assert 'name="error" value="RuntimeError"' in some.split("Retry all like these…")[1]
    assert ("There are no" in none, "Retry all like these…" in none) == (True, False)


@pytest.mark.parametrize(
    ("kind", "filters", "number", "resource"),
    [
        ("message", {"type": "Till", "operation": "refuse", "error": "RuntimeError"}, 2, "dead_letters"),
        ("message", {"limit": "1"}, 1, "dead_letters"),
        ("effect", {"type": "Till"}, 1, "effect_dead_letters"),
        ("broadcast", {}, 1, "broadcast_dead_letters"),
    ],
)
def test_from_the_preview_to_the_progress(
    app: AppUnderTest,
    client: FlaskClient,
    policy: Denying,
    kind: str,
    filters: dict[str, str],
    number: int,
    resource: str,
) -> None:
    """A preview counts and asks to look; its button asks once and starts it; the redrives page shows how far it is."""
    page = get(client, "/redrives/preview", kind=kind, **filters)

    assert f"<strong>{number}</strong>" in page
    assert policy.asked.count(("preview", resource, None)) == 1
    assert events(app) == []

    policy.asked.clear()
    answer = press(client, page, "/redrives/start")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{AT}/redrives")
    assert policy.asked == [("redrive", resource, None)]
    assert events(app) == [("redrive.start", kind)]

    running = get(client, "/redrives")
    assert f'<progress max="{number}" value="0">' in running
    assert all(value in running for name, value in filters.items() if name != "limit")
    press(client, page, "/redrives/start")
    assert events(app) == [("redrive.start", kind)]

    runtime = app.solid.runtime
    finish(Redriving(runtime.core, runtime.wake_ups))
    assert f"{number} revived" in get(client, "/redrives")
    assert events(app) == [("redrive.start", kind), ("redrive.finish", kind)]


def test_no_token(app: AppUnderTest, client: FlaskClient, policy: Denying) -> None:
    """A press without the token of the session starts nothing, and asks nobody."""
    page = get(client, "/redrives/preview", kind="message")
    policy.asked.clear()

    assert press(client, page, "/redrives/start", solid_token="").status_code == 403
    assert (policy.asked, events(app)) == ([], [])


def test_rights(app: AppUnderTest, client: FlaskClient, policy: Denying) -> None:
    """Who may only look gets a preview without a button, and his press is refused; who may not preview gets no form."""
    page = get(client, "/redrives/preview", kind="message")
    policy.denied = {"redrive"}
    shown = get(client, "/redrives/preview", kind="message")

    assert ("You may look" in shown, "/redrives/start" in shown) == (True, False)
    assert press(client, page, "/redrives/start").status_code == 403
    policy.denied = {"preview"}
    get(client, "/redrives/preview", status=403, kind="message")
    assert "Retry all like these…" not in get(client, "/dead-letters")
    assert events(app) == []


def test_nothing_to_retry(client: FlaskClient) -> None:
    """A preview of nothing has no button."""
    page = get(client, "/redrives/preview", kind="message", operation="other")

    assert ("There is nothing to retry." in page, "/redrives/start" in page) == (True, False)


@pytest.mark.parametrize("limit", ["0", "-1", "x", "9" * 40, "²"])
def test_wrong_limit(app: AppUnderTest, client: FlaskClient, limit: str) -> None:
    """A wrong limit leads back to the list with its filters, and says what is right."""
    answer = client.get(
        f"{AT}/redrives/preview", query_string={"kind": "message", "operation": "refuse", "limit": limit}
    )

    assert (answer.status_code, events(app)) == (303, [])
    assert answer.headers["Location"] == f"{AT}/dead-letters?kind=message&operation=refuse"
    assert "at most is a number from 1 on" in get(client, "/dead-letters")


def test_hostile_filters(client: FlaskClient) -> None:
    """Script text in a filter is text."""
    evil = '"><script>alert(1)</script>'
    given = {"kind": "message", "operation": evil, "error": evil, "type": evil}
    for path in ("/dead-letters", "/redrives/preview"):
        text = client.get(AT + path, query_string=given).text
        assert ("<script>alert" in text, "&lt;script&gt;alert" in text) == (False, True)
