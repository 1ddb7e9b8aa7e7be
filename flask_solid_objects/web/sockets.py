"""The socket endpoint: who may open one, and how long it lives.

Origin and number are checked before anything is said. Whatever asks the application for something does so in a short
request context of its own, so that no database session lives as long as the socket.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Response, current_app, request
from simple_websocket import ConnectionClosed, Server
from werkzeug.wrappers import Response as BaseResponse
from wsproto.utilities import ProtocolError

from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.web.connection import MOST_STREAMS, Connection
from flask_solid_objects.web.origins import is_allowed
from flask_solid_objects.web.protocol import Frame, Malformed, Subscribe, frames_of
from flask_solid_objects.web.serving import serving_of
from flask_solid_objects.web.socket_hub import BROKEN, RESTART, OpenSocket, SocketHub
from flask_solid_objects.web.subscriptions import Subscriptions
from flask_solid_objects.web.wire import Wire

MALFORMED, FLOODING = 4400, 4429
_MOST_MESSAGE_BYTES = 64 * 1024
# A page may ask this often in so many seconds; the whole of a page with every stream four times over.
_MOST_ITEMS, _ITEMS_SECONDS = 4 * MOST_STREAMS, 10.0
_MOST_UNREAD = 100
_OLDEST_SECONDS = 4 * 3600.0


class Sockets:
    """The sockets of one application in this process."""

    def __init__(self, runtime: Callable[[], Runtime], viewer: Callable[[], str], subscriptions: Subscriptions) -> None:
        self._runtime, self._viewer, self._subscriptions = runtime, viewer, subscriptions

    @property
    def hub(self) -> SocketHub:
        """The open sockets of this process."""
        app = current_app._get_current_object()  # type: ignore[attr-defined]

        def make() -> SocketHub:
            project = partial(self._subscriptions.project, app)
            alive = serving_of(request.environ).is_alive if request else lambda: True
            return SocketHub(self._runtime().settings.live_heartbeat, project, self._events, alive)

        return self._runtime().part("sockets", make)

    @property
    def _events(self) -> Events:
        return self._runtime().core.events

    def endpoint(self) -> BaseResponse:
        """Refuse this request, or upgrade it and serve its page until it goes."""
        hub = self.hub
        refusal = self._refusal(hub)
        if refusal is not None:
            return refusal
        if not hub.take_place(self._most()):
            self._events.announce("socket.refused", reason="too many")
            return Response("Too many sockets.", 503, {"Retry-After": "5"}, mimetype="text/plain")
        try:
            return self._serve(hub)
        finally:
            hub.give_place()

    def _refusal(self, hub: SocketHub) -> Response | None:
        settings = self._runtime().settings
        origin = request.headers.get("Origin", "")
        if not is_allowed(origin, scheme=request.scheme, host=request.host, others=settings.live_allowed_origins):
            self._events.announce("socket.refused", reason="origin")
            return Response("Sockets are opened by this site's own pages.", 403, mimetype="text/plain")
        if not request.environ.get("wsgi.multithread", True):
            self._events.announce("socket.refused", reason="worker class")
            return Response("This worker serves one request at a time: use threads or gevent.", 503)
        if hub.is_stopping:
            self._events.announce("socket.refused", reason="ending")
            return Response("This worker ends.", 503, {"Retry-After": "5"}, mimetype="text/plain")
        return None

    def _most(self) -> int:
        """As many as the settings allow, unless the server has room for fewer."""
        most, room = self._runtime().settings.live_max_sockets, serving_of(request.environ).most_sockets
        return most if room is None else min(most, room)

    # -- one socket ---------------------------------------------------------------------------

    def _serve(self, hub: SocketHub) -> BaseResponse:
        # Before the upgrade: if it fails, that is an ordinary answer.
        viewer = self._briefly(self._viewer)
        opened = self._open(hub, viewer)
        if opened is None:
            return Response("This request, or this server, makes no WebSocket.", 400, mimetype="text/plain")
        connection = opened.connection
        connection.put({"t": "hello", "v": 1, "hb": self._runtime().settings.live_heartbeat})
        hub.add(opened)
        try:
            self._listen(opened)
        except ConnectionClosed as closed:
            self._events.announce("socket.closed", code=closed.reason)
        except Exception as error:
            # Such as a policy that fails, or a database that is away: the page comes back later.
            self._events.announce("socket.failed", error=type(error).__name__)
            opened.close(BROKEN)
        finally:
            self._leave(hub, opened)
        return _answer(opened.server)

    def _open(self, hub: SocketHub, viewer: str) -> OpenSocket | None:
        environ = request.environ
        # Compression costs 90 kB a socket, for frames of 150 bytes.
        environ.pop("HTTP_SEC_WEBSOCKET_EXTENSIONS", None)
        wire: Wire | None = None
        for name in ("gunicorn.socket", "werkzeug.socket"):
            if name in environ:
                wire = environ[name] = Wire(environ[name], duplicate=name.startswith("gunicorn"))
        pings = self._runtime().settings.live_heartbeat
        try:
            server = Server(environ, ping_interval=pings, max_message_size=_MOST_MESSAGE_BYTES)
        except (ProtocolError, RuntimeError) as error:
            self._events.announce("socket.refused", reason=type(error).__name__)
            if wire is not None:
                wire.release()
            return None
        if wire is not None:
            wire.when_over(server.event.set)
        return OpenSocket(Connection(viewer, hub.wake, hub.project), server, wire, self._events)

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
                    frames = frames_of(text)
                except Malformed:
                    return opened.close(MALFORMED)
                items += sum(max(1, frame.size) for frame in frames)
                if items > _MOST_ITEMS or len(server.input_buffer) > _MOST_UNREAD:
                    return opened.close(FLOODING)
                for frame in frames:
                    self._briefly(partial(self._take, frame, connection))
            if now - asked_at >= settings.live_recheck_interval:
                asked_at = now
                self._briefly(partial(self._subscriptions.recheck, connection))
            if now >= until:
                return opened.close(RESTART)

    def _take(self, frame: Frame, connection: Connection) -> None:
        if isinstance(frame, Subscribe):
            self._subscriptions.answer(frame.items, connection.viewer, connection)
            return
        for name in frame.names:
            self._subscriptions.drop(connection, name)

    def _leave(self, hub: SocketHub, opened: OpenSocket) -> None:
        connection, server = opened.connection, opened.server
        hub.remove(connection)
        for name, stream in connection.streams.items():
            if hub.is_stopping:
                # Its relay ends too.
                self._events.announce("realtime.disconnected", actor=stream.key)
            else:
                self._subscriptions.drop(connection, name)
        if server.connected:
            opened.close()
        # The browser's own close frame ends the reader; without it the code would be lost in a reset.
        server.thread.join(1)
        if opened.wire is not None:
            opened.wire.close()

    @staticmethod
    def _briefly(work: Callable[[], Any]) -> Any:
        """Do something in a request context of its own, which ends with it."""
        app = current_app._get_current_object()  # type: ignore[attr-defined]
        with app.request_context(dict(request.environ)):
            return work()


def _answer(server: Any) -> BaseResponse:
    """What each server needs after a socket: nothing may be written behind the close frame."""

    class Nothing(Response):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if server.mode == "gunicorn":
                raise StopIteration
            return super().__call__(*args, **kwargs) if server.mode == "werkzeug" else []

    return Nothing()
