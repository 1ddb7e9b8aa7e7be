"""A small Flask app that speaks the live protocol with actors in memory, and misbehaves when a test asks it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR
from typing import Any

from flask import Flask, Response, abort, redirect, request
from flask_sock import Sock
from markupsafe import Markup, escape
from simple_websocket import ConnectionClosed, Server
from werkzeug.serving import ThreadedWSGIServer, make_server

from flask_solid_objects.assets import STATIC

SCRIPTS = {4: ["htmx-4.0.1.min.js"], 2: ["htmx-2.0.11.min.js", "idiomorph-0.8.0.min.js"]}
HTMX_2_CONFIG = '<meta name="htmx-config" content=\'{"includeIndicatorStyles":false,"allowEval":false}\'>'
# The whole fence, as the control runs cut it out.
FENCE = "if (!around(target).length) return false;"
PATIENCE = 10.0


@dataclass
class StubActor:
    """State that every component of the stub is rendered from."""

    id: str
    incarnation: int = 9
    revision: int = 1
    published: int = 1
    values: dict[str, Any] = field(default_factory=lambda: {"count": 0, "title": "none"})
    changed: dict[str, int] = field(default_factory=dict)
    is_destroyed: bool = False

    def pair(self, names: list[str], user: str) -> list[Any]:
        incarnation, revision = ("0", 0) if self.is_destroyed else (str(self.incarnation), self.revision)
        return [f"{self.id}~mac-{user}", incarnation, revision, names]


@dataclass(frozen=True)
class Asked:
    """One request that the stub has seen."""

    kind: str
    parts: tuple[str, ...] = ()


class Connection:
    """One socket of one page."""

    def __init__(self, ws: Server, user: str) -> None:
        self.ws, self.user = ws, user
        self.frozen = False
        self.streams: set[str] = set()
        self._lock = threading.Lock()

    def send(self, frame: Any) -> None:
        with suppress(ConnectionClosed, OSError), self._lock:
            self.ws.send(json.dumps(frame))


class Gate:
    """Holds one answer back after it was rendered."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.reached, self.opened = threading.Event(), threading.Event()

    def wait_until_reached(self) -> None:
        assert self.reached.wait(PATIENCE), f"nobody asked for {self.part}"

    def open(self) -> None:
        self.opened.set()


Render = Callable[["Stub", str, str], str]


