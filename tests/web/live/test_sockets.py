"""The socket: what pages hear, and what hostile or unlucky clients get."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from simple_websocket import ConnectionClosed

from tests.checkpoints import HeldCheckpoints
from tests.processes import wait_until
from tests.web.live.site import HERE, Page, Site

OpenPage = Callable[[str], Page]


def closing_code(page: Page) -> int:
    """Read until the socket is closed."""
    try:
        while page.socket.receive(timeout=5) is not None:
            pass
    except ConnectionClosed as closed:
        return int(closed.reason)
    raise AssertionError("it stays open")


def test_a_commit_is_told_to_those_who_watch(site: Site, open_page: OpenPage) -> None:
    """Names and shared values come with the pair, to every page that watches, and to no other actor's."""
    ann, bob = open_page("ann"), open_page("bob")
    site.Room.ref("lobby").say(text="first")
    for page in (ann, bob):
        page.subscribe()
    site.Room.ref("lobby").say(text="second")
    frames = [page.receive("inv") for page in (ann, bob)]

    assert [(f["r"], sorted(f["n"]), f["v"]) for f in frames] == [(2, ["count", "messages"], {"count": 2})] * 2
    assert "second" not in json.dumps(frames)


def test_what_the_answer_said_is_not_told_again(site: Site, open_page: OpenPage, checkpoints: HeldCheckpoints) -> None:
    """The relay reads a revision between watching and reading, and tells it after the answer: nobody hears it twice.

    The next change has its names, although the relay never told this page of the one before.
    """
    site.Room.ref("lobby").say(text="first")
    page = open_page("ann")
    subscribing, telling = checkpoints.hold("subscription.watched"), checkpoints.hold("relay.telling")
    handle, incarnation, revision, _ = page.pairs[0]
    page.send({"t": "sub", "s": [{"k": handle, "i": incarnation, "r": revision}]})
    subscribing.wait_reached()
    telling.wait_reached()
    subscribing.release()
    answer = page.receive("sub")["s"][0]
    telling.release()
    site.Room.ref("lobby").say(text="second")
    frame = page.receive("inv")

    assert (answer["r"], answer["n"]) == (1, [])
    assert (frame["r"], frame["p"], sorted(frame["n"])) == (2, 1, ["count", "messages"])


def test_a_page_that_read_first_is_told_what_another_read(
    site: Site, open_page: OpenPage, checkpoints: HeldCheckpoints
) -> None:
    """A second page reads a newer revision than the first one's answer: the first one hears of it all the same."""
    site.Room.ref("lobby").say(text="first")
    ann, bob = open_page("ann"), open_page("bob")
    ann.subscribe()
    with checkpoints.hold("relay.telling", times=None) as telling:
        site.Room.ref("lobby").say(text="second")
        telling.wait_reached()
        answer = bob.subscribe()
    frame = ann.receive("inv")

    assert answer["r"] == 2
    assert (frame["r"], frame["p"], sorted(frame["n"])) == (2, 1, ["count", "messages"])


def test_a_page_of_a_destroyed_actor_is_gone(site: Site, open_page: OpenPage) -> None:
    """A subscription with the pair of what was destroyed meanwhile is answered so; one that never had it waits."""
    site.Room.ref("lobby").say(text="x")
    page = open_page("ann")
    site.Room.ref("lobby").destroy()

    assert page.subscribe() == {"t": "gone", "s": "Room:lobby", "why": "deleted"}
    assert page.subscribe(i="0", r=0)["r"] == 0


def test_a_change_that_nobody_sees_is_not_named(site: Site, open_page: OpenPage) -> None:
    """A turn that touches no observable names nothing, so that no view is refetched."""
    page = open_page("ann")
    site.Room.ref("lobby").say(text="x")
    page.subscribe()
    site.Room.ref("lobby").whisper(text="quiet")

    assert page.receive("inv")["n"] == []


