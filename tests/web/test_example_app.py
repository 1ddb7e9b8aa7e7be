"""The ticket shop, driven like a browser would: two visitors, forms, and a worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from example_app import create_app
from example_app.actors import solid

PAGE = "/events/night-of-strings"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Flask]:
    app = create_app({"SQLALCHEMY_DATABASE_URI": f"sqlite:///{tmp_path / 'shop.sqlite3'}"})
    app.test_cli_runner().invoke(args=["seed"], catch_exceptions=False)
    yield app
    with app.app_context():
        solid.runtime.close()
        for engine in app.extensions["sqlalchemy"].engines.values():
            engine.dispose()


class Visitor:
    """A browser with its own cookies."""

    def __init__(self, app: Flask) -> None:
        self.client: FlaskClient = app.test_client()
        self.page = self.get()

    def get(self) -> str:
        self.page = self.client.get(PAGE).text
        return self.page

    def post(self, act: str, **values: str) -> str:
        token = re.search(r'name="token" value="([^"]+)"', self.page)
        assert token is not None
        response = self.client.post(f"{PAGE}/{act}", data={"token": token.group(1), **values}, follow_redirects=True)
        assert response.status_code == 200
        self.page = response.text
        return self.page

    def status(self, seat: str) -> str:
        """How the seat map shows a seat to this visitor."""
        label = re.search(rf'aria-label="([^"]*[Ss]eat {seat}[^"]*)"', self.get())
        assert label is not None
        return label.group(1)


def work(app: Flask) -> None:
    with app.app_context():
        worker = solid.runtime.worker()
        while worker.run_once():
            pass


def test_hold_and_buy(app: Flask) -> None:
    """A held seat shows as held to others, a bought one as sold; the ledger is written by a worker."""
    one, two = Visitor(app), Visitor(app)
    one.post("hold", seat="A1")

    assert one.status("A1") == "Give back seat A1"
    assert two.status("A1") == "Seat A1: held"
    assert "Yours: A1" in one.post("confirm", key="1")
    assert (one.status("A1"), two.status("A1")) == ("Seat A1: yours", "Seat A1: sold")
    work(app)
    assert "€ 32.00</strong> taken so far" in two.get()
    assert "Sold A1." in two.page


def test_taken_seat_is_refused(app: Flask) -> None:
    """Two visitors press one seat: the second is told."""
    one, two = Visitor(app), Visitor(app)
    one.post("hold", seat="B2")

    assert "Seat B2 has just been taken." in two.post("hold", seat="B2")
    assert "There is no seat Z9." in two.post("hold", seat="Z9")


def test_give_back(app: Flask) -> None:
    """A seat that is given back is free for everybody; buying nothing is answered."""
    one, two = Visitor(app), Visitor(app)
    one.post("hold", seat="C3")
    one.post("release", seat="C3")

    assert two.status("C3") == "Hold seat C3"
    assert "Your hold has run out" in one.post("confirm", key="x")


def test_buying_twice_by_one_form_is_harmless(app: Flask) -> None:
    """The same form sent twice sells once and is noted once."""
    one = Visitor(app)
    one.post("hold", seat="D4")
    one.post("confirm", key="same")

    assert "Yours: D4" in one.post("confirm", key="same")
    work(app)
    assert one.get().count("Sold D4.") == 1


def test_forms_need_their_token(app: Flask) -> None:
    """A form from elsewhere is refused."""
    visitor = Visitor(app)

    assert visitor.client.post(f"{PAGE}/hold", data={"seat": "A1"}).status_code == 403
    assert visitor.client.post(f"{PAGE}/hold", data={"seat": "A1", "token": "wrong"}).status_code == 403


def test_pages_run_no_script(app: Flask) -> None:
    """The policy forbids every script, and the page has no inline style or script to need one."""
    response: Any = app.test_client().get(PAGE)

    assert "script-src 'none'" in response.headers["Content-Security-Policy"]
    assert not re.search(r"<script|style=|onclick", response.text)
    assert app.test_client().get("/events/none").status_code == 404


def test_seeding_twice_changes_nothing(app: Flask) -> None:
    """The seed command may be run again."""
    result = app.test_cli_runner().invoke(args=["seed"], catch_exceptions=False)

    assert "on sale already" in result.output
