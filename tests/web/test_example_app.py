"""Pages of the example: what a form needs, what a page may run, the chat. ``tests/example`` plays the guides."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from example_app import create_app
from example_app.actors import solid
from example_app.chat import ChatRoom

PAGE = "/events/night-of-strings"
PAGES = [PAGE, "/orders", "/customers/ada", "/chat/lobby"]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    app = create_app({"SQLALCHEMY_DATABASE_URI": f"sqlite:///{tmp_path / 'shop.sqlite3'}"})
    app.instance_path = str(tmp_path)
    app.config["SOLID_OBJECTS_RETRY_DELAY"] = lambda attempt: 0.0
    app.test_cli_runner().invoke(args=["seed"], catch_exceptions=False)
    yield app
    with app.app_context():
        solid.runtime.close()
        for engine in app.extensions["sqlalchemy"].engines.values():
            engine.dispose()


def settle(app: Flask) -> None:
    """Run everything that is due: actors, effects, messages between actors, reminders."""
    with app.app_context():
        solid.testing.drain(skip_backoff=True)


# -- pages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", [f"{PAGE}/hold", f"{PAGE}/release", f"{PAGE}/confirm", "/customers/ada/jobs"])
def test_forms_need_their_token(app: Flask, act: str) -> None:
    """A form from elsewhere is refused."""
    client = app.test_client()
    client.get(PAGE)

    assert [client.post(act, data=data).status_code for data in ({}, {"token": "wrong"}, {"token": "é"})] == [403] * 3


@pytest.mark.parametrize("path", PAGES)
def test_pages_run_only_files_of_the_site(app: Flask, path: str) -> None:
    """The policy allows this site's own files, and the page has no inline style or script to need more."""
    response: Any = app.test_client().get(path)

    assert response.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert not re.search(r"<script(?![^>]* src=)|<style|style=|onclick", response.text)


def test_an_event_that_is_not_there_has_no_page(app: Flask) -> None:
    """The answer says how to make one."""
    response: Any = app.test_client().get("/events/none")

    assert (response.status_code, "example_app seed" in response.text) == (404, True)


@pytest.mark.parametrize("name", ["%00", "x" * 999])
def test_a_name_that_no_actor_can_have_has_no_page(app: Flask, name: str) -> None:
    """An address that somebody made up is not found, whatever it holds."""
    assert app.test_client().get(f"/events/{name}").status_code == 404


def test_errors_look_like_every_other_page(app: Flask) -> None:
    """An address that is not there, and a form without its token, answer with a page of the shop."""
    client = app.test_client()
    answers = [client.get("/nowhere"), client.post("/events/night-of-strings/hold")]

    assert [answer.status_code for answer in answers] == [404, 403]
    assert all("shop.css" in answer.text and "Small Hall" in answer.text for answer in answers)


@pytest.mark.parametrize("values", [{"key": "nonsense"}, {"key": "a\0b"}, {"seat": "A" * 500}, {}])
def test_a_bent_form_is_answered(app: Flask, values: dict[str, str]) -> None:
    """Fields that no page of the shop sends lead back to the page, not to an error."""
    client = app.test_client()
    token = re.search(r'name="token" value="([^"]+)"', client.get(PAGE).text)
    assert token is not None
    data = {"token": token.group(1), **values}

    assert [client.post(f"{PAGE}/{act}", data=data).status_code for act in ("hold", "release", "confirm")] == [303] * 3


def test_a_form_that_cannot_be_stored_is_refused(app: Flask) -> None:
    """A NUL character in a form is the mistake of whoever sent it, also where it would be part of a key."""
    client = app.test_client()
    token = re.search(r'name="token" value="([^"]+)"', client.get(PAGE).text)
    assert token is not None
    data = {"token": token.group(1), "key": "ab", "seat": "A\0", "card": "A\0", "title": "A\0"}
    paths = [f"{PAGE}/hold", f"{PAGE}/release", f"{PAGE}/confirm", "/customers/ada/jobs"]

    assert [client.post(path, data=data).status_code for path in paths] == [400] * 4


def test_seeding_twice_changes_nothing(app: Flask) -> None:
    """The seed command may be run again."""
    result = app.test_cli_runner().invoke(args=["seed"], catch_exceptions=False)

    assert "on sale already" in result.output


# -- chat --------------------------------------------------------------------------------------


def test_what_is_said_is_seen_by_all(app: Flask) -> None:
    """Two people in a room see each other's words, each with their own on their side, and who is there."""
    clients = [app.test_client(), app.test_client()]
    for client, name in zip(clients, ("Ann", "Bob"), strict=True):
        token = re.search(r'name="token" value="([^"]+)"', client.get("/chat/lobby").text)
        assert token is not None
        client.post("/chat/lobby/join", data={"token": token.group(1), "name": name})
        client.post("/chat/lobby/say", data={"token": token.group(1), "text": f"<i>{name}</i> here"})
    settle(app)
    pages = [client.get("/chat/lobby").text for client in clients]

    assert all("&lt;i&gt;Ann&lt;/i&gt; here" in page and "&lt;i&gt;Bob&lt;/i&gt; here" in page for page in pages)
    assert [page.count("line own") for page in pages] == [1, 1]
    with app.app_context():
        assert ChatRoom.ref("lobby").snapshot().people == 2


def test_who_has_gone_quiet_leaves_the_room(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reminder takes out whose page has been silent."""
    monkeypatch.setattr(sys.modules["example_app.chat"], "GONE_AFTER", timedelta(0))
    with app.app_context():
        ChatRoom.ref("lobby").here(who="x", name="Ann")
        settle(app)

        assert ChatRoom.ref("lobby").snapshot().people == 0
