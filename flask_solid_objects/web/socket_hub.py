"""The open sockets of one process: one thread writes to all of them, one computes payloads, and both end with them.

Threads start with the first socket, in the process that serves it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from simple_websocket import ConnectionClosed
from wsproto.utilities import LocalProtocolError

from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.relay import Notice
from flask_solid_objects.web.connection import Connection
from flask_solid_objects.web.wire import Wire

RESTART, BROKEN = 1012, 1011
# How a socket says that it is closed, or that the other thread is just closing it.
GONE = (ConnectionClosed, LocalProtocolError, OSError, ValueError)
_TICK_SECONDS = 0.5
_HEARTBEAT = '{"t":"hb"}'


@dataclass(slots=True, eq=False)
class OpenSocket:
    """A connection with what its frames go through."""

    connection: Connection
    server: Any
    wire: Wire | None
    events: Events
    sent_at: float = field(default_factory=time.monotonic)
    # The peer has not taken all that was sent.
    is_blocked: bool = False

    def send(self, text: str) -> bool:
        """Send a frame; False when the socket is closing or gone."""
        try:
            self.server.send(text)
        except GONE:
            return False
        self.sent_at = time.monotonic()
        return True

    def close(self, code: int | None = None) -> None:
        """Close it, unless either side does already."""
        try:
            self.server.close(code)
        except GONE as error:
            self.events.announce("socket.gone", error=type(error).__name__)


class SocketHub:
    """Writes what waits, says that it lives where nothing does, and closes everything at the end.

    Writing costs as much as there are sockets that have something to write; all of them are looked at twice a second.

    :param project: computes one payload for one viewer, or raises.
    :param alive: whether the server goes on; a worker of gunicorn that ends tells nobody.
    """

    def __init__(
        self,
        heartbeat: float,
        project: Callable[[str, str, Notice], Any],
        events: Events,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._heartbeat, self._compute, self._events, self._alive = heartbeat, project, events, alive
        self._places = 0
        self._sockets: dict[Connection, OpenSocket] = {}
        self._dirty: set[Connection] = set()
        self._wanted: dict[tuple[Connection, str], Notice] = {}
        self._lock = threading.Lock()
        self._ready, self._projecting = threading.Event(), threading.Event()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def count(self) -> int:
        """How many places are taken."""
        return self._places

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def take_place(self, most: int) -> bool:
        """Take a place for a socket that is about to be opened; False when there is none."""
        with self._lock:
            if self._places >= most:
                return False
            self._places += 1
            return True

    def give_place(self) -> None:
        with self._lock:
            self._places -= 1

    def add(self, opened: OpenSocket) -> None:
        """Write to a socket from now on; one that comes after the end is sent away like the others."""
        with self._lock:
            late = self._stopping.is_set()
            if not late:
                self._sockets[opened.connection] = opened
                self._dirty.add(opened.connection)
            if not late and not self._threads:
                self._threads = [
                    threading.Thread(target=self._write_forever, name="solid-socket-writer", daemon=True),
                    threading.Thread(target=self._project_forever, name="solid-payloads", daemon=True),
                ]
                for thread in self._threads:
                    thread.start()
        if late:
            opened.close(RESTART)
        self._ready.set()

    def remove(self, connection: Connection) -> None:
        with self._lock:
            self._sockets.pop(connection, None)
            self._dirty.discard(connection)
            for each in [each for each in self._wanted if each[0] is connection]:
                del self._wanted[each]

    def wake(self, connection: Connection) -> None:
        """Something waits to be written; returns at once."""
        with self._lock:
            if connection in self._sockets:
                self._dirty.add(connection)
        self._ready.set()

    def project(self, connection: Connection, name: str, notice: Notice) -> None:
        """Compute the payloads of a stream for its viewer; of several changes only the newest."""
        with self._lock:
            known = self._wanted.get((connection, name))
            if connection in self._sockets and (known is None or known.pair < notice.pair):
                self._wanted[connection, name] = notice
        self._projecting.set()

    def stop(self) -> None:
        """Close every socket with "restart", so that pages come back to the next process; no thread is left."""
        self._end()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _end(self) -> None:
        with self._lock:
            self._stopping.set()
            everybody = list(self._sockets.values())
        self._ready.set()
        self._projecting.set()
        for opened in everybody:
            opened.close(RESTART)

    def _write_forever(self) -> None:
        ticked_at = time.monotonic()
        while not self._stopping.is_set():
            self._ready.wait(max(0.0, ticked_at + _TICK_SECONDS - time.monotonic()))
            self._ready.clear()
            with self._lock:
                dirty, self._dirty = self._dirty, set()
                sockets = [self._sockets[each] for each in dirty if each in self._sockets]
            for opened in sockets:
                self._attempt(opened, self._write)
            if time.monotonic() >= ticked_at + _TICK_SECONDS:
                ticked_at = time.monotonic()
                self._tick()

    def _tick(self) -> None:
        """Heart-beats, peers that did not take all, and whether the server goes on."""
        with self._lock:
            everybody = list(self._sockets.values())
        for opened in everybody:
            self._attempt(opened, self._look_at)
        if not self._alive():
            self._end()

    def _look_at(self, opened: OpenSocket) -> None:
        if opened.is_blocked:
            self._write(opened)
        elif time.monotonic() - opened.sent_at >= self._heartbeat:
            self._send(opened, [_HEARTBEAT])

    def _write(self, opened: OpenSocket) -> None:
        # While the peer does not read, what waits for it is merged; the next tick looks again.
        opened.is_blocked = opened.wire is not None and opened.wire.flush()
        if not opened.is_blocked:
            self._send(opened, opened.connection.take())

    def _send(self, opened: OpenSocket, texts: list[str]) -> None:
        if not all(opened.send(text) for text in texts):
            self.remove(opened.connection)
        elif opened.wire is not None:
            opened.is_blocked = opened.wire.flush()

    def _attempt(self, opened: OpenSocket, act: Callable[[OpenSocket], None]) -> None:
        """What goes wrong with one socket ends that one, and neither the thread nor the others."""
        try:
            act(opened)
        except Exception as error:
            self._events.announce("socket.failed", error=type(error).__name__)
            self.remove(opened.connection)
            opened.close(BROKEN)

    def _project_forever(self) -> None:
        while not self._stopping.is_set():
            self._projecting.wait()
            self._projecting.clear()
            with self._lock:
                wanted, self._wanted = self._wanted, {}
            for (connection, name), notice in wanted.items():
                if self._stopping.is_set():
                    return
                self._project_one(connection, name, notice)

    def _project_one(self, connection: Connection, name: str, notice: Notice) -> None:
        """Each payload by itself: one that fails or is denied keeps nothing from the others."""
        stream = connection.streams.get(name)
        if stream is None or notice.row is None:
            return
        for payload in stream.payloads:
            try:
                data = self._compute(connection.viewer, payload, notice)
            except Exception as error:
                self._events.announce("payload.failed", actor=notice.key, payload=payload, error=type(error).__name__)
                continue
            frame = {"t": "ev", "s": name, "i": str(notice.incarnation), "r": notice.revision, "n": payload, "d": data}
            connection.put_event(frame)
