"""Several worker processes under one parent: commands of their own, replaced with back-off, stopped in order.

Starting commands instead of forking works on every platform, and lets no child inherit a thread or a connection.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from flask_solid_objects.runtime.core import Core


@dataclass(slots=True)
class _Place:
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failures: int = 0
    restart_at: float = 0.0


class ProcessGroup:
    """Keeps ``count`` processes of one command running until it is stopped."""

    def __init__(self, command: Sequence[str], count: int, core: Core) -> None:
        self._command, self._core = list(command), core
        self._places = [_Place() for _ in range(count)]
        self._stopping = threading.Event()

    def run(self) -> None:
        """Start the processes, replace those that end, and return once all have ended after a stop."""
        clock, interval = self._core.seams.clock, self._core.settings.supervisor_monitor_interval
        try:
            self._keep_running()
            while not clock.wait(self._stopping, interval):
                self._keep_running()
        finally:
            self._shut_down()

    def stop(self) -> None:
        """Begin the shutdown; from any thread, but not from a signal handler, since it takes a lock."""
        self._stopping.set()

    def _keep_running(self) -> None:
        clock, settings = self._core.seams.clock, self._core.settings
        for place in self._places:
            now = clock.monotonic()
            if place.process is not None and place.process.poll() is not None:
                lasted = now - place.started_at > settings.supervisor_max_restart_delay * 2
                place.failures = 1 if lasted else place.failures + 1
                delay = settings.supervisor_restart_delay * 2.0 ** (place.failures - 1)
                place.restart_at = now + clock.jitter(min(delay, settings.supervisor_max_restart_delay))
                self._core.events.announce("supervisor.role_replaced", role="process", code=place.process.returncode)
                place.process = None
            if place.process is None and now >= place.restart_at and not self._stopping.is_set():
                place.process = subprocess.Popen(self._command)  # noqa: S603 - our own command line
                place.started_at = now

    def _shut_down(self) -> None:
        """Ask all children to stop, give them the time that one has for its own shutdown, then end them."""
        clock = self._core.seams.clock
        running = [place.process for place in self._places if place.process is not None]
        for process in running:
            process.terminate()
        deadline = clock.monotonic() + self._core.settings.shutdown_timeout + 5.0
        for process in running:
            try:
                process.wait(max(0.1, deadline - clock.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
