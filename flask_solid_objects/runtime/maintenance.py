"""The maintenance role: take over expired leases of any type, and free what dead processes held."""

from __future__ import annotations

from typing import ClassVar

from flask_solid_objects.runtime.claiming import Claiming
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.deregistration import Deregistration
from flask_solid_objects.runtime.process import Keeper
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.wakeups import WakeUps


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

    def run_once(self) -> bool:
        """Recover; the interval is this role's own, so that ordinary work does not wake it."""
        worked = self.recover() > 0
        now, interval = self._core.seams.clock.monotonic(), self._core.settings.dead_process_cleanup_interval
        if interval > 0 and (self._cleaned_at is None or now - self._cleaned_at >= interval):
            self._cleaned_at = now
            worked = self._deregistration.clean_up_dead() > 0 or worked
        if worked:
            self._wake_ups.signal(instance_id=None, work=True)
        self._core.seams.clock.wait(self._stopping, self._pause())
        return True

    def recover(self) -> int:
        """Take over expired leases; how many there were."""
        return self._claiming.recover_expired()

    def _pause(self) -> float:
        return min(self._core.settings.idle_polling_interval * 2, self._core.settings.lease_duration / 4)
