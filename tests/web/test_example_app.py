"""The ticket shop, driven like a browser would: two visitors, forms, and the roles run pass by pass."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from example_app import create_app
from example_app.actors import Event, solid
from example_app.chat import ChatRoom
from example_app.jobs import Customer

PAGE = "/events/night-of-strings"
CARD, DECLINED, UNREACHABLE = "4242 4242 4242 4242", "4000 0000 0000 0002", "4000 0000 0000 0119"


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


def settle(app: Flask) -> None:
    """Run everything that is due: actors, effects, messages between actors, reminders."""
    with app.app_context():
        solid.testing.drain(skip_backoff=True)


def event(app: Flask) -> Any:
    with app.app_context():
        return Event.ref("night-of-strings").snapshot()


# -- holds -------------------------------------------------------------------------------------


def test_hold_and_buy(app: Flask) -> None:
    """A held seat shows as held to others; a paid one as sold, with an order and a line in the ledger."""
    one, two = Visitor(app), Visitor(app)
    one.post("hold", seat="A1")

    assert one.status("A1") == "Give back seat A1"
    assert two.status("A1") == "Seat A1: held"
    one.post("confirm", key="1", card=CARD)
    assert (one.status("A1"), two.status("A1")) == ("Seat A1: being paid by you", "Seat A1: held")
    settle(app)
    assert (one.status("A1"), two.status("A1")) == ("Seat A1: yours", "Seat A1: sold")
    assert "€ 32.00</strong> taken so far" in two.get()
    assert "Sold A1." in two.page
    assert "A1" in one.client.get("/orders").text
    assert "Nothing yet" in two.client.get("/orders").text


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
    assert "Your hold has run out" in one.post("confirm", key="x", card=CARD)


def test_a_hold_expires_by_its_reminder(app: Flask) -> None:
    """After five minutes the reminder frees the seat."""
    one = Visitor(app)
    one.post("hold", seat="A2")
    with app.app_context():
        rung = solid.testing.run_due_reminders(datetime.now(UTC) + timedelta(minutes=6))
    settle(app)

    assert rung == 1
    assert "A2" not in event(app).seats


def test_a_hold_expires_without_any_worker(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """When nobody ran the reminder, the seat is free at its time all the same, for every later turn."""
    monkeypatch.setattr(sys.modules["example_app.actors"], "HOLD_TIME", timedelta(0))
    one, two = Visitor(app), Visitor(app)
    one.post("hold", seat="A3")

    assert two.status("A3") == "Hold seat A3"
    two.post("hold", seat="A3")
    assert event(app).seats["A3"].hold == 2
    assert "Your hold has run out" in one.post("confirm", key="x", card=CARD)


def test_an_old_expiry_frees_no_newer_hold(app: Flask) -> None:
    """An expiry that comes late, of a hold that was given back, leaves the next holder's seat alone."""
    one, two = Visitor(app), Visitor(app)
    one.post("hold", seat="A4")
    one.post("release", seat="A4")
    two.post("hold", seat="A4")
    with app.app_context():
        freed = Event.ref("night-of-strings").expire(seat="A4", hold=1)

    assert freed is False
    assert two.status("A4") == "Give back seat A4"


def test_holding_again_extends(app: Flask) -> None:
    """The same visitor may press again: one reminder, at the later time."""
    one = Visitor(app)
    first = one.post("hold", seat="A5")
    with app.app_context():
        until = Event.ref("night-of-strings").hold(seat="A5", holder=event(app).seats["A5"].holder)

    assert "Give back seat A5" in first
    assert event(app).seats["A5"].until == until


# -- payment -----------------------------------------------------------------------------------


def test_buying_twice_by_one_form_is_harmless(app: Flask) -> None:
    """The same form sent twice charges and sells once."""
    one = Visitor(app)
    one.post("hold", seat="D4")
    one.post("confirm", key="same", card=CARD)
    one.post("confirm", key="same", card=CARD)
    settle(app)

    assert one.get().count("Sold D4.") == 1
    assert one.client.get("/orders").text.count("receipt") == 1