class Stub:
    """The server, its actors, and what it was asked."""

    def __init__(self, htmx: int) -> None:
        self.htmx = htmx
        self.scripts = SCRIPTS[htmx]
        self.settings: dict[str, str] = {}
        self.fence = True
        self.beat = 25.0
        self.spread = 0
        self.sockets_refused = self.lose_messages = False
        self.delay = 0.0
        self.actors: dict[str, StubActor] = {}
        self.components: dict[str, Render] = {}
        self.pages: dict[str, Callable[[str], str]] = {}
        self.answers: dict[str, Callable[[], Response]] = {}
        self.denied: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.asked: list[Asked] = []
        self.subscribed: list[list[dict[str, Any]]] = []
        self.connections: list[Connection] = []
        self.opened = 0
        self.answering = self.most_at_once = 0
        self._gates: list[Gate] = []
        self._changed = threading.Condition(threading.RLock())
        self.app = self._build()
        self._server: Any = None

    # -- what tests do ---------------------------------------------------------------------------

    @contextmanager
    def running(self) -> Iterator[Stub]:
        self._server = make_server("127.0.0.1", 0, self.app, threaded=True)
        assert isinstance(self._server, ThreadedWSGIServer)
        self._server.daemon_threads = True
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            for gate in self._gates:
                gate.open()
            self.cut()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def actor(self, name: str = "room:1") -> StubActor:
        with self._changed:
            return self.actors.setdefault(name, StubActor(name))

    def turn(self, name: str = "room:1", **values: Any) -> dict[str, Any]:
        """One committed turn, told to whoever watches; the answer is the message."""
        actor = self.actor(name)
        with self._changed:
            actor.revision += 1
            actor.values.update(values)
            actor.changed.update(dict.fromkeys(values, actor.revision))
            message = {
                "t": "inv",
                "s": name,
                "i": str(actor.incarnation),
                "r": actor.revision,
                "p": actor.published,
                "n": list(values),
                "v": {key: value for key, value in values.items() if key == "count"},
                "j": self.spread,
            }
            actor.published = actor.revision
            if not self.lose_messages:
                self._tell(name, message)
            return message

    def destroy(self, name: str = "room:1") -> None:
        """The actor is no more, and shows what one that was never used does."""
        actor = self.actor(name)
        with self._changed:
            actor.is_destroyed = True
            actor.values = {"count": 0, "title": "none"}
            self._tell(name, {"t": "gone", "s": name, "why": "deleted"})

    def reborn(self, name: str = "room:1", **values: Any) -> None:
        """The actor was destroyed and made again: a newer incarnation at a low revision."""
        actor = self.actor(name)
        with self._changed:
            actor.is_destroyed = False
            actor.incarnation += 1
            actor.revision = actor.published = 1
            actor.changed = {}
            actor.values = {"count": 0, "title": "none", **values}
            self._tell(name, {"t": "inv", "s": name, "i": str(actor.incarnation), "r": 1, "p": 0, "n": None})

    def tell(self, name: str, frame: dict[str, Any]) -> None:
        with self._changed:
            self._tell(name, frame)

    def hold(self, part: str) -> Gate:
        """The next answer that contains this component is rendered, and then held back."""
        gate = Gate(part)
        with self._changed:
            self._gates.append(gate)
        return gate

    def cut(self, code: int | None = None) -> None:
        """End all sockets: with a close code, or as if the cable was pulled."""
        with self._changed:
            connections, self.connections = self.connections, []
        for connection in connections:
            with suppress(ConnectionClosed, OSError):
                if code is None:
                    connection.ws.sock.shutdown(SHUT_RDWR)
                else:
                    connection.ws.close(code)

    def freeze(self) -> None:
        """The sockets that are open now stay open, and say nothing any more."""
        with self._changed:
            for connection in self.connections:
                connection.frozen = True
                connection.streams = set()

    def refetches(self, part: str = "") -> list[Asked]:
        with self._changed:
            return [
                asked
                for asked in self.asked
                if asked.kind in {"component", "batch"} and (not part or part in asked.parts)
            ]

    def count(self, kind: str) -> int:
        with self._changed:
            return sum(asked.kind == kind for asked in self.asked)

    def wait_for(self, condition: Callable[[], Any], what: str = "") -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), what or "the server waited in vain"

    def wait_for_watchers(self, count: int = 1, name: str = "room:1") -> None:
        self.wait_for(lambda: sum(name in c.streams for c in self.connections) >= count, f"nobody watches {name}")

    # -- HTML ------------------------------------------------------------------------------------

    def deps(self, user: str, *reads: tuple[str, list[str]]) -> Markup:
        with self._changed:
            text = json.dumps([self.actor(name).pair(names, user) for name, names in reads])
        return Markup('data-solid="{}"').format(text)

    def component(self, token: str, user: str, oob: bool = False) -> str:
        """The root of a component; a token is `name.actor`."""
        name, _, actor = token.partition(".")
        reads = [(actor, ["count"]), ("board:1", ["title"])] if name == "both" else [(actor, ["count"])]
        with self._changed:
            body = self.components[name](self, actor, user)
            tag = "tr" if name == "row" else "section"
            attributes = {
                "id": element_id(token),
                "hx-get": f"/solid/c/{token}",
                "hx-trigger": "solid:stale",
                "hx-target": "this",
                "hx-swap": "outerMorph",
                "hx-push-url": "false",
                "hx-disinherit": "hx-target hx-swap hx-push-url",
                "hx-ext": "solid",
            } | ({"hx-swap-oob": "outerMorph"} if oob else {})
            printed = " ".join(f'{key}="{escape(value)}"' for key, value in attributes.items())
            return f"<{tag} data-solid-c {self.deps(user, *reads)} {printed}>{body}</{tag}>"

    def scalar(self, user: str, name: str = "room:1") -> str:
        with self._changed:
            value = self.actor(name).values["count"]
            deps = self.deps(user, (name, ["count"]))
            return f'<span class="scalar" {deps} data-solid-text="count">{escape(str(value))}</span>'

    def layout(self, body: str) -> str:
        script = "solid-objects.js" if self.fence else "unfenced.js"
        settings = "".join(f' data-{key}="{escape(value)}"' for key, value in self.settings.items())
        scripts = "".join(f'<script defer src="/static/vendor/{name}"></script>' for name in self.scripts)
        return (
            '<!doctype html><html><head><meta charset="utf-8"><title>Stub</title><link rel="icon" href="/icon">'
            f"{HTMX_2_CONFIG if self.htmx == 2 else ''}{scripts}"
            f'<script defer src="/static/{script}" data-base="/solid"{settings}></script></head>'
            f"<body>{body}</body></html>"
        )

    # -- the app ---------------------------------------------------------------------------------

    def _build(self) -> Flask:
        app = Flask("stub", static_folder=str(STATIC), static_url_path="/static")
        sock = Sock(app)
        app.add_url_rule("/static/unfenced.js", view_func=self._unfenced)
        app.add_url_rule("/icon", view_func=lambda: Response(status=204), endpoint="icon")
        app.add_url_rule("/login", view_func=lambda: self.layout("<p id=login>Please log in</p>"), endpoint="login")
        app.add_url_rule("/act/<name>", view_func=self._act, methods=["POST"])
        app.add_url_rule("/solid/c/<token>", view_func=self._one)
        app.add_url_rule("/solid/batch", view_func=self._batch)
        app.add_url_rule("/solid/sync", view_func=self._sync)
        app.add_url_rule("/<path:path>", view_func=self._page)
        sock.route("/solid/ws")(self._socket)

        @app.before_request
        def check() -> None:
            if request.path == "/solid/ws":
                with self._changed:
                    self.asked.append(Asked("ws"))
                    self._changed.notify_all()
                if self.sockets_refused:
                    abort(503)
                request.environ.pop("HTTP_SEC_WEBSOCKET_EXTENSIONS", None)

        @app.after_request
        def strict(response: Response) -> Response:
            response.headers.setdefault("Content-Security-Policy", "default-src 'self'")
            response.headers["Cache-Control"] = "no-store"
            return response

        return app

    def _user(self) -> str:
        return request.cookies.get("user", "ann")

    def _note(self, kind: str, *parts: str) -> None:
        with self._changed:
            self.asked.append(Asked(kind, parts))
            self._changed.notify_all()

    def _answer(self, parts: tuple[str, ...], html: str) -> Response:
        """What was rendered, perhaps later."""
        with self._changed:
            gate = next((g for g in self._gates if g.part in parts and not g.reached.is_set()), None)
            if gate is not None:
                gate.reached.set()
            self.answering += 1
            self.most_at_once = max(self.most_at_once, self.answering)
        if gate is not None:
            gate.opened.wait(PATIENCE)
        if self.delay:
            threading.Event().wait(self.delay)
        with self._changed:
            self.answering -= 1
        return Response(html)

    def _one(self, token: str) -> Response:
        broken = self.answers.get(token)
        html = "" if broken else self.component(token, self._user())
        self._note("component", token)
        return broken() if broken else self._answer((token,), html)

    def _batch(self) -> Response:
        tokens = tuple(request.args.getlist("c"))
        broken = self.answers.get("batch")
        shown = [token for token in tokens if token not in self.answers]
        html = "".join(
            f'<div id="{element_id(token)}" hx-swap-oob="delete"></div>'
            if token in self.deleted
            else self.component(token, self._user(), oob=True)
            for token in shown
        )
        self._note("batch", *tokens)
        return broken() if broken else self._answer(tokens, html)

    def _page(self, path: str) -> Response:
        if path not in self.pages:
            abort(404)
        self._note("page", path)
        body = self.pages[path](self._user())
        return Response(self.layout(body) if not path.startswith("part") else body)

    def _act(self, name: str) -> Response:
        """An action of the user: it counts up, and answers with the component of this actor."""
        token = f"counter.{name}"
        message = self.turn(name, count=self.actor(name).values["count"] + 1)
        self._note("action", name)
        response = self._answer((f"act.{name}",), self.component(token, self._user()))
        response.headers["HX-Trigger"] = json.dumps({"solid:turn": {"m": [message]}})
        return response

    def _sync(self) -> Response:
        wanted = json.loads(request.args["s"])
        self._note("sync", *[item["k"] for item in wanted])
        broken = self.answers.get("sync")
        return broken() if broken else Response(json.dumps(self._states(wanted)), mimetype="application/json")

    def _unfenced(self) -> Response:
        text = (STATIC / "solid-objects.js").read_text()
        assert FENCE in text
        return Response(text.replace(FENCE, "return false;"), mimetype="text/javascript")

    # -- the socket ------------------------------------------------------------------------------

    def _socket(self, ws: Server) -> None:
        connection = Connection(ws, self._user())
        connection.send({"t": "hello", "v": 1, "hb": self.beat})
        with self._changed:
            self.connections.append(connection)
            self.opened += 1
            self._changed.notify_all()
        try:
            while True:
                text = ws.receive(timeout=self.beat)
                if connection.frozen:
                    continue
                if text is None:
                    connection.send({"t": "hb"})
                else:
                    self._take(connection, json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                if connection in self.connections:
                    self.connections.remove(connection)
                self._changed.notify_all()
            ws.thread.join(1)
            # So werkzeug cannot write a second response behind the close frame, and its code arrives.
            with suppress(OSError):
                ws.sock.shutdown(SHUT_RDWR)

    def _take(self, connection: Connection, message: dict[str, Any]) -> None:
        with self._changed:
            if message["t"] == "unsub":
                connection.streams -= set(message["s"])
            else:
                self.subscribed.append(message["s"])
                connection.streams |= {item["k"].rpartition("~")[0] for item in message["s"]}
                frames = self._states(message["s"])
                connection.streams -= {frame["s"] for frame in frames if frame["t"] == "gone"}
                connection.send(frames)
            self._changed.notify_all()

    def _states(self, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
        frames: list[dict[str, Any]] = []
        with self._changed:
            for item in wanted:
                name = item["k"].rpartition("~")[0]
                actor = self.actor(name)
                if name in self.denied:
                    frames.append({"t": "gone", "s": name, "why": self.denied[name]})
                    continue
                if actor.is_destroyed:
                    never = {"t": "sub", "s": [{"s": name, "i": "0", "r": 0, "n": [], "v": {}}]}
                    frames.append(never if item["i"] == "0" else {"t": "gone", "s": name, "why": "deleted"})
                    continue
                same = str(actor.incarnation) == item["i"]
                names = [key for key, at in actor.changed.items() if at > item["r"]] if same else None
                state = {
                    "s": name,
                    "i": str(actor.incarnation),
                    "r": actor.revision,
                    "n": names,
                    "v": {"count": actor.values["count"]},
                }
                frames.append({"t": "sub", "s": [state]})
        return frames

    def _tell(self, name: str, frame: dict[str, Any]) -> None:
        for connection in self.connections:
            if name in connection.streams:
                connection.send(frame)


def element_id(token: str) -> str:
    return token.replace(".", "-").replace(":", "-")


def to_login() -> Response:
    """What many apps answer when the session is over."""
    response = redirect("/login")
    assert isinstance(response, Response)
    return response
