"""What looks at the page of a measurement: a real browser, and sockets that cost this process almost nothing."""

from __future__ import annotations

import base64
import html
import json
import os
import re
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

_SEEN = """() => {
  window.seen = {};
  const look = () => {
    const text = document.getElementById('number')?.textContent;
    if (text && !(text in window.seen)) window.seen[text] = Date.now() / 1000;
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


@contextmanager
def browser_page(port: int) -> Iterator[Any]:
    """A page in Chromium that notes when each number appeared."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only for this part

    with sync_playwright() as playwright:
        chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.evaluate(_SEEN)
        yield page
        browser.close()


def appeared_at(page: Any, number: int, seconds: float = 10.0) -> float:
    """When the page showed a number, by the clock of this machine; to the millisecond."""
    page.wait_for_function(f"() => '{number}' in window.seen", timeout=seconds * 1000, polling=10)
    return float(page.evaluate(f"() => window.seen['{number}']"))


class Socket:
    """A WebSocket that is subscribed to the page's actor, without a thread of its own."""

    def __init__(self, port: int, item: dict[str, Any]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        origin = f"http://127.0.0.1:{port}"
        self._socket.sendall(
            f"GET /solid/ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        self._buffer = b""
        while b"\r\n\r\n" not in self._buffer:
            self._buffer += self._received()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(head.split(b"\r\n")[0].decode())
        self._send(json.dumps({"t": "sub", "s": [item]}).encode())
        while not any('"sub"' in text for text in self._texts()):
            self._buffer += self._received()

    def fileno(self) -> int:
        return self._socket.fileno()

    def texts(self) -> list[str]:
        """Frames that have arrived; to be called when there is something to read."""
        self._buffer += self._received()
        return self._texts()

    def close(self) -> None:
        self._socket.close()

    def _received(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed a socket")
        return data

    def _send(self, payload: bytes, opcode: int = 1) -> None:
        mask = secrets.token_bytes(4)
        length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack("!H", len(payload))
        masked = bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))
        self._socket.sendall(bytes([0x80 | opcode]) + length + mask + masked)

    def _texts(self) -> list[str]:
        found = []
        while len(self._buffer) >= 2:
            opcode, length, start = self._buffer[0] & 15, self._buffer[1], 2
            if length == 126:
                length, start = struct.unpack("!H", self._buffer[2:4].ljust(2, b"\0"))[0], 4
            if len(self._buffer) < start + length:
                break
            if opcode == 1:
                found.append(self._buffer[start : start + length].decode())
            if opcode == 9:
                # A ping that is not answered ends the socket.
                self._send(self._buffer[start : start + length], opcode=10)
            self._buffer = self._buffer[start + length :]
        return found


def subscription(port: int) -> dict[str, Any]:
    """What the page would ask its socket for."""
    with urlopen(f"http://127.0.0.1:{port}/") as answer:
        text = answer.read().decode()
    found = re.search(r'data-solid="([^"]*)"', text)
    assert found is not None, "the page has a component"
    handle, incarnation, revision, _ = json.loads(html.unescape(found.group(1)))[0]
    return {"k": handle, "i": incarnation, "r": revision}


class Listening:
    """Waits, in a thread, for the next invalidation of each socket."""

    def __init__(self, sockets: Sequence[Socket]) -> None:
        self._times: list[float] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._listen, args=(tuple(sockets),))
        self._thread.start()

    def times(self) -> list[float]:
        """When they came, by the clock of this machine, in order.

        :raises TimeoutError, ConnectionError: not all of them heard of it.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._times

    def _listen(self, sockets: Sequence[Socket]) -> None:
        try:
            self._times = _arrivals(sockets)
        except (TimeoutError, ConnectionError) as error:
            self._error = error


def _arrivals(sockets: Sequence[Socket], seconds: float = 20.0) -> list[float]:
    times: list[float] = []
    until = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, selectors.EVENT_READ, each)
        while len(times) < len(sockets) and time.monotonic() < until:
            for key, _ in selector.select(0.5):
                if any('"inv"' in text for text in key.data.texts()):
                    times.append(time.time())
                    selector.unregister(key.data)
    if len(times) < len(sockets):
        raise TimeoutError(f"{len(sockets) - len(times)} of {len(sockets)} sockets heard nothing in {seconds:.0f} s")
    return times
