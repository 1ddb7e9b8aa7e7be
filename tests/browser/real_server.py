"""The real site as a process, and a cable between it and the browser that can be pulled."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.processes import Child


class RealServer:
    """The site on a database file; it may be killed and started again on the same port."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.port = 0
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        self._child = Child("-m", "tests.browser.real_site", str(self._database), str(self.port))
        self.port = int(self._child.expect("serves ").split()[-1])
        return self

    def kill(self) -> None:
        """SIGKILL, unless it is dead already."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def control(self, path: str, *texts: str) -> None:
        """Do something to the site from outside, over a connection of its own."""
        with urlopen(f"{self.url}/control/{path}", urlencode([("text", text) for text in texts]).encode()) as answer:
            answer.read()

    def say(self, room: str, *texts: str) -> None:
        self.control(f"say/{room}", *texts)


class Cable:
    """Passes bytes on to a port until it is pulled: then everything is cut, and nothing gets through."""

    def __init__(self, port: int) -> None:
        self._port, self._is_in = port, True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def pull(self) -> None:
        with self._lock:
            self._is_in = False
            ends, self._ends = self._ends, []
        for end in ends:
            _cut(end)

    def plug_in(self) -> None:
        with self._lock:
            self._is_in = True

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self.pull()
        _cut(self._listener)
        for thread in self._threads:
            thread.join(5)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with self._listener, contextlib.suppress(OSError):
            while True:
                browser, _ = self._listener.accept()
                with self._lock:
                    if self._is_in:
                        server = socket.create_connection(("127.0.0.1", self._port))
                        self._ends += [browser, server]
                        self._start(self._pass, browser, server)
                        self._start(self._pass, server, browser)
                        continue
                browser.close()

    @staticmethod
    def _pass(source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
        # Whoever reads from a socket closes it at the end; the other direction then ends, too.
        _cut(to)
        source.close()


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