def test_what_was_missed_is_told_at_the_subscription(site: Site, open_page: OpenPage) -> None:
    """Commits between the rendering and the subscription are answered at once, by comparing pairs."""
    site.Room.ref("lobby").say(text="before")
    page = open_page("ann")
    site.Room.ref("lobby").whisper(text="between")
    site.Room.ref("lobby").say(text="after")
    answer = page.subscribe()

    assert (answer["r"], sorted(answer["n"])) == (3, ["count", "messages"])
    assert page.subscribe(r=3)["n"] == []
    assert page.subscribe(i="999999")["n"] is None


def test_the_first_use_is_told(site: Site, open_page: OpenPage) -> None:
    """A page that watches an actor before it exists hears of its first commit."""
    page = open_page("ann")
    answer = page.subscribe()
    site.Room.ref("lobby").say(text="first")
    frames = [page.receive("inv")]
    if frames[0]["r"] == 0:  # the row was seen before its first commit
        frames.append(page.receive("inv"))

    assert (answer["i"], answer["r"]) == ("0", 0)
    assert frames[-1]["r"] == 1
    assert frames[0]["n"] is None


def test_a_destroyed_actor_is_gone(site: Site, open_page: OpenPage) -> None:
    """Its watchers are told, once."""
    page = open_page("ann")
    site.Room.ref("lobby").say(text="x")
    page.subscribe()
    site.Room.ref("lobby").destroy()

    assert page.receive("gone") == {"t": "gone", "s": "Room:lobby", "why": "deleted"}


def test_payloads_are_computed_for_each_viewer(site: Site, open_page: OpenPage) -> None:
    """Each page gets its own projection, at the subscription and at each change; one that fails harms no other."""
    site.Room.ref("lobby").say(text="x")
    ann, bob = open_page("ann"), open_page("bob")
    for page in (ann, bob):
        page.subscribe(2)
    first = [page.receive("ev") for page in (ann, bob)]
    site.Room.ref("lobby").say(text="y")
    second = [page.receive("ev") for page in (ann, bob)]

    assert [("hand", {"for": user, "last": "x"}) for user in ("ann", "bob")] == [(f["n"], f["d"]) for f in first]
    assert [{"for": user, "last": "y"} for user in ("ann", "bob")] == [f["d"] for f in second]


def test_payloads_are_authorised_at_each_delivery(site: Site, open_page: OpenPage) -> None:
    """Who has lost the right to a projection gets none, and is told of changes all the same."""
    site.Room.ref("lobby").say(text="x")
    page = open_page("ann")
    site.denied.add(("ann", "hand"))
    page.subscribe(2)
    site.Room.ref("lobby").say(text="y")

    assert page.receive("inv")["r"] == 2
    with pytest.raises(AssertionError, match="among 200 frames|came"):
        page.receive("ev", timeout=0.1)


@pytest.mark.parametrize("config", [{"SOLID_OBJECTS_LIVE_RECHECK_INTERVAL": 0.1}])
def test_a_revoked_right_ends_a_subscription(site: Site, open_page: OpenPage) -> None:
    """The policy is asked again while the socket is open; whoever lost the right hears nothing more."""
    site.Room.ref("lobby").say(text="x")
    page = open_page("ann")
    page.subscribe()
    site.denied.add(("ann", "subscribe"))

    assert page.receive("gone") == {"t": "gone", "s": "Room:lobby", "why": "denied"}


def test_a_denied_subscription_is_gone(site: Site, open_page: OpenPage) -> None:
    """Without the right there is no subscription, and the page is told so."""
    page = open_page("ann")
    site.denied.add(("ann", "subscribe"))

    assert page.subscribe() == {"t": "gone", "s": "Room:lobby", "why": "denied"}


def test_a_handle_of_another_user_is_gone(site: Site, open_page: OpenPage) -> None:
    """A stolen handle subscribes to nothing."""
    ann, bob = open_page("ann"), open_page("bob")

    assert ann.subscribe(k=bob.pairs[0][0])["why"] == "denied"
    assert ann.subscribe(k="Room:lobby~forged")["why"] == "denied"


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_another_origin_opens_nothing(site: Site, open_page: OpenPage, origin: str | None) -> None:
    """A page of another site, port or scheme, and a client without an origin, are refused before the upgrade."""
    page = open_page("ann")

    assert page.refused(origin) == 403


