"""The answer to an action says what it changed, so that the page that acted follows without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import Response

from flask_solid_objects import Rejected
from tests.web.live.site import Page, Site

HTMX = {"HX-Request": "true"}


@pytest.fixture
def page(site: Site) -> Page:
    """A page of a site with actions; they answer with the HX-Trigger that the test wants."""

    @site.app.post("/act/<actor_ids>")
    def act(actor_ids: str) -> Response:
        response = Response("done")
        for actor_id in actor_ids.split(","):
            site.Room.ref(actor_id).say(text="x")
        trigger = site.app.config.get("TRIGGER")
        if trigger is not None:
            response.headers["HX-Trigger"] = trigger
        return response

    @site.app.post("/other/<what>")
    def other(what: str) -> str:
        room = site.Room.ref("lobby")
        if what == "whisper":
            room.whisper(text="quiet")
        elif what == "send":
            room.say.send(text="later")
        elif what == "read":
            room.snapshot()
        else:
            try:
                room.refuse()
            except Rejected:
                return "no"
        return "done"

    return Page(site, "ann")


def told(answer: Any) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(answer.headers["HX-Trigger"])
    return header


def test_an_action_tells_its_turns(page: Page) -> None:
    """The pair, the revision before it and the names that changed; several turns of one actor are told as one."""
    page.client.post("/act/lobby", headers=HTMX)
    answer = page.client.post("/act/lobby,lobby,attic", headers=HTMX)
    fresh = Page.__new__(Page)
    fresh.text = page.client.get("/page").text
    lobby, attic = sorted(told(answer)["solid:turn"]["m"], key=lambda message: -message["r"])

    assert (lobby["s"], lobby["r"], lobby["p"], sorted(lobby["n"])) == ("Room:lobby", 3, 1, ["count", "messages"])
    assert (attic["s"], attic["r"], attic["p"]) == ("Room:attic", 1, 0)
    assert [lobby["i"], lobby["r"]] == fresh.pairs[0][1:3]
    assert "v" not in lobby


def test_a_turn_that_no_view_shows_names_nothing(page: Page) -> None:
    """The pair moves on, and no part of the page is fetched for it."""
    (message,) = told(page.client.post("/other/whisper", headers=HTMX))["solid:turn"]["m"]

    assert (message["r"], message["n"]) == (1, [])


@pytest.mark.parametrize("what", ["send", "read", "refuse"])
def test_what_commits_nothing_tells_nothing(page: Page, what: str) -> None:
    """A message for later, a look and a refusal change nothing yet."""
    answer = page.client.post(f"/other/{what}", headers=HTMX)

    assert answer.status_code == 200
    assert "HX-Trigger" not in answer.headers


def test_only_htmx_is_told(page: Page) -> None:
    """An ordinary form gets an ordinary answer."""
    assert "HX-Trigger" not in page.client.post("/act/lobby").headers


def test_what_may_not_be_watched_is_not_named(site: Site, page: Page) -> None:
    """An actor that the visitor may not watch is used behind the scenes, and stays there."""
    site.denied.add(("ann", "subscribe"))

    assert "HX-Trigger" not in page.client.post("/act/lobby", headers=HTMX).headers


@pytest.mark.parametrize("failing", ["ann", "viewer ann"])
def test_a_policy_that_raises_does_not_fail_the_action(site: Site, page: Page, failing: str) -> None:
    """The action has succeeded, so its answer is the one that the application gave."""
    site.failing.add(failing)
    answer = page.client.post("/act/lobby", headers=HTMX)

    assert (answer.status_code, answer.text) == (200, "done")
    assert "HX-Trigger" not in answer.headers


@pytest.mark.parametrize(
    ("trigger", "events"),
    [
        ("saved", {"saved": {}}),
        ("saved, closed:now", {"saved": {}, "closed:now": {}}),
        ('{"saved":{"id":5},"text":"é"}', {"saved": {"id": 5}, "text": "é"}),
        ("{}", {}),
        ("", {}),
    ],
)
def test_events_of_the_application_stay(site: Site, page: Page, trigger: str, events: dict[str, Any]) -> None:
    """Both forms of the header are joined with ours; it stays ASCII."""
    site.app.config["TRIGGER"] = trigger
    answer = page.client.post("/act/lobby", headers=HTMX)
    ours = told(answer)

    assert ours.pop("solid:turn")["m"][0]["r"] == 1
    assert ours == events
    assert answer.headers["HX-Trigger"].isascii()


@pytest.mark.parametrize("trigger", ["{broken", '{"solid:turn":{"m":[]}}', "solid:turn"])
def test_a_header_that_cannot_be_joined_is_left_alone(site: Site, page: Page, trigger: str) -> None:
    """What is malformed, or says it already, is the application's own affair."""
    site.app.config["TRIGGER"] = trigger

    assert page.client.post("/act/lobby", headers=HTMX).headers["HX-Trigger"] == trigger


def test_the_header_is_bounded(page: Page) -> None:
    """Of many actors the last are told, and the others over the socket."""
    names = [f"{number:02}" + "é" * 40 for number in range(25)]
    answer = page.client.post(f"/act/{','.join(names)}", headers=HTMX)
    streams = [message["s"] for message in told(answer)["solid:turn"]["m"]]

    assert len(answer.headers["HX-Trigger"]) <= 4096
    assert 1 <= len(streams) <= 20
    assert streams[-1].startswith("Room:24")
