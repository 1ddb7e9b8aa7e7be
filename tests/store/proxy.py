"""A server in between that loses the answer to one COMMIT: the real thing of an unknown commit."""

from __future__ import annotations

import re
import socket
import threading
from typing import Any

from sqlalchemy import URL

# Not the end of READ COMMITTED.
_COMMIT = re.compile(rb"COMMIT(?!TED)")


class LosingProxy:
    """Passes bytes on between clients and the server of a URL until it is told to lose an answer."""

    def __init__(self, url: URL) -> None:
        self._server = (url.host or "127.0.0.1", url.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._losing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.url = url.set(host="127.0.0.1", port=self._listener.getsockname()[1])
        # What is encrypted cannot be watched.
        self.connect_args: dict[str, Any] = {"sslmode": "disable"} if url.get_backend_name() == "postgresql" else {}

    def lose_next_commit(self) -> None:
        """Let the server do the next COMMIT, and cut the client off before it learns of that."""
        self._losing.set()

    def __enter__(self) -> LosingProxy:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone does not wake a thread that accepts or receives.
        for each in (self._listener, *self._sockets):
            _end(each)
        for thread in self._threads:
            thread.join(5)

    def _start(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            committing = threading.Event()
            self._start(self._requests, client, server, committing)
            self._start(self._answers, server, client, committing)

    def _requests(self, client: socket.socket, server: socket.socket, committing: threading.Event) -> None:
        while request := _receive(client):
            if self._losing.is_set() and _COMMIT.search(request):
                committing.set()
            _send(server, request)
        _end(server)

    def _answers(self, server: socket.socket, client: socket.socket, committing: threading.Event) -> None:
        while answer := _receive(server):
            if committing.is_set():
                self._losing.clear()
                break
            _send(client, answer)
        _end(client)
        _end(server)


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _send(target: socket.socket, data: bytes) -> None:
    try:
        target.sendall(data)
    except OSError:
        # The other side has hung up; its next end of data ends the loop.
        _end(target)


def _end(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It has ended already.
        return
    finally:
        each.close()
