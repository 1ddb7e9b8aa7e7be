"""The maintenance role: take over expired leases of any type, free what dead processes held, prune, and redrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from flask_solid_objects.runtime.claiming import Claiming
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.deregistration import Deregistration
from flask_solid_objects.runtime.process import Keeper
from flask_solid_objects.runtime.redriving import Redriving
from flask_solid_objects.runtime.retention import Retention
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.wakeups import WakeUps

_FIRST_PAUSE = 1.0


class Maintenance(Role):
    """Recovery for the whole life of the role: one that failed is simply tried again at the next pass (hazard H010)."""

    kind: ClassVar[str] = "maintenance"

    def __init__(
        self,
        core: Core,
        wake_ups: WakeUps,
        keeper: Keeper,
        claiming: Claiming,
        deregistration: Deregistration,
    ) -> None:
        super().__init__(core, wake_ups, keeper)
        self._claiming, self._deregistration = claiming, deregistration
        self._cleaned_at: float | None = None
        self._pruning = Pruning(core)
        self._redriving = Redriving(core, wake_ups)

    def run_once(self) -> bool:
        """Recover; the interval is this role's own, so that ordinary work does not wake it."""
        worked = self.recover() > 0
        clock, interval = self._core.seams.clock, self._core.settings.dead_process_cleanup_interval
        now = clock.monotonic()
        if interval > 0 and (self._cleaned_at is None or now - self._cleaned_at >= interval):
            self._cleaned_at = now
            worked = self._deregistration.clean_up_dead() > 0 or worked
        if worked:
            self._wake_ups.signal(instance_id=None, work=True)
        pause = self._pause()
        if not self.is_stopping and self._pruning.step():
            # As long a rest as the batch has taken, so that pruning takes half of a database at most.
            pause = min(pause, clock.monotonic() - now)
        if not self.is_stopping and self._redriving.step():
            pause = min(pause, self._core.settings.redrive_batch_pause)
        clock.wait(self._stopping, pause)
        return True

    def recover(self) -> int:
        """Take over expired leases; how many there were."""
        return self._claiming.recover_expired()

    def _pause(self) -> float:
        return min(self._core.settings.idle_polling_interval * 2, self._core.settings.lease_duration / 4)


class Pruning:
    """Runs of the retention, begun at the interval, done one batch at a time, and put off when they fail."""

    def __init__(self, core: Core) -> None:
        self._core, self._retention = core, Retention(core)
        self._batches: Iterator[tuple[str, int]] | None = None
        self._due = core.seams.clock.monotonic()
        self._failures = 0

    def step(self) -> bool:
        """Do the next batch if a run is due or under way; False when there was none, or it failed."""
        interval, now = self._core.settings.retention_interval, self._core.seams.clock.monotonic()
        if interval == 0 or (self._batches is None and now < self._due):
            return False
        try:
            if self._batches is None:
                self._due = now + interval
                self._batches = self._retention.batches(self._retention.automatic_kinds, execute=True)
            batch = next(self._batches, None)
        except Exception as error:
            # Whatever it is: the role has to go on recovering.
            self._batches = None
            self._due = now + min(interval, _FIRST_PAUSE * 2.0 ** min(self._failures, 20))
            self._failures += 1
            self._core.events.announce("retention.failed", error=type(error).__name__)
            return False
        if batch is None:
            self._batches, self._failures = None, 0
            self._core.seams.checkpoints.reach("retention.finished")
            return False
        return True
