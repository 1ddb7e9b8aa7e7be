"""A small site with live views, served by real threads, and a page of it as a client sees it."""

from __future__ import annotations

import contextlib
import html
import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flask
import simple_websocket
from flask import Flask, render_template_string
from simple_websocket import Client
from sqlalchemy import URL
from werkzeug.serving import make_server

from flask_solid_objects import Access, Actor, Rejected, SolidObjects, attribute, observable, operation, payload
from flask_solid_objects.seams import Seams

TEMPLATES = Path(__file__).parent / "templates"
PAGE = (
    '{% set room = solid_scope(ref) %}{{ room.component("messages", observes=["messages"]) }}'
    '{{ room.scalar("count") }}<p{{ room.watch("messages", payloads=["hand", "broken"]) }}></p>'
)
# The client sends the host without the port, so its own origin is this.
HERE = "http://127.0.0.1"


class Site:
    """One app with an extension of its own; what its policies allow is decided by the test."""

    def __init__(self, url: URL, seams: Seams | None = None, **config: Any) -> None:
        self.app = Flask("site", template_folder=str(TEMPLATES))
        self.app.config.update(
            SECRET_KEY="test",
            SQLALCHEMY_DATABASE_URI=url.render_as_string(hide_password=False),
            SOLID_OBJECTS_LIVE_POLLING_INTERVAL=0.2,
            SOLID_OBJECTS_LIVE_HEARTBEAT=5.0,
        )
        self.app.config.update(config)
        self.solid = solid = SolidObjects()
        self.denied: set[tuple[str, str]] = set()
        # Users for whom the policies, and the function that names the viewer, raise.
        self.failing: set[str] = set()
        self.asked: list[Access] = []

        @solid.actor
        class Room(Actor):
            messages: list[str] = attribute(default_factory=list, observable=True)
            secret: str = ""

            @observable(broadcast="value")
            def count(self) -> int:
                return len(self.messages)

            @payload
            def hand(self, viewer: str) -> dict[str, str]:
                return {"for": viewer, "last": self.messages[-1] if self.messages else ""}

            @payload
            def broken(self, viewer: str) -> dict[str, str]:
                raise RuntimeError("this projection fails")

            @operation
            def say(self, text: str) -> None:
                self.messages.append(text)

            @operation
            def whisper(self, text: str) -> None:
                self.secret = text

            @operation
            def refuse(self) -> None:
                raise Rejected("no")

        @solid.actor
        class Ledger(Actor):
            total: int = attribute(0, observable=True)

        self.Room: Any = Room
        self.Ledger: Any = Ledger
        solid.authorize_query(self._allows)
        solid.authorize_subscription(self._allows)
        solid.viewer(self._viewer)
        solid.init_app(self.app, seams=seams)

        @self.app.get("/login/<user>")
        def login(user: str) -> str:
            flask.session["user"] = user
            return "in"

        @self.app.get("/page")
        def page() -> str:
            return render_template_string(PAGE, ref=Room.ref("lobby"))

    def _viewer(self) -> str:
        user = str(flask.session.get("user") or "nobody")
        if f"viewer {user}" in self.failing:
            raise ZeroDivisionError("this function fails")
        return user

    def _allows(self, access: Access) -> bool:
        self.asked.append(access)
        if access.context in self.failing:
            raise ZeroDivisionError("this policy fails")
        return (str(access.context), access.operation or access.action) not in self.denied

    @contextmanager
    def ready(self) -> Iterator[Site]:
        with self.app.app_context():
            try:
                yield self
            finally:
                self.solid.runtime.close()

    @contextmanager
    def served(self) -> Iterator[int]:
        """Serve in threads; the port."""
        server = make_server("127.0.0.1", 0, self.app, threaded=True)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            self.solid.runtime.close()
            server.shutdown()
            thread.join()
            server.server_close()