@pytest.mark.parametrize("config", [{"SOLID_OBJECTS_LIVE_ALLOWED_ORIGINS": ["https://partner.example"]}])
def test_an_allowed_origin_opens(site: Site, open_page: OpenPage) -> None:
    """An origin that the settings name is taken."""
    page = open_page("ann")
    page.close()

    assert page.open("https://partner.example")["t"] == "hello"


@pytest.mark.parametrize("config", [{"SOLID_OBJECTS_LIVE_MAX_SOCKETS": 2}])
def test_too_many_sockets_are_refused(site: Site, open_page: OpenPage) -> None:
    """Beyond the limit a page is told to come back, and polls meanwhile; a socket that goes makes room."""
    first, _ = open_page("ann"), open_page("bob")
    status, headers = first.try_open()
    polled = first.client.get("/solid/sync?s=[]")
    first.close()
    sockets = site.app.extensions["solid_objects"].live.sockets
    wait_until(lambda: sockets.hub.count == 1, "the closed socket to be counted out")

    assert (status, headers["Retry-After"]) == (503, "5")
    assert (polled.status_code, polled.json) == (200, [])
    assert open_page("dora") is not None


def test_a_malformed_frame_closes(site: Site, open_page: OpenPage) -> None:
    """What no page of ours sends closes the socket for good, and no other one."""
    good = open_page("bob")
    codes = []
    for frame in ["", "[" * 60_000, b"\x00\xff", '{"t":"sub","s":[{"k":"a~b","r":NaN}]}', "9" * 5000]:
        page = open_page("ann")
        page.socket.send(frame)
        codes.append(closing_code(page))

    assert codes == [4400] * 5
    assert good.subscribe()["r"] == 0


def test_an_oversize_frame_closes(site: Site, open_page: OpenPage) -> None:
    """More than 64 KiB in one frame is not read."""
    page = open_page("ann")
    page.send("[" + " " * 70_000 + "]")

    assert closing_code(page) in (1009, 1006)


def test_a_flood_of_subscriptions_closes(site: Site, open_page: OpenPage) -> None:
    """A page that subscribes ten thousand times within seconds is sent away before they are all served."""
    page = open_page("ann")
    item = {"k": page.pairs[0][0], "i": "0", "r": 0}
    asked = len(site.asked)
    for _ in range(20):
        page.send({"t": "sub", "s": [item] * 500})

    assert closing_code(page) == 4429
    assert len(site.asked) - asked <= 1024


def test_unsubscribing_ends_the_telling(site: Site, open_page: OpenPage) -> None:
    """A stream that left the page is told no more, and the relay forgets the actor."""
    site.Room.ref("lobby").say(text="x")
    page = open_page("ann")
    page.subscribe()
    page.send({"t": "unsub", "s": ["Room:lobby"]})
    relay = site.solid.runtime.relay
    wait_until(lambda: not relay._watched, "the relay to forget the actor")

    assert site.solid.runtime.relay.is_alive


def test_the_end_of_the_server_is_a_restart(site: Site, open_page: OpenPage) -> None:
    """Pages are told to come back, at once."""
    pages = [open_page(user) for user in ("ann", "bob")]
    site.solid.runtime.close()

    assert [closing_code(page) for page in pages] == [1012, 1012]


@pytest.mark.parametrize("config", [{"SOLID_OBJECTS_LIVE_HEARTBEAT": 0.5}])
def test_silence_is_filled_with_heart_beats(site: Site, open_page: OpenPage) -> None:
    """A page can tell a quiet server from a dead one."""
    page = open_page("ann")

    assert page.receive("hb") == {"t": "hb"}


def test_the_path_of_the_socket_says_what_it_is(site: Site) -> None:
    """An ordinary request there is answered with the reason."""
    assert site.app.test_client().get("/solid/ws").status_code == 426


def test_policies_run_in_a_request_that_ends(site: Site, open_page: OpenPage) -> None:
    """A policy of an open socket sees the visitor's session."""
    page = open_page("ann")
    page.subscribe()

    assert "ann" in {access.context for access in site.asked if access.action == "subscribe"}
    assert HERE
