"""What every long-running role shares: one pass, a loop that backs off when idle, and a stop that is always safe.

A role takes its watch before it looks for work, so that a signal in between is not lost. ``stop()`` may come at any
moment, twice, or before the start.
"""

from __future__ import annotations

import threading
from typing import ClassVar

from flask_solid_objects.errors import CommitUnknown, DatabaseDeadlineExceeded
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.process import Keeper, Registration
from flask_solid_objects.runtime.wakeups import AdaptiveInterval, WakeUps, Watch


class Role:
    """The loop; a subclass writes :meth:`run_once`."""

    kind: ClassVar[str]

    def __init__(self, core: Core, wake_ups: WakeUps, keeper: Keeper) -> None:
        self._core, self._wake_ups, self._keeper = core, wake_ups, keeper
        self._stopping = threading.Event()
        self._watch: Watch | None = None
        self.registration = Registration(core, self.kind, **self._labels())

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def run_once(self) -> bool:
        """Do one unit of work; False when there was none."""
        raise NotImplementedError

    def run(self) -> None:
        """Work until stopped; a database that is away is waited for, any other error ends the role."""
        interval = AdaptiveInterval(self._fast_interval(), self._idle_interval())
        self._wake_ups.start()
        with self._wake_ups.watch_work() as watch:
            self._watch = watch
            try:
                while not self.is_stopping:
                    self._pass(watch, interval)
            finally:
                self._watch = None
                self._leave()

    def stop(self) -> None:
        """Ask the role to finish what it runs and to take nothing more."""
        self._stopping.set()
        watch = self._watch
        if watch is not None:
            watch.interrupt()

    def _pass(self, watch: Watch, interval: AdaptiveInterval) -> None:
        try:
            if self.registration.current_id is None:
                _ = self.registration.id
                self._keeper.register(self.registration)
            worked = self.run_once()
        except (DatabaseDeadlineExceeded, CommitUnknown) as error:
            self._core.events.announce("role.paused", role=self.kind, error=type(error).__name__)
            self._core.seams.clock.wait(self._stopping, self._core.seams.clock.jitter(1.0))
            return
        previous, reason = interval.current, "work"
        if worked:
            interval.reset()
        elif not self.is_stopping:
            self._core.seams.checkpoints.reach("role.idle", role=self.kind)
            if watch.wait(interval.current):
                reason = "wake_up"
                interval.reset()
            else:
                reason = "idle"
                interval.back_off()
        if interval.current != previous:
            self._core.events.announce(
                "polling.interval_changed",
                role=self.kind,
                previous_interval=previous,
                interval=interval.current,
                reason=reason,
            )

    def _leave(self) -> None:
        """Deregister in good order; what this role still holds is handed back by the supervisor."""
        self._keeper.unregister(self.registration)
        process_id = self.registration.forget()
        if process_id is None:
            return
        processes = self._core.store.processes
        try:
            self._core.database.transact("deregister", lambda tx: processes.stop(tx, process_id))
        except (DatabaseDeadlineExceeded, CommitUnknown) as error:
            # The row stays, goes stale, and is cleaned up by maintenance.
            self._core.events.announce("process.heartbeat_failed", role=self.kind, error=type(error).__name__)

    def _labels(self) -> dict[str, object]:
        """What the registry shows about this role."""
        return {}

    def _fast_interval(self) -> float:
        return self._core.settings.polling_interval

    def _idle_interval(self) -> float:
        return self._core.settings.idle_polling_interval
