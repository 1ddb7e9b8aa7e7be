"""Wake-ups through LISTEN and NOTIFY, with a probe that finds a transaction pooler in between."""

from __future__ import annotations

import threading

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.events import announce
from flask_solid_objects.runtime.transports import Outgoing, Threads
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.listeners import ListenConnection, NotifyConnection
from flask_solid_objects.values import WakeUpCapability

PROBE_SECONDS = 2.0
_CHECK_SECONDS = 10.0
_RECEIVE_SECONDS = 0.5
_LISTENING = WakeUpCapability(
    adapter="postgresql", crosses_processes=True, floor_ms=5.0, reason="LISTEN and NOTIFY arrive"
)


class PostgresTransport:
    """One listening connection and one sending connection per process, each opened when first needed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._threads = Threads(core, "postgresql")
        self._outgoing = Outgoing()
        self._sending = threading.Lock()
        self._sends = False
        self._probed = threading.Event()
        self.capability = _LISTENING

    def start(self, wake_ups: WakeUps) -> None:
        self._threads.start("listen", lambda: self._listen(wake_ups))

    def publish(self, instance_id: int | None, work: bool) -> None:
        self._outgoing.add(instance_id, work)
        if not self._sends:
            with self._sending:
                if not self._sends:
                    self._sends = True
                    self._threads.start("send", self._send)

    def stop(self) -> None:
        self._threads.stopping.set()
        self._outgoing.ready.set()
        self._threads.stop()

    def wait_probed(self, timeout: float) -> bool:
        """Wait until the probe has told what this path can do; for ``doctor``."""
        return self._probed.wait(timeout)

    def _send(self) -> None:
        connection = NotifyConnection(self._core.database)
        try:
            while True:
                self._outgoing.ready.wait()
                if self._threads.stopping.is_set():
                    return
                connection.notify(self._outgoing.take())
        except Exception:
            # What was taken is lost with the connection; the next one tells everybody.
            self._outgoing.add(None, True)
            raise
        finally:
            connection.close()

    def _listen(self, wake_ups: WakeUps) -> None:
        connection = ListenConnection(self._core.database)
        try:
            if not self._probed.is_set() and not self._probe(connection, wake_ups):
                return
            wake_ups.deliver_all()
            self._receive_forever(connection, wake_ups)
        finally:
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
                if not text.startswith("probe "):
                    self._outgoing.receive(text, wake_ups)
        self.capability = WakeUpCapability(
            adapter="polling",
            crosses_processes=False,
            floor_ms=self._core.settings.idle_polling_interval * 1000,
            reason="a notification did not arrive: there is a transaction pooler in between. Listen past it.",
        )
        self._probed.set()
        announce("wake_up.pooled_session", adapter="postgresql")
        return False
