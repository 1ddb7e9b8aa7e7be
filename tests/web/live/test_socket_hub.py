"""The thread that writes: what a change costs, slow and failing sockets, and the end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from simple_websocket import ConnectionClosed

from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.relay import Notice
from flask_solid_objects.store.views import ViewRow
from flask_solid_objects.values import ActorKey
from flask_solid_objects.web.connection import Connection
from flask_solid_objects.web.handles import Stream
from flask_solid_objects.web.socket_hub import OpenSocket, SocketHub
from flask_solid_objects.web.wire import Wire
from tests.processes import wait_until

KEY = ActorKey(actor_type="Room", actor_id="lobby")
EVENTS = Events(adapter="sqlite")


class FakeServer:
    """A WebSocket that keeps what it should send, unless it has a wire."""

    def __init__(self, wire: Wire | None = None) -> None:
        self.wire, self.sent, self.code = wire, list[str](), 0
        self.error: Exception | None = None

    def send(self, text: str) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append(text)
        if self.wire is not None:
            self.wire.send(text.encode())

    def close(self, code: int | None) -> None:
        if self.code:
            raise ConnectionClosed(self.code)
        self.code = code or 1000


@pytest.fixture
def hub() -> Iterator[SocketHub]:
    made = SocketHub(3600.0, lambda viewer, name, notice: {}, EVENTS)
    yield made
    made.stop()


def opened(hub: SocketHub, wire: Wire | None = None) -> OpenSocket:
    connection = Connection("ann", hub.wake, hub.project)
    connection.add("Room:lobby", Stream(KEY))
    return OpenSocket(connection, FakeServer(wire), wire, EVENTS)


def change(revision: int) -> Notice:
    row = ViewRow(id=1, key=KEY, revision=revision, state="{}", version=1, changed_at={"count": revision})
    return Notice(key=KEY, incarnation=1, revision=revision, row=row)


def subscribed(each: OpenSocket) -> None:
    each.connection.answer([{"s": "Room:lobby", "i": "1", "r": 0, "n": [], "v": {}}])


def test_a_change_costs_its_watchers_only(hub: SocketHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand open sockets only the one that hears something is looked at."""
    monkeypatch.setattr("flask_solid_objects.web.socket_hub._TICK_SECONDS", 3600.0)
    sockets = [opened(hub) for _ in range(1000)]
    for each in sockets:
        hub.add(each)
    looked = list[Connection]()
    take = Connection.take
    wait_until(lambda: not hub._dirty, "the new sockets to be looked at")
    monkeypatch.setattr(Connection, "take", lambda self: looked.append(self) or take(self))
    one = sockets[500]
    subscribed(one)
    wait_until(lambda: len(one.server.sent) == 1, "its answer to be sent")

    assert set(looked) == {one.connection}


def test_a_peer_that_does_not_read_costs_a_fixed_amount(hub: SocketHub) -> None:
    """Thousands of changes wait as one; once the peer reads, it hears the newest."""
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    wire = Wire(ours, duplicate=False)
    slow, quick = opened(hub, wire), opened(hub)
    for each in (slow, quick):
        hub.add(each)
        subscribed(each)
    slow.connection.put({"t": "filler", "x": "x" * 500_000})
    wait_until(lambda: slow.is_blocked, "the peer's buffer to be full")
    for revision in range(1, 3001):
        for each in (slow, quick):
            each.connection.notify(change(revision))
    wait_until(lambda: bool(quick.server.sent) and '"r":3000' in quick.server.sent[-1], "the quick one to hear all")
    waiting = len(slow.connection._waiting), len(slow.server.sent)
    theirs.settimeout(10)
    received = b""
    while b'"r":3000' not in received:
        received = received[-100:] + theirs.recv(65536)
    wire.close()
    theirs.close()

    assert waiting[0] == 1
    assert waiting[1] <= 3
    assert len(slow.server.sent) == waiting[1] + 1


def test_a_failing_socket_ends_alone(hub: SocketHub) -> None:
    """Whatever sending raises, the thread goes on, and the others are written to."""
    bad, gone, good = (opened(hub) for _ in range(3))
    bad.server.error, gone.server.error = RuntimeError("whatever"), ConnectionClosed(1006)
    for each in (bad, gone, good):
        hub.add(each)
        subscribed(each)
    wait_until(lambda: bool(good.server.sent), "the good one to be written to")
    wait_until(lambda: bad.server.code == 1011, "the bad one to be closed")
    subscribed(good)
    wait_until(lambda: len(good.server.sent) == 2, "the thread to go on")

    assert hub._sockets.keys() == {good.connection}


def test_a_socket_that_comes_after_the_end_is_sent_away(hub: SocketHub) -> None:
    """No thread starts for it."""
    hub.stop()
    late = opened(hub)
    hub.add(late)
    hub.stop()

    assert late.server.code == 1012
    assert hub._threads == []


def test_whoever_comes_while_it_ends_is_sent_away(hub: SocketHub) -> None:
    """Sockets are opened by many threads while it stops: each is closed with "restart", and no thread is left."""
    sockets = [opened(hub) for _ in range(400)]
    begin = threading.Barrier(5)

    def open_them(mine: list[OpenSocket]) -> None:
        begin.wait()
        for each in mine:
            hub.add(each)

    threads = [threading.Thread(target=open_them, args=[sockets[number::4]]) for number in range(4)]
    for thread in threads:
        thread.start()
    begin.wait()
    hub.stop()
    for thread in threads:
        thread.join()

    assert {each.server.code for each in sockets} == {1012}
    assert not any(thread.is_alive() for thread in hub._threads)


def test_the_end_of_the_server_is_noticed() -> None:
    """A worker that ends says nothing: its sockets are closed with "restart" all the same."""
    alive = threading.Event()
    alive.set()
    hub = SocketHub(3600.0, lambda viewer, name, notice: {}, EVENTS, alive.is_set)
    one = opened(hub)
    hub.add(one)
    alive.clear()
    wait_until(lambda: one.server.code == 1012, "the socket to be closed")
    hub.stop()

    assert hub.is_stopping


def test_only_the_newest_payload_is_computed(hub: SocketHub) -> None:
    """Of many changes while one is computed the newest follows, and no older one after it."""
    begun, go, seen = threading.Event(), threading.Event(), list[int]()

    def compute(viewer: str, name: str, notice: Notice) -> Any:
        seen.append(notice.revision)
        begun.set()
        go.wait(10)
        return {}

    slow = SocketHub(3600.0, compute, EVENTS)
    one = opened(slow)
    one.connection.add("Room:lobby;hand", Stream(KEY, ("hand",)))
    slow.add(one)
    slow.project(one.connection, "Room:lobby;hand", change(1))
    begun.wait(10)
    for revision in (2, 5, 3):
        slow.project(one.connection, "Room:lobby;hand", change(revision))
    go.set()
    wait_until(lambda: len(seen) == 2, "the newest to be computed")
    slow.stop()

    assert seen == [1, 5]
