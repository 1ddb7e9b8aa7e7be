"""What is refused, what fails, and what is gone: each part of a page by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask import render_template_string
from sqlalchemy import Engine, update

from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import ActorKey
from flask_solid_objects.web.connection import MOST_STREAMS
from flask_solid_objects.web.handles import Stream
from tests.processes import wait_until
from tests.web.live.site import Page, Site
from tests.web.live.test_sockets import OpenPage, closing_code


def token(page: Page) -> str:
    return page.url.rpartition("/")[2]


def sync(page: Page, *items: dict[str, Any]) -> Any:
    return page.client.get("/solid/sync", query_string={"s": json.dumps(items)})


def item(page: Page, place: int = 0) -> dict[str, Any]:
    handle, incarnation, revision, _ = page.pairs[place]
    return {"k": handle, "i": incarnation, "r": revision}


def both(site: Site, page: Page) -> tuple[str, str]:
    """The tokens of two components of this page's user: of the room, and of the ledger."""
    template = (
        '{{ solid_component(room, "messages", observes=["messages"]) }}'
        '{{ solid_component(ledger, "total", observes=["total"]) }}'
    )
    cookie = page.client.get_cookie("session")
    headers = {"Cookie": f"session={cookie.value}" if cookie else ""}
    with site.app.test_request_context(headers=headers):
        text = render_template_string(template, room=site.Room.ref("lobby"), ledger=site.Ledger.ref("x"))
    first, second = (part.partition('"')[0] for part in text.split('hx-get="/solid/c/')[1:])
    return first, second


def unreadable(site: Site, engine: Engine, tables: Tables, actor_type: str) -> None:
    """Let the stored state be of a version that this code does not know."""
    with engine.begin() as connection:
        i = tables.instances
        connection.execute(update(i).where(i.c.actor_type == actor_type).values(state_version=99))


# -- rights --------------------------------------------------------------------------------------


def test_nothing_of_a_page_is_a_right(site: Site) -> None:
    """What was signed for a user is of no use after the right was taken away, after the logout, or to another user."""
    site.Room.ref("lobby").say(text="secret")
    page, other = Page(site, "ann"), Page(site, "bob")
    address, stream = page.url, item(page)
    site.denied |= {("ann", "messages"), ("ann", "subscribe")}
    revoked = page.client.get(address), sync(page, stream)
    site.denied.clear()
    page.client.delete_cookie("session")
    logged_out = page.client.get(address), sync(page, stream)
    stolen = other.client.get(address), sync(other, stream)

    for component, watched in (revoked, logged_out, stolen):
        assert (component.status_code, component.data) == (403, b"")
        assert watched.json == [{"t": "gone", "s": "Room:lobby", "why": "denied"}]


def test_streams_of_one_socket_are_bounded(site: Site, open_page: OpenPage) -> None:
    """One more than the limit is refused, and those before it go on."""
    page = open_page("ann")
    handles = site.app.extensions["solid_objects"].live._handles
    keys = [ActorKey(actor_type="Room", actor_id=str(number)) for number in range(MOST_STREAMS + 1)]
    items = [{"k": handles.stream(Stream(key), "ann"), "i": "0", "r": 0} for key in keys]
    page.send({"t": "sub", "s": items[:128]})
    page.send({"t": "sub", "s": items[128:]})
    answered = [len(page.receive("sub")["s"]) for _ in range(2)]

    assert answered == [128, 128]
    assert page.receive("gone") == {"t": "gone", "s": f"Room:{MOST_STREAMS}", "why": "denied"}
    assert len(site.solid.runtime.relay._watched) == MOST_STREAMS


# -- peers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [{"SOLID_OBJECTS_LIVE_HEARTBEAT": 0.5}])
def test_a_peer_that_vanished_is_noticed(site: Site, open_page: OpenPage) -> None:
    """Whoever answers no ping is gone after two of them, although nothing says so; its place is free again."""
    hub = site.app.extensions["solid_objects"].live.sockets.hub
    peer = Page(site, "ann", open_page("bob")._port).half_open()
    wait_until(lambda: hub.count == 2, "the socket to be open")
    wait_until(lambda: hub.count == 1, "the silent peer to be given up")
    peer.close()

    assert not hub.is_stopping


# -- failures ------------------------------------------------------------------------------------


