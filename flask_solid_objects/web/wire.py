"""The socket of a WebSocket, made safe to write to from several threads and never to wait for a slow reader.

The servers' own sockets block a sender until the peer reads, and two threads' frames may mix. Writes go into a buffer
under a lock and from there as far as the peer takes them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

_PIECE = 4096
_MOST_WAITING = 1024 * 1024
_LONGEST_STALL = 10.0


class Wire:
    """Stands in for the socket in the environ.

    :param duplicate: work on a descriptor of its own, since gunicorn counts on closing its own one.
    """

    def __init__(self, sock: Any, *, duplicate: bool) -> None:
        self._socket: Any = sock.dup() if duplicate else sock
        self._is_duplicate = duplicate
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._stalled_since: float | None = None
        self._closed = False
        self._over: Callable[[], None] = lambda: None

    def when_over(self, tell: Callable[[], None]) -> None:
        """Tell when the reader has ended, which closes this; the reader itself tells some of its ends too early."""
        self._over = tell
        if self._closed:
            tell()

    def fileno(self) -> int:
        return int(self._socket.fileno())

    def recv(self, size: int) -> bytes:
        data: bytes = self._socket.recv(size)
        return data

    def send(self, data: bytes) -> int:
        """Take all of it; what the peer does not take now follows with the next flush."""
        with self._lock:
            self._waiting += data
            self._write()
        return len(data)

    def flush(self) -> bool:
        """Write on; True while something still waits."""
        with self._lock:
            self._write()
            return bool(self._waiting)

    def drop(self) -> None:
        """Give the peer up without a word, which could not be written anyway."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Give the socket back as it is: it becomes no WebSocket, and an ordinary answer follows."""
        with self._lock:
            self._closed = True
        if self._is_duplicate:
            self._socket.close()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.drop()
        self._socket.close()
        self._over()

    def _write(self) -> None:
        if self._closed:
            return
        while self._waiting and self._is_writable():
            try:
                written = self._socket.send(self._waiting[:_PIECE])
            except OSError:
                self._waiting.clear()
                self.drop()
                return
            del self._waiting[:written]
            self._stalled_since = None
        if not self._waiting:
            self._stalled_since = None
            return
        now = time.monotonic()
        if self._stalled_since is None:
            self._stalled_since = now
        if len(self._waiting) > _MOST_WAITING or now - self._stalled_since > _LONGEST_STALL:
            self._waiting.clear()
            self.drop()

    def _is_writable(self) -> bool:
        try:
            poll = select.poll()
            poll.register(self._socket.fileno(), select.POLLOUT)
            return any(event & select.POLLOUT for _, event in poll.poll(0))
        except (OSError, ValueError):
            return False
