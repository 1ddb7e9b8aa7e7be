"""Wake-ups through LISTEN and NOTIFY, with a probe that finds a transaction pooler in between."""

from __future__ import annotations

import threading
from collections.abc import Callable

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.transports import PublishingTransport
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.listeners import ListenConnection, NotifyConnection
from flask_solid_objects.values import WakeUpCapability

PROBE_SECONDS = 2.0
_CHECK_SECONDS = 10.0
_RECEIVE_SECONDS = 0.5
_LISTENING = WakeUpCapability(
    adapter="postgresql", crosses_processes=True, floor_ms=5.0, reason="LISTEN and NOTIFY arrive"
)


class PostgresTransport(PublishingTransport):
    """One listening connection and one sending connection per process, each opened when first needed."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, "postgresql")
        self._probed = threading.Event()
        self._listening: ListenConnection | None = None
        self.capability = _LISTENING

    def start(self, wake_ups: WakeUps) -> None:
        self._threads.start("listen", lambda: self._listen(wake_ups))

    def wait_probed(self, timeout: float) -> bool:
        """Wait until the probe has told what this path can do; for ``doctor``."""
        return self._probed.wait(timeout)

    def stop(self) -> None:
        self._threads.stopping.set()
        with self._lock:
            if self._listening is not None:
                self._listening.interrupt()
        super().stop()

    def _open_sender(self) -> tuple[Callable[[str], object], Callable[[], None]]:
        connection = NotifyConnection(self._core.database)
        return connection.notify, connection.close

    def _listen(self, wake_ups: WakeUps) -> None:
        connection = ListenConnection(self._core.database)
        with self._lock:
            self._listening = connection
        try:
            if not self._probed.is_set() and not self._probe(connection, wake_ups):
                return
            wake_ups.deliver_all()
            self._receive_forever(connection, wake_ups)
        finally:
            with self._lock:
                self._listening = None
            connection.close()

    def _receive_forever(self, connection: ListenConnection, wake_ups: WakeUps) -> None:
        clock = self._core.seams.clock
        checked_at = clock.monotonic()
        while not self._threads.stopping.is_set():
            for text in connection.receive(_RECEIVE_SECONDS):
                self._outgoing.receive(text, wake_ups)
            if clock.monotonic() - checked_at >= _CHECK_SECONDS:
                connection.check()
                checked_at = clock.monotonic()

    def _probe(self, connection: ListenConnection, wake_ups: WakeUps) -> bool:
        """A notification from a second connection has to arrive; behind a transaction pooler it does not."""
        clock, sender = self._core.seams.clock, NotifyConnection(self._core.database)
        probe = f"probe {self._outgoing.origin}"
        try:
            sender.notify(probe)
        finally:
            sender.close()
        deadline = clock.monotonic() + PROBE_SECONDS
        while (remaining := deadline - clock.monotonic()) > 0 and not self._threads.stopping.is_set():
            for text in connection.receive(min(remaining, _RECEIVE_SECONDS)):
                if text == probe:
                    self._probed.set()
                    return True
                self._outgoing.receive(text, wake_ups)
        if self._threads.stopping.is_set():
            # Nothing was found out: the wait was cut short.
            return False
        self.capability = WakeUpCapability(
            adapter="polling",
            crosses_processes=False,
            floor_ms=self._core.settings.idle_polling_interval * 1000,
            reason="a notification did not arrive: there is a transaction pooler in between. Listen past it.",
        )
        self._probed.set()
        self._core.events.announce("wake_up.pooled_session", adapter="postgresql")
        return False