def test_a_policy_that_raises_ends_that_socket_only(site: Site, open_page: OpenPage) -> None:
    """A failing policy shows nothing and marks nothing as gone: the page comes back later, others go on."""
    site.app.config["PROPAGATE_EXCEPTIONS"] = False
    ann, bob = open_page("ann"), open_page("bob")
    site.failing.add("ann")
    ann.send({"t": "sub", "s": [item(ann)]})
    failed = [ann.client.get(ann.url).status_code, sync(ann, item(ann)).status_code]

    assert closing_code(ann) == 1011
    assert failed == [500, 500]
    assert bob.subscribe()["r"] == 0


def test_a_viewer_that_raises_opens_nothing(site: Site, open_page: OpenPage) -> None:
    """It is asked before the upgrade, so that the answer is an ordinary one, and no place is taken."""
    page = open_page("ann")
    page.close()
    hub = site.app.extensions["solid_objects"].live.sockets.hub
    wait_until(lambda: hub.count == 0, "the socket to be gone")
    site.failing.add("viewer ann")

    assert page.refused() == 500
    assert hub.count == 0


def test_a_state_that_cannot_be_read_harms_no_other_part(site: Site, engine: Engine, tables: Tables) -> None:
    """During a deployment one component fails, for now; the others of its batch come, and all pairs are told."""
    site.Room.ref("lobby").say(text="hello")
    page = Page(site, "ann")
    room, ledger = both(site, page)
    unreadable(site, engine, tables, "Room")
    alone = page.client.get(f"/solid/c/{room}")
    batch = page.client.get("/solid/batch", query_string={"c": [room, ledger]})
    told = sync(page, item(page) | {"r": 0}).json[0]["s"][0]

    assert (alone.status_code, alone.data) == (503, b"")
    assert (batch.status_code, batch.text.count("data-solid-c")) == (200, 1)
    assert "<b>0</b>" in batch.text
    assert (told["r"], sorted(told["n"]), told["v"]) == (1, ["count", "messages"], {})


def test_a_policy_that_raises_in_a_batch_harms_no_other_part(site: Site) -> None:
    """The part that fails is left out; asked for alone, it is a failure of its own."""
    page = Page(site, "ann")
    room, ledger = both(site, page)
    real = site.solid._policies["query"]

    def sometimes(access: Any) -> bool:
        if access.actor_type == "Room":
            raise ZeroDivisionError("this policy fails")
        return bool(real(access))

    site.solid._policies["query"] = sometimes
    batch = page.client.get("/solid/batch", query_string={"c": [room, ledger]})

    assert batch.text.count("data-solid-c") == 1
    assert "<b>0</b>" in batch.text


# -- ends and births -----------------------------------------------------------------------------


def test_a_destroyed_actor_is_shown_as_unused(site: Site) -> None:
    """Its component has the pair of what was never used; whoever knows the dead one is told of its end."""
    site.Room.ref("lobby").say(text="old")
    page = Page(site, "ann")
    site.Room.ref("lobby").destroy()
    alone, batch = page.client.get(page.url), page.client.get("/solid/batch", query_string={"c": token(page)})
    again = Page(site, "ann")

    for answer in (alone, batch):
        assert "<li>" not in answer.text
    assert {("0", 0)} == {(incarnation, revision) for _, incarnation, revision, _ in again.pairs}
    assert sync(page, item(page)).json == [{"t": "gone", "s": "Room:lobby", "why": "deleted"}]
    assert sync(again, item(again)).json[0]["s"][0]["r"] == 0


def test_a_reborn_actor_is_newer(site: Site) -> None:
    """Its revisions begin anew and its incarnation is greater, in components, batches and polls; all is changed."""
    for _ in range(3):
        site.Room.ref("lobby").say(text="old")
    page = Page(site, "ann")
    site.Room.ref("lobby").destroy()
    site.Room.ref("lobby").say(text="new")
    alone, batch = page.client.get(page.url), page.client.get("/solid/batch", query_string={"c": token(page)})
    again, told = Page(site, "ann"), sync(page, item(page)).json[0]["s"][0]

    for answer in (alone, batch):
        assert "<li>new</li>" in answer.text
        assert "<li>old</li>" not in answer.text
    assert int(again.pairs[0][1]) > int(page.pairs[0][1])
    assert (told["i"], told["r"], told["n"]) == (again.pairs[0][1], 1, None)
