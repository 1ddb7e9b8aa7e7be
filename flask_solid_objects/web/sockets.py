"""The socket endpoint: who may open one, what a page may subscribe to, and the frames that it sends.

Everything is checked before anything is said: origin and number before the upgrade, handle and policy at every
subscription, the policy again now and then. Policies are asked in a short request context of their own, so that no
database session lives as long as the socket.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, current_app, request
from simple_websocket import ConnectionClosed, Server
from werkzeug.wrappers import Response as BaseResponse

from flask_solid_objects.errors import StateMigrationError, Unauthorized, UnknownActorType
from flask_solid_objects.runtime.events import announce
from flask_solid_objects.runtime.relay import Notice
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.runtime.viewing import NEVER_USED
from flask_solid_objects.values import Access, ActorKey
from flask_solid_objects.web.connection import MOST_STREAMS, Connection
from flask_solid_objects.web.handles import HandleRefused, Handles, Stream
from flask_solid_objects.web.socket_hub import RESTART, OpenSocket, SocketHub
from flask_solid_objects.web.wire import Wire

MALFORMED, FLOODING = 4400, 4429
_MOST_MESSAGE_BYTES = 64 * 1024
_PING_SECONDS = 25
# A page may subscribe this often in so many seconds; the whole of a page with every stream four times over.
_MOST_ITEMS, _ITEMS_SECONDS = 4 * MOST_STREAMS, 10.0
_OLDEST_SECONDS = 4 * 3600.0


class Sockets:
    """The sockets of one application in this process."""

    def __init__(self, runtime: Callable[[], Runtime], viewer: Callable[[], str], handles: Handles) -> None:
        self._runtime, self._viewer, self._handles = runtime, viewer, handles
        self._hub: SocketHub | None = None

    @property
    def hub(self) -> SocketHub:
        """Made at the first use, in the process that serves."""
        if self._hub is None or self._hub.is_stopping:
            heartbeat = self._runtime().settings.live_heartbeat
            app = current_app._get_current_object()  # type: ignore[attr-defined]
            self._hub = SocketHub(heartbeat, lambda viewer, name, notice: self._project(app, viewer, name, notice))
            self._runtime().on_close(self._hub.stop)
        return self._hub

    def refusal(self) -> Response | None:
        """Why this request may not become a socket; None when it may."""
        settings = self._runtime().settings
        origin = request.headers.get("Origin", "")
        if origin not in settings.live_allowed_origins and not _is_same_origin(origin):
            announce("socket.refused", reason="origin")
            return Response("Sockets are opened by this site's own pages.", 403, mimetype="text/plain")
        if not request.environ.get("wsgi.multithread", True):
            announce("socket.refused", reason="worker class")
            return Response("This worker serves one request at a time: use threads or gevent.", 503)
        if self.hub.count >= settings.live_max_sockets:
            announce("socket.refused", reason="too many")
            return Response("Too many sockets.", 503, {"Retry-After": "5"})
        return None

    def serve(self) -> BaseResponse:
        """Upgrade this request and serve its page until it goes."""
        environ = request.environ
        # Compression costs 90 kB a socket, for frames of 150 bytes.
        environ.pop("HTTP_SEC_WEBSOCKET_EXTENSIONS", None)
        wire: Wire | None = None
        for name in ("gunicorn.socket", "werkzeug.socket"):
            if name in environ:
                wire = environ[name] = Wire(environ[name], duplicate=name.startswith("gunicorn"))
        server = Server(environ, ping_interval=_PING_SECONDS, max_message_size=_MOST_MESSAGE_BYTES)
        viewer = self._briefly(self._viewer)
        hub = self.hub
        connection = Connection(viewer, hub.wake, hub.project)
        opened = OpenSocket(connection, server, wire)
        hub.add(opened)
        connection.put({"t": "hello", "v": 1, "hb": self._runtime().settings.live_heartbeat})
        try:
            self._listen(opened)
        except ConnectionClosed as closed:
            announce("socket.closed", code=closed.reason)
        finally:
            self._leave(opened)
        return _answer(server)

    def subscribe(self, items: Any, viewer: str, connection: Connection | None) -> list[dict[str, Any]]:
        """Answer a list of subscriptions: a frame with what each has missed, and one for each that is refused.

        A connection gets them too, and hears of all further changes.
        """
        answered: list[dict[str, Any]] = []
        refused: list[dict[str, Any]] = []
        for item in items:
            handle, incarnation, revision = _item(item)
            name = handle.rpartition("~")[0]
            try:
                stream = self._handles.read_stream(handle, viewer)
                self._authorize(stream.key, viewer)
                answered.append(self._current(name, stream, incarnation, revision, connection))
            except HandleRefused as error:
                refused.append({"t": "gone", "s": name, "why": error.why})
            except (Unauthorized, UnknownActorType, StateMigrationError):
                refused.append({"t": "gone", "s": name, "why": "denied"})
        if connection is not None:
            for frame in refused:
                self._drop(connection, frame["s"])
            if answered:
                connection.answer(answered)
            connection.put(*refused)
        return [*([{"t": "sub", "s": answered}] if answered else []), *refused]

    # -- one socket ---------------------------------------------------------------------------

    def _listen(self, opened: OpenSocket) -> None:
        server, connection = opened.server, opened.connection
        settings = self._runtime().settings
        until = time.monotonic() + _OLDEST_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 - spreads reconnects
        asked_at, counted_at, items = time.monotonic(), time.monotonic(), 0
        while True:
            text = server.receive(timeout=min(settings.live_heartbeat, settings.live_recheck_interval))
            now = time.monotonic()
            if now - counted_at > _ITEMS_SECONDS:
                counted_at, items = now, 0
            if text is not None:
                try:
                    items += self._handle(text, connection)
                except (ValueError, TypeError, KeyError):
                    opened.close(MALFORMED)
                    return
                if items > _MOST_ITEMS:
                    opened.close(FLOODING)
                    return
            if now - asked_at >= settings.live_recheck_interval:
                asked_at = now
                self._recheck(connection)
            if now >= until:
                opened.close(RESTART)
                return

    def _handle(self, text: str | bytes, connection: Connection) -> int:
        """One frame of the page, or a list of them; how many subscriptions it asked for.

        :raises ValueError, TypeError, KeyError: it is not what a page of ours sends.
        """
        decoded = json.loads(text)
        count = 0
        for frame in decoded if isinstance(decoded, list) else [decoded]:
            items = frame["s"]
            if not isinstance(items, list) or len(items) > _MOST_ITEMS:
                raise ValueError("s is a list")
            if frame["t"] == "sub":
                count += max(1, len(items))
                self._briefly(partial(self.subscribe, items, connection.viewer, connection))
            elif frame["t"] == "unsub":
                for name in items:
                    self._drop(connection, str(name))
            else:
                raise ValueError(f"unknown frame {frame['t']!r}")
        return count

    def _current(
        self, name: str, stream: Stream, incarnation: int, revision: int, connection: Connection | None
    ) -> dict[str, Any]:
        """Register first and read afterwards: a change in between is told twice, and never not at all."""
        runtime = self._runtime()
        definition = runtime.core.registry.get(stream.key.actor_type)
        if connection is not None:
            if not connection.add(name, stream):
                raise HandleRefused("denied")
            runtime.relay.watch(stream.key, connection)
            runtime.core.seams.checkpoints.reach("subscription.watched", stream=str(stream))
        row = runtime.viewing.row(stream.key)
        if row is None and incarnation != NEVER_USED:
            raise HandleRefused("deleted")
        if connection is not None:
            runtime.relay.seen(stream.key, row)
            if stream.payloads and row is not None:
                notice = Notice(key=stream.key, incarnation=row.id, revision=row.revision, row=row, values={})
                self.hub.project(connection, name, notice)
        return {
            "s": name,
            "i": str(NEVER_USED if row is None else row.id),
            "r": 0 if row is None else row.revision,
            "n": [] if row is None else row.changed_since(incarnation, revision),
            "v": runtime.viewing.shared_values(definition, row, stream.key),
        }

    def _recheck(self, connection: Connection) -> None:
        """Ask the policy again: rights may have been taken away since."""
        for name, stream in connection.streams.items():
            try:
                self._briefly(partial(self._authorize, stream.key, connection.viewer))
            except Unauthorized:
                self._drop(connection, name)
                connection.put({"t": "gone", "s": name, "why": "denied"})

    def _drop(self, connection: Connection, name: str) -> None:
        key = connection.remove(name)
        if key is not None:
            self._runtime().relay.unwatch(key, connection)

    def _leave(self, opened: OpenSocket) -> None:
        connection, server = opened.connection, opened.server
        self.hub.remove(connection)
        for name in connection.streams:
            self._drop(connection, name)
        if server.connected:
            opened.close()
        # The browser's own close frame ends the reader; without it the code would be lost in a reset.
        server.thread.join(1)
        if opened.wire is not None:
            opened.wire.close()

    # -- parts --------------------------------------------------------------------------------

    def _authorize(self, key: ActorKey, viewer: str) -> None:
        access = Access(action="subscribe", actor_type=key.actor_type, actor_id=key.actor_id, context=viewer)
        self._runtime().core.policies.require("subscription", access, browser=True)

    def _project(self, app: Flask, viewer: str, name: str, notice: Notice) -> Any:
        """One payload for one viewer, after the policy was asked again."""
        assert notice.row is not None, "nothing is computed of what is gone"
        with app.app_context():
            runtime = self._runtime()
            access = Access(
                action="query",
                actor_type=notice.key.actor_type,
                actor_id=notice.key.actor_id,
                operation=name,
                context=viewer,
            )
            runtime.core.policies.require("query", access, browser=True)
            definition = runtime.core.registry.get(notice.key.actor_type)
            limit = runtime.settings.max_payload_bytes
            return runtime.viewing.payload(definition, notice.row, name, viewer, limit)

    @staticmethod
    def _briefly(work: Callable[[], Any]) -> Any:
        """Do something in a request context of its own, which ends with it."""
        app = current_app._get_current_object()  # type: ignore[attr-defined]
        with app.request_context(dict(request.environ)):
            return work()


def _item(item: Any) -> tuple[str, int, int]:
    handle, incarnation, revision = item["k"], item.get("i", "0"), item.get("r", 0)
    if not isinstance(handle, str) or isinstance(revision, bool) or not isinstance(revision, int):
        raise ValueError("a subscription has k, i and r")
    return handle, int(incarnation or 0), revision


def _is_same_origin(origin: str) -> bool:
    """The page's origin is where this request went; a missing one is not."""
    parts = urlsplit(origin)
    return bool(parts.netloc) and parts.netloc == request.host and parts.scheme == request.scheme


def _answer(server: Any) -> BaseResponse:
    """What each server needs after a socket: nothing may be written behind the close frame."""

    class Nothing(Response):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if server.mode == "gunicorn":
                raise StopIteration
            return super().__call__(*args, **kwargs) if server.mode == "werkzeug" else []

    return Nothing()
