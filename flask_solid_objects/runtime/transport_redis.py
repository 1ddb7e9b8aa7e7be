"""Wake-ups through Redis publish and subscribe, for databases that cannot notify, or to spare them."""

from __future__ import annotations

import threading
from typing import Any

from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.transports import Outgoing, Threads
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.values import WakeUpCapability

_RECEIVE_SECONDS = 0.5


class RedisTransport:
    """One subscription and one publishing connection per process."""

    capability = WakeUpCapability(
        adapter="redis", crosses_processes=True, floor_ms=5.0, reason="SOLID_OBJECTS_REDIS_URL is set"
    )

    def __init__(self, core: Core, url: str) -> None:
        try:
            import redis  # noqa: PLC0415 - an optional driver
        except ImportError as error:
            raise InvalidSettings(
                {"SOLID_OBJECTS_REDIS_URL": "needs the redis package: pip install 'flask-solid-objects[redis]'"}
            ) from error
        # Health checks find a connection that died silently; the client reconnects by itself.
        self._client: Any = redis.Redis.from_url(url, health_check_interval=10)
        self._channel = core.database.channel
        self._threads = Threads(core, "redis")
        self._outgoing = Outgoing()
        self._sending = threading.Lock()
        self._sends = False

    def start(self, wake_ups: WakeUps) -> None:
        self._threads.start("subscribe", lambda: self._subscribe(wake_ups))

    def publish(self, instance_id: int | None, work: bool) -> None:
        self._outgoing.add(instance_id, work)
        if not self._sends:
            with self._sending:
                if not self._sends:
                    self._sends = True
                    self._threads.start("send", self._send)

    def wait_probed(self, timeout: float) -> bool:
        return True

    def stop(self) -> None:
        self._threads.stopping.set()
        self._outgoing.ready.set()
        self._threads.stop()
        self._client.close()

    def _send(self) -> None:
        while True:
            self._outgoing.ready.wait()
            if self._threads.stopping.is_set():
                return
            text = self._outgoing.take()
            try:
                self._client.publish(self._channel, text)
            except Exception:
                self._outgoing.add(None, True)
                raise

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
