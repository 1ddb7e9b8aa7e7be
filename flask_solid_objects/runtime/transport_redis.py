"""Wake-ups through Redis publish and subscribe, for databases that cannot notify, or to spare them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.redis_client import connect_redis
from flask_solid_objects.runtime.transports import PublishingTransport
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.values import WakeUpCapability

_RECEIVE_SECONDS = 0.5


class RedisTransport(PublishingTransport):
    """One subscription and one publishing connection per process."""

    capability = WakeUpCapability(
        adapter="redis", crosses_processes=True, floor_ms=5.0, reason="SOLID_OBJECTS_REDIS_URL is set"
    )

    def __init__(self, core: Core, url: str) -> None:
        super().__init__(core, "redis")
        # Unanswered pings must end as well, or a connection that died silently is waited on for ever.
        self._client: Any = connect_redis(url, socket_timeout=5, socket_connect_timeout=5)
        self._channel = core.database.channel

    def start(self, wake_ups: WakeUps) -> None:
        self._threads.start("subscribe", lambda: self._subscribe(wake_ups))

    def wait_probed(self, timeout: float) -> bool:
        return True

    def stop(self) -> None:
        super().stop()
        self._client.close()

    def _open_sender(self) -> tuple[Callable[[str], object], Callable[[], None]]:
        return partial(self._client.publish, self._channel), _keep_open

    def _subscribe(self, wake_ups: WakeUps) -> None:
        subscription = self._client.pubsub(ignore_subscribe_messages=False)
        try:
            subscription.subscribe(self._channel)
            while not self._threads.stopping.is_set():
                message = subscription.get_message(timeout=_RECEIVE_SECONDS)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    # At the start and after each reconnect: signals may have been lost before it.
                    wake_ups.deliver_all()
                elif message["type"] == "message":
                    self._outgoing.receive(message["data"], wake_ups)
        finally:
            subscription.close()


def _keep_open() -> None:
    """The client has a pool of its own, which ends with the transport."""