class GreetedClient(Client):
    """A client that also reads what came together with the answer to its upgrade."""

    def handshake(self) -> None:
        super().handshake()
        self.connected = self._handle_events()


class Page:
    """What one user's browser got, and its socket."""

    def __init__(self, site: Site, user: str, port: int | None = None) -> None:
        self.client = site.app.test_client()
        self.client.get(f"/login/{user}")
        self.text = self.client.get("/page").text
        self._port = port
        self.socket: Any = None
        self._unread: list[dict[str, Any]] = []

    @property
    def pairs(self) -> list[list[Any]]:
        """The dependencies of every live element, in the order of the page."""
        found = re.findall(r'data-solid="([^"]*)"', self.text)
        return [pair for text in found for pair in json.loads(html.unescape(text))]

    @property
    def url(self) -> str:
        """Where the component is refetched."""
        match = re.search(r'hx-get="([^"]*)"', self.text)
        assert match is not None
        return html.unescape(match.group(1))

    def open(self, origin: str | None = HERE) -> Any:
        """Open a socket and read its greeting."""
        cookie = self.client.get_cookie("session")
        headers = {"Cookie": f"session={cookie.value}" if cookie else ""}
        if origin is not None:
            headers["Origin"] = origin
        self.socket = GreetedClient(f"ws://127.0.0.1:{self._port}/solid/ws", headers=headers)
        return self.receive("hello")

    def refused(self, origin: str | None = HERE) -> int:
        """Try to open a socket by hand; the status of the answer."""
        return self.try_open(origin)[0]

    def try_open(self, origin: str | None = HERE) -> tuple[int, dict[str, str]]:
        """The same with the headers of the answer."""
        cookie = self.client.get_cookie("session")
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Host": "127.0.0.1",
            "Cookie": f"session={cookie.value}" if cookie else "",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port or 0, timeout=5)
        try:
            connection.request("GET", "/solid/ws", headers=headers | ({"Origin": origin} if origin is not None else {}))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders())
        finally:
            connection.close()

    def half_open(self) -> socket.socket:
        """Open a socket by hand that is never read from again, and that answers no ping."""
        cookie = self.client.get_cookie("session")
        lines = ["GET /solid/ws HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade"]
        lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Origin: {HERE}"]
        lines += [f"Cookie: session={cookie.value}" if cookie else "X-None: 1", "", ""]
        peer = socket.create_connection(("127.0.0.1", self._port or 0), timeout=5)
        peer.sendall("\r\n".join(lines).encode())
        assert b" 101 " in peer.recv(64)
        return peer

    def subscribe(self, place: int = 0, **changed: Any) -> Any:
        """Subscribe to one of the page's dependencies; the answer's one item, or the frame that refused it."""
        handle, incarnation, revision, _ = self.pairs[place]
        item = {"k": handle, "i": incarnation, "r": revision} | changed
        self.send({"t": "sub", "s": [item]})
        frame = self.receive("sub", "gone")
        return frame["s"][0] if frame["t"] == "sub" else frame

    def send(self, frame: Any) -> None:
        self.socket.send(frame if isinstance(frame, str) else json.dumps(frame))

    def receive(self, *kinds: str, timeout: float = 5.0) -> Any:
        """The next frame of one of these kinds; heart-beats and others before it are passed over."""
        for _ in range(200):
            while self._unread:
                frame = self._unread.pop(0)
                if frame["t"] in kinds:
                    return frame
            text = self.socket.receive(timeout=timeout)
            assert text is not None, f"none of {kinds} came"
            decoded = json.loads(text)
            self._unread = decoded if isinstance(decoded, list) else [decoded]
        raise AssertionError(f"none of {kinds} among 200 frames")

    def close(self) -> None:
        """Close the socket, unless it is closed already."""
        if self.socket is not None:
            with contextlib.suppress(simple_websocket.ConnectionClosed):
                self.socket.close()
            self.socket.thread.join(5)
