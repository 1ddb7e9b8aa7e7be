"""The runner of redrives, for the maintenance role: one batch of the oldest running task at a time.

Any number of runners may work on one task: each batch locks it first, and advances it in its own transaction.
"""

from __future__ import annotations

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.redrives import Redrive
from flask_solid_objects.store.transaction import Transaction

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Redriving:
    """Batches, put off when they fail."""

    def __init__(self, core: Core, wake_ups: WakeUps) -> None:
        self._core, self._wake_ups = core, wake_ups
        # How far this runner has got in which task, so that a batch does not walk over what others have left.
        self._redrive_id: str | None = None
        self._after = 0
        self._due = core.seams.clock.monotonic()
        self._failures = 0

    def step(self) -> bool:
        """Do the next batch; False when no task runs, it is not time yet, or the batch failed."""
        now = self._core.seams.clock.monotonic()
        if now < self._due:
            return False
        try:
            worked = self._batch()
        except Exception as error:
            # Whatever it is: the role has to go on recovering. What the batch did is in the task's row.
            self._redrive_id = None
            self._due = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures, 10))
            self._failures += 1
            self._core.events.announce("redrive.failed", error=type(error).__name__)
            return False
        self._failures = 0
        if worked:
            self._due = self._core.seams.clock.monotonic() + self._core.settings.redrive_batch_pause
        return worked

    def _batch(self) -> bool:
        redrives = self._core.store.redrives
        redrive_id = self._core.database.read(redrives.oldest_running)
        if redrive_id is None:
            self._redrive_id = None
            return False
        if redrive_id != self._redrive_id:
            self._redrive_id, self._after = redrive_id, 0
        moved, last = self._core.database.transact("redrive", lambda tx: self._move(tx, redrive_id))
        # One that became dead in a transaction that ended late may lie before: the last look is from the start.
        self._after = last or 0
        if moved:
            self._wake_ups.signal(instance_id=None, work=True)
        return True

    def _move(self, tx: Transaction, redrive_id: str) -> tuple[int, int | None]:
        redrives = self._core.store.redrives
        redrive = redrives.lock(tx, redrive_id, counted=False)
        if redrive is None or not redrive.is_running:
            return 0, None
        tx.checkpoints.reach("redrive.locked", redrive_id=redrive_id)
        room = self._core.settings.redrive_batch_size
        if redrive.limit is not None:
            room = min(room, redrive.limit - redrive.moved)
        moved, last = redrives.move(tx, redrive, self._after, room) if room > 0 else (0, None)
        is_full = redrive.limit is not None and redrive.moved + moved >= redrive.limit
        if is_full or (last is None and self._after == 0):
            self._finish(tx, redrive, redrive.moved + moved)
        return moved, last

    def _finish(self, tx: Transaction, redrive: Redrive, moved: int) -> None:
        store = self._core.store
        store.redrives.end(tx, redrive.id, "completed")
        store.administration.audit(
            tx, action="redrive.finish", kind=redrive.kind, subject=redrive.id, operator=redrive.started_by
        )
        self._core.events.announce_after(
            tx, "redrive.finished", redrive_id=redrive.id, outbox=redrive.kind, count=moved
        )
