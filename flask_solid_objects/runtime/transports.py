"""The transports that join the wake-ups of several processes: PostgreSQL NOTIFY, Redis, SQLite's ``data_version``.

What all have in common: threads that start with the first need, failures that are told and never raised, a
reconnect with growing, jittered pauses, and everybody woken after it, since signals may have been lost meanwhile.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import msgspec

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.listeners import DataVersion
from flask_solid_objects.values import WakeUpCapability

# NOTIFY carries up to 8,000 bytes; more actors than this become "anybody".
_MOST_INSTANCES = 300
_LONGEST_PAUSE = 5.0
_UNWATCHED_SECONDS = 0.5
# Between two sendings of one process; a burst of commits becomes few signals.
_PACE_SECONDS = 0.005
_LONGEST_IDLE = 0.5


class Signal(msgspec.Struct, frozen=True, array_like=True):
    """What goes over the wire; ``instances`` is None for anybody."""

    origin: str
    work: bool
    instances: list[int] | None


class Threads:
    """The stoppable threads of one transport."""

    def __init__(self, core: Core, name: str) -> None:
        self.core, self._name = core, name
        self.stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def start(self, role: str, run: Callable[[], None]) -> None:
        with self._lock:
            if self.stopping.is_set():
                return
            thread = threading.Thread(
                target=self._forever, args=(role, run), name=f"solid-{self._name}-{role}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self.stopping.set()
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def tell(self, operation: str, error: BaseException) -> None:
        self.core.events.announce("wake_up.failed", adapter=self._name, phase=operation, error=type(error).__name__)

    def _forever(self, role: str, run: Callable[[], None]) -> None:
        """Run until stopped; whatever breaks is told, waited out and begun anew."""
        clock, failures = self.core.seams.clock, 0
        while not self.stopping.is_set():
            started = clock.monotonic()
            try:
                run()
                return
            except Exception as error:
                self.tell(role, error)
            failures = 1 if clock.monotonic() - started > _LONGEST_PAUSE * 2 else failures + 1
            clock.wait(self.stopping, clock.jitter(min(0.05 * 2.0 ** min(failures, 10), _LONGEST_PAUSE)))


class Outgoing:
    """Signals of this process that wait to be sent; many become one."""

    def __init__(self) -> None:
        self.origin = str(uuid.uuid4())
        self.ready = threading.Event()
        self._lock = threading.Lock()
        self._instances: set[int] = set()
        self._anybody = False
        self._work = False

    def add(self, instance_id: int | None, work: bool) -> None:
        with self._lock:
            self._work = self._work or work
            if instance_id is None:
                self._anybody = True
            else:
                self._instances.add(instance_id)
        self.ready.set()

    def take(self) -> str | None:
        """Everything that was added since the last time, as one text; None when there is nothing."""
        with self._lock:
            self.ready.clear()
            if not (self._anybody or self._instances or self._work):
                return None
            many = self._anybody or len(self._instances) > _MOST_INSTANCES
            instances = None if many else sorted(self._instances)
            signal = Signal(self.origin, self._work, instances)
            self._instances, self._anybody, self._work = set(), False, False
        return msgspec.json.encode(signal).decode()

    def receive(self, text: str | bytes, wake_ups: WakeUps) -> None:
        """Deliver a received signal, unless it is our own, or no signal: a probe, or another version's."""
        try:
            signal = msgspec.json.decode(text, type=Signal)
        except (msgspec.DecodeError, UnicodeDecodeError):
            wake_ups.events.announce("wake_up.foreign", byte_count=len(text))
            return
        if signal.origin == self.origin:
            return
        if signal.instances is None:
            wake_ups.deliver_all()
        else:
            wake_ups.deliver(signal.instances, work=signal.work)


class PublishingTransport:
    """What the transports with a sending connection share: the thread that sends starts with the first signal."""

    def __init__(self, core: Core, name: str) -> None:
        self._core = core
        self._threads = Threads(core, name)
        self._outgoing = Outgoing()
        self._lock = threading.Lock()
        self._sends = False

    def publish(self, instance_id: int | None, work: bool) -> None:
        self._outgoing.add(instance_id, work)
        if not self._sends:
            with self._lock:
                if not self._sends:
                    # Started first: where no thread can be, the next signal tries again.
                    self._threads.start("send", self._send)
                    self._sends = True

    def stop(self) -> None:
        """Send what still waits, such as the last signal of a short script, and end."""
        self._threads.stopping.set()
        self._outgoing.ready.set()
        self._threads.stop()

    def _send(self) -> None:
        """Send until stopped, over one connection; an error brings another one."""
        send, close = self._open_sender()
        clock, stopping = self._core.seams.clock, self._threads.stopping
        try:
            while True:
                # Bounded, since taking clears the event that a stop may have set in the same moment.
                waits = clock.wait(self._outgoing.ready, _LONGEST_IDLE)
                if waits and (text := self._outgoing.take()) is not None:
                    send(text)
                if stopping.is_set():
                    if (last := self._outgoing.take()) is not None:
                        send(last)
                    return
                # After it and not before: a signal alone is not held up, and of a burst few are sent.
                clock.wait(stopping, _PACE_SECONDS)
        except Exception:
            # What was taken is lost with the connection; the next one tells everybody.
            self._outgoing.add(None, True)
            raise
        finally:
            close()

    def _open_sender(self) -> tuple[Callable[[str], object], Callable[[], None]]:
        """Open a connection: how to send a text over it, and how to close it."""
        raise NotImplementedError


class SqliteTransport:
    """Polls ``data_version`` while somebody waits; a change may concern anybody.

    Our own commits count as changes too: a role then looks once more, which writes nothing, so nothing spins.
    """

    # 100 looks a second cost about 0.1 % of a core.
    INTERVAL = 0.01
    capability = WakeUpCapability(
        adapter="sqlite", crosses_processes=True, floor_ms=10.0, reason="the database is a SQLite file"
    )

    def __init__(self, core: Core, open_version: Callable[[], DataVersion]) -> None:
        self._threads = Threads(core, "sqlite")
        self._open_version = open_version

    def start(self, wake_ups: WakeUps) -> None:
        self._threads.start("poll", lambda: self._poll(wake_ups))

    def publish(self, instance_id: int | None, work: bool) -> None:
        """The commit itself is the signal."""

    def wait_probed(self, timeout: float) -> bool:
        return True

    def stop(self) -> None:
        self._threads.stop()

    def _poll(self, wake_ups: WakeUps) -> None:
        version, stopping = self._open_version(), self._threads.stopping
        try:
            wake_ups.deliver_all()
            while not self._threads.core.seams.clock.wait(stopping, self.INTERVAL):
                if wake_ups.wait_watched(_UNWATCHED_SECONDS) and version.has_changed():
                    wake_ups.deliver_all()
        finally:
            version.close()
