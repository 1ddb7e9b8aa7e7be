"""Choose how the processes of one database wake each other; the choice is stated by ``flask solid doctor``."""

from __future__ import annotations

from typing import Any

from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.transport_postgresql import PostgresTransport
from flask_solid_objects.runtime.transport_redis import RedisTransport
from flask_solid_objects.runtime.transports import SqliteTransport, Threads
from flask_solid_objects.runtime.wakeups import Transport, WakeUps
from flask_solid_objects.store.listeners import DataVersion
from flask_solid_objects.values import WakeUpCapability

_WAIT_SECONDS = 0.5
_PACE_SECONDS = 0.005


def select_wake_ups(core: Core) -> WakeUps:
    """The wake-ups for this runtime: a named adapter, or the best that the database and settings allow.

    :raises InvalidSettings: a named adapter is impossible here.
    """
    transport = _transport(core)
    capability = transport.capability if transport is not None else _alone(core)
    return WakeUps(transport, core.seams.clock, capability, core.events)


def _transport(core: Core) -> Transport | None:
    adapter, settings, dialect = core.settings.wake_up_adapter, core.settings, core.database.dialect
    if not isinstance(adapter, str):
        return ConfiguredTransport(core, adapter)
    if adapter == "redis" or (adapter == "automatic" and settings.redis_url is not None):
        if settings.redis_url is None:
            raise InvalidSettings({"SOLID_OBJECTS_REDIS_URL": "is needed when the wake-up adapter is 'redis'."})
        return RedisTransport(core, settings.redis_url)
    if adapter == "postgresql" and not dialect.can_notify:
        raise InvalidSettings(
            {"SOLID_OBJECTS_WAKE_UP_ADAPTER": f"'postgresql' needs PostgreSQL, but the database is {dialect.name}."}
        )
    if adapter in ("automatic", "postgresql") and dialect.can_notify:
        return PostgresTransport(core)
    if adapter == "automatic" and dialect.has_data_version and not core.database.is_memory:
        return SqliteTransport(core, lambda: DataVersion(core.database))
    return None


def _alone(core: Core) -> WakeUpCapability:
    """No transport: this process wakes its own waiters, and others are found by polling."""
    if core.database.is_memory or core.settings.wake_up_adapter == "in_process":
        reason = "the database is in memory" if core.database.is_memory else "the setting says so"
        return WakeUpCapability(adapter="in_process", crosses_processes=False, floor_ms=1.0, reason=reason)
    return WakeUpCapability(
        adapter="polling",
        crosses_processes=False,
        floor_ms=core.settings.idle_polling_interval * 1000,
        reason=f"{core.database.dialect.name} cannot notify; set SOLID_OBJECTS_REDIS_URL for faster wake-ups",
    )


class ConfiguredTransport:
    """An object of the application's own, with ``signal()`` and ``watch()`` whose result has ``wait(timeout)``."""

    def __init__(self, core: Core, adapter: Any) -> None:
        self._adapter = adapter
        self._threads = Threads(core, "configured")
        given = getattr(adapter, "capability", None)
        self.capability = (
            given
            if isinstance(given, WakeUpCapability)
            else WakeUpCapability(
                adapter="configured", crosses_processes=True, floor_ms=0.0, reason=f"{type(adapter).__name__} was given"
            )
        )

    def start(self, wake_ups: WakeUps) -> None:
        self._threads.start("watch", lambda: self._watch(wake_ups))

    def publish(self, instance_id: int | None, work: bool) -> None:
        try:
            self._adapter.signal()
        except Exception as error:
            # A hint that fails must not fail the act that has committed already.
            self._threads.tell("signal", error)

    def wait_probed(self, timeout: float) -> bool:
        return True

    def stop(self) -> None:
        self._threads.stop()
        stop = getattr(self._adapter, "stop", None)
        if callable(stop):
            stop()

    def _watch(self, wake_ups: WakeUps) -> None:
        watch, clock, stopping = self._adapter.watch(), self._threads.core.seams.clock, self._threads.stopping
        try:
            while not stopping.is_set():
                if watch.wait(_WAIT_SECONDS) is not False:
                    wake_ups.deliver_all()
                    # An object that answers at once, whatever happened, must not make this thread spin.
                    clock.wait(stopping, _PACE_SECONDS)
        finally:
            close = getattr(watch, "close", None)
            if callable(close):
                close()
