"""The open sockets of one process: one thread writes to all of them, one computes payloads, and both end with them.

Threads start with the first socket, in the process that serves it.
"""

from __future__ import annotations

import json
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

RESTART = 1012
# How a socket says that it is closed, or that the other thread is just closing it.
GONE = (ConnectionClosed, LocalProtocolError, OSError, ValueError)
_TICK_SECONDS = 0.5


@dataclass(slots=True, eq=False)
class OpenSocket:
    """A connection with what its frames go through."""

    connection: Connection
    server: Any
    wire: Wire | None
    events: Events
    sent_at: float = field(default_factory=time.monotonic)

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

    :param project: computes one payload for one viewer, or raises.
    """

    def __init__(self, heartbeat: float, project: Callable[[str, str, Notice], Any], events: Events) -> None:
        self._heartbeat, self._compute, self._events = heartbeat, project, events
        self._sockets: dict[Connection, OpenSocket] = {}
        self._dirty: set[Connection] = set()
        self._wanted: dict[tuple[Connection, str], Notice] = {}
        self._lock = threading.Lock()
        self._ready, self._projecting = threading.Event(), threading.Event()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        # Whether the server goes on; gunicorn's hook replaces it, since a worker that ends says nothing.
        self.alive: Callable[[], bool] = lambda: True

    @property
    def count(self) -> int:
        return len(self._sockets)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def add(self, opened: OpenSocket) -> None:
        with self._lock:
            self._sockets[opened.connection] = opened
            if not self._threads and not self._stopping.is_set():
                self._threads = [
                    threading.Thread(target=self._write_forever, name="solid-socket-writer", daemon=True),
                    threading.Thread(target=self._project_forever, name="solid-payloads", daemon=True),
                ]
                for thread in self._threads:
                    thread.start()

    def remove(self, connection: Connection) -> None:
        with self._lock:
            self._sockets.pop(connection, None)
            self._dirty.discard(connection)

    def wake(self, connection: Connection) -> None:
        """Something waits to be written; returns at once."""
        with self._lock:
            self._dirty.add(connection)
        self._ready.set()

    def project(self, connection: Connection, name: str, notice: Notice) -> None:
        """Compute the payloads of a stream for its viewer; of several changes only the newest."""
        with self._lock:
            self._wanted[connection, name] = notice
        self._projecting.set()

    def stop(self) -> None:
        """Close every socket with "restart", so that pages come back to the next process."""
        self._stopping.set()
        self._ready.set()
        self._projecting.set()
        self._close_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _write_forever(self) -> None:
        while not self._stopping.is_set():
            self._ready.wait(_TICK_SECONDS)
            self._ready.clear()
            with self._lock:
                dirty, self._dirty = self._dirty, set()
                everybody = list(self._sockets.values())
            now = time.monotonic()
            for opened in everybody:
                if opened.connection in dirty or (opened.wire is not None and opened.wire.flush()):
                    self._write(opened)
                elif now - opened.sent_at >= self._heartbeat:
                    self._send(opened, [json.dumps({"t": "hb"})])
            if not self.alive():
                self._stopping.set()
                self._close_all()

    def _write(self, opened: OpenSocket) -> None:
        if opened.wire is not None and opened.wire.flush():
            # The peer does not read: what waits is merged meanwhile, and looked at again with the next tick.
            with self._lock:
                if opened.connection in self._sockets:
                    self._dirty.add(opened.connection)
            return
        self._send(opened, opened.connection.take())

    def _send(self, opened: OpenSocket, texts: list[str]) -> None:
        if not all(opened.send(text) for text in texts):
            self.remove(opened.connection)

    def _close_all(self) -> None:
        with self._lock:
            everybody = list(self._sockets.values())
        for opened in everybody:
            opened.close(RESTART)

    def _project_forever(self) -> None:
        while not self._stopping.is_set():
            self._projecting.wait()
            self._projecting.clear()
            with self._lock:
                wanted, self._wanted = self._wanted, {}
            for (connection, name), notice in wanted.items():
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
