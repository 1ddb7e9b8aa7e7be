"""Keep roles alive: one thread per role, replaced with back-off when it ends, and a shutdown in order.

Shutdown: no role takes new work; running messages may finish within ``shutdown_timeout``; what still runs then is
handed back uncounted, so that another process goes on with it at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.deregistration import Deregistration
from flask_solid_objects.runtime.role import Role


class _Seat:
    """One place for a role: its factory, the role that runs now, and how often it had to be replaced in a row."""

    def __init__(self, factory: Callable[[], Role]) -> None:
        self.factory = factory
        self.role = factory()
        self.thread: threading.Thread | None = None
        self.replacements = 0
        self.started_at = 0.0
        self.restart_at = 0.0


class Supervisor:
    """Runs roles until it is stopped."""

    def __init__(self, core: Core, factories: Sequence[Callable[[], Role]], deregistration: Deregistration) -> None:
        self._core, self._deregistration = core, deregistration
        self._seats = [_Seat(factory) for factory in factories]
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Start all roles, watch over them, and return once everything has stopped."""
        with self._lock:
            for seat in self._seats:
                self._start(seat)
        self._core.events.announce("supervisor.started", count=len(self._seats))
        try:
            while not self._core.seams.clock.wait(self._stopping, self._core.settings.supervisor_monitor_interval):
                self._replace_ended()
        finally:
            self._shut_down()

    def stop(self) -> None:
        """Begin the shutdown; at any moment, from any thread, more than once. Not from a signal handler."""
        self._stopping.set()

    def _start(self, seat: _Seat) -> None:
        role = seat.role
        seat.started_at = self._core.seams.clock.monotonic()
        seat.thread = threading.Thread(target=self._guard, args=(role,), name=f"solid-{role.kind}", daemon=True)
        seat.thread.start()

    def _guard(self, role: Role) -> None:
        """The body of a role's thread: an error ends the role, is told, and brings a replacement."""
        try:
            role.run()
        except Exception as error:
            self._core.events.announce("role.failed", role=role.kind, error=type(error).__name__)

    def _replace_ended(self) -> None:
        clock, settings = self._core.seams.clock, self._core.settings
        with self._lock:
            for seat in self._seats:
                if self._stopping.is_set() or (seat.thread is not None and seat.thread.is_alive()):
                    continue
                now = clock.monotonic()
                if seat.thread is not None:
                    lasted = now - seat.started_at > settings.supervisor_max_restart_delay * 2
                    seat.replacements = 1 if lasted else seat.replacements + 1
                    delay = settings.supervisor_restart_delay * 2.0 ** (seat.replacements - 1)
                    seat.restart_at = now + clock.jitter(min(delay, settings.supervisor_max_restart_delay))
                    seat.thread = None
                elif now >= seat.restart_at:
                    seat.role = seat.factory()
                    self._start(seat)
                    self._core.events.announce(
                        "supervisor.role_replaced", role=seat.role.kind, failures=seat.replacements
                    )

    def _shut_down(self) -> None:
        clock = self._core.seams.clock
        with self._lock:
            for seat in self._seats:
                seat.role.stop()
            deadline = clock.monotonic() + self._core.settings.shutdown_timeout
            for seat in self._seats:
                if seat.thread is not None:
                    seat.thread.join(max(0.0, deadline - clock.monotonic()))
            for seat in self._seats:
                self._hand_back(seat)
        self._core.events.announce("supervisor.stopped", count=len(self._seats))

    def _hand_back(self, seat: _Seat) -> None:
        """Free what a role still holds after its time; its late commit will find the lease gone."""
        if seat.thread is None or not seat.thread.is_alive():
            return
        process_id = seat.role.registration.forget()
        if process_id is None:
            return
        try:
            handed_back = self._deregistration.deregister(process_id, crashed=False)
        except Exception as error:
            # Recovery by lease expiry remains, so a database that is away must not keep the process from ending.
            self._core.events.announce("role.failed", role=seat.role.kind, error=type(error).__name__)
        else:
            self._core.events.announce("role.handed_back", role=seat.role.kind, count=handed_back)
