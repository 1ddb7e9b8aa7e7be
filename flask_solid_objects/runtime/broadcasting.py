"""The transports of broadcasts: to this process, through PostgreSQL NOTIFY, through Redis, to a function of the app.

They carry metadata only. What fails raises, and the broadcast's row is tried again; a connection that failed is opened
anew at the next batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.hub import Hub
from flask_solid_objects.runtime.redis_client import connect_redis
from flask_solid_objects.store.listeners import NotifyConnection
from flask_solid_objects.values import Broadcast

# NOTIFY takes 8,000 bytes less one; the rest is room for the list around the items.
_MOST_BYTES = 7_900


class BroadcastTransport(Protocol):
    """Delivers a batch to whoever listens; raises when it could not."""

    def deliver(self, broadcasts: Sequence[Broadcast]) -> None: ...

    def close(self) -> None: ...


def broadcast_channel(core: Core) -> str:
    """The name of the channel that all processes of these tables share for broadcasts."""
    return core.database.channel.replace("wake_up", "broadcast")


def select_transport(core: Core, hub: Hub) -> BroadcastTransport:
    """The transport that the settings name, or the best that there is.

    :raises InvalidSettings: the one that is named cannot work here.
    """
    chosen, settings = core.settings.broadcast_transport, core.settings
    if callable(chosen):
        return FunctionTransport(hub, chosen)
    if chosen == "redis" or (chosen == "automatic" and settings.redis_url is not None):
        if settings.redis_url is None:
            raise InvalidSettings(
                {"SOLID_OBJECTS_BROADCAST_TRANSPORT": "is redis, which needs SOLID_OBJECTS_REDIS_URL."}
            )
        return RedisTransport(hub, settings.redis_url, broadcast_channel(core))
    if chosen == "postgresql" and not core.database.dialect.can_notify:
        raise InvalidSettings(
            {"SOLID_OBJECTS_BROADCAST_TRANSPORT": "is postgresql, but the database is another: use automatic or redis."}
        )
    if chosen == "postgresql" or (chosen == "automatic" and core.database.dialect.can_notify):
        return NotifyTransport(hub, core)
    return InProcessTransport(hub)


class InProcessTransport:
    """To the listeners of this process only; others find committed changes by polling."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def deliver(self, broadcasts: Sequence[Broadcast]) -> None:
        self._hub.deliver(broadcasts)

    def close(self) -> None:
        """There is nothing to close."""


class FunctionTransport(InProcessTransport):
    """Also to a function of the application."""

    def __init__(self, hub: Hub, function: Callable[[list[Broadcast]], object]) -> None:
        super().__init__(hub)
        self._function = function

    def deliver(self, broadcasts: Sequence[Broadcast]) -> None:
        super().deliver(broadcasts)
        self._function(list(broadcasts))


class RedisTransport(InProcessTransport):
    """Also through Redis publish."""

    def __init__(self, hub: Hub, url: str, channel: str) -> None:
        super().__init__(hub)
        self._client: Any = connect_redis(url)
        self._channel = channel

    def deliver(self, broadcasts: Sequence[Broadcast]) -> None:
        super().deliver(broadcasts)
        for text in encoded(broadcasts):
            self._client.publish(self._channel, text)

    def close(self) -> None:
        self._client.close()


class NotifyTransport(InProcessTransport):
    """Also through PostgreSQL NOTIFY, over a connection of its own."""

    def __init__(self, hub: Hub, core: Core) -> None:
        super().__init__(hub)
        self._core = core
        self._connection: NotifyConnection | None = None
        self._lock = threading.Lock()

    def deliver(self, broadcasts: Sequence[Broadcast]) -> None:
        super().deliver(broadcasts)
        with self._lock:
            if self._connection is None:
                self._connection = NotifyConnection(self._core.database, broadcast_channel(self._core))
            try:
                for text in encoded(broadcasts):
                    self._connection.notify(text.decode())
            except Exception:
                self._close()
                raise

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def encoded(broadcasts: Sequence[Broadcast]) -> Iterator[bytes]:
    """JSON lists of broadcasts, each small enough for one notification."""
    items: list[bytes] = []
    size = 0
    for broadcast in broadcasts:
        item = msgspec.json.encode(broadcast)
        if items and size + len(item) + 1 > _MOST_BYTES:
            yield b"[" + b",".join(items) + b"]"
            items, size = [], 0
        items.append(item)
        size += len(item) + 1
    if items:
        yield b"[" + b",".join(items) + b"]"


def decoded(text: str | bytes) -> list[Broadcast]:
    """What :func:`encoded` made.

    :raises ValueError: it is something else.
    """
    return msgspec.json.decode(text, type=list[Broadcast])