def test_a_declined_card_frees_the_seats(app: Flask) -> None:
    """The visitor is told, nothing is sold, and somebody else can have the seat."""
    one, two = Visitor(app), Visitor(app)
    one.post("hold", seat="D5")
    one.post("confirm", key="1", card=DECLINED)
    settle(app)

    assert "The card was declined." in one.get()
    assert two.status("D5") == "Hold seat D5"
    assert event(app).payments == {}


def test_a_provider_that_is_away_is_tried_again(app: Flask) -> None:
    """An error of the provider is no answer: the charge is repeated under one id, and sells once."""
    one = Visitor(app)
    one.post("hold", seat="D6")
    one.post("confirm", key="1", card=UNREACHABLE)
    settle(app)

    assert one.status("D6") == "Seat D6: yours"
    assert one.get().count("Sold D6.") == 1


def test_a_crash_after_the_charge_charges_once(app: Flask) -> None:
    """The process dies between the charge and its record: it is charged again under the same id, so once."""
    one = Visitor(app)
    one.post("hold", seat="D7")
    one.post("confirm", key="1", card=CARD)
    with app.app_context(), solid.testing.fail_at("end_effect.committing", SystemError("killed")):
        solid.testing.drain()
    settle(app)

    assert one.status("D7") == "Seat D7: yours"
    assert one.client.get("/orders").text.count("receipt") == 1


# -- pages -------------------------------------------------------------------------------------


def test_forms_need_their_token(app: Flask) -> None:
    """A form from elsewhere is refused."""
    visitor = Visitor(app)

    assert visitor.client.post(f"{PAGE}/hold", data={"seat": "A1"}).status_code == 403
    assert visitor.client.post(f"{PAGE}/hold", data={"seat": "A1", "token": "wrong"}).status_code == 403


def test_pages_run_only_files_of_the_site(app: Flask) -> None:
    """The policy allows this site's own files, and the page has no inline style or script to need more."""
    response: Any = app.test_client().get(PAGE)

    assert response.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert not re.search(r"<script(?![^>]* src=)|style=|onclick", response.text)
    assert app.test_client().get("/events/none").status_code == 404


def test_seeding_twice_changes_nothing(app: Flask) -> None:
    """The seed command may be run again."""
    result = app.test_cli_runner().invoke(args=["seed"], catch_exceptions=False)

    assert "on sale already" in result.output


# -- jobs --------------------------------------------------------------------------------------


def test_jobs_of_a_customer_run_in_order(app: Flask) -> None:
    """One after the other, whatever was added; the page shows them."""
    with app.app_context():
        ada = Customer.ref("ada")
        for title in ("one", "two", "three"):
            ada.add(title=title)
        before = [job.status for job in ada.snapshot().queue]
    settle(app)
    with app.app_context():
        after = [job.status for job in Customer.ref("ada").snapshot().queue]

    assert before == ["running", "waiting", "waiting"]
    assert after == ["done", "done", "done"]
    assert "three" in app.test_client().get("/customers/ada").text


def test_a_failing_job_holds_up_its_own_customer_only(app: Flask) -> None:
    """It is tried three times and fails; the customer's next job runs after it, the other customer's at once."""
    with app.app_context():
        Customer.ref("ada").add(title="fail please")
        Customer.ref("ada").add(title="later")
        Customer.ref("bob").add(title="mine")
        solid.testing.drain()
        bob = [job.status for job in Customer.ref("bob").snapshot().queue]
    settle(app)
    with app.app_context():
        ada = [(job.status, job.outcome.startswith("The printer")) for job in Customer.ref("ada").snapshot().queue]

    assert bob == ["done"]
    assert ada == [("failed", True), ("done", False)]


def test_every_night_is_summed_up(app: Flask) -> None:
    """The reminder by cron rings once for all the nights that nobody was there, and goes on."""
    with app.app_context():
        Customer.ref("ada").add(title="one")
    settle(app)
    with app.app_context():
        rung = solid.testing.run_due_reminders(datetime.now(UTC) + timedelta(days=3))
        solid.testing.drain()
        nights = Customer.ref("ada").snapshot().nights

    assert rung == 1
    assert len(nights) == 1
    assert nights[0].endswith("1 done, 0 failed, 0 waiting")


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
