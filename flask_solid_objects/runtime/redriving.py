"""The runner of redrives, for the maintenance role: one batch of the oldest running task at a time.

Any number of runners may work on one task: each batch locks it first, and advances it in its own transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.redrives import Redrive
from flask_solid_objects.store.revivals import Batch
from flask_solid_objects.store.transaction import Transaction

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_BUSY_PAUSE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """One walk of this runner over what a task is about, from the lowest id on, and how far it is.

    A row may die in a transaction that ends late, and a full mailbox may get room: so another walk follows each one
    that has moved something. One that has moved nothing ends the task, also when it leaves rows that cannot be moved;
    unless an actor was busy, for which the next walk comes a little later.
    """

    redrive_id: str
    after: int = 0
    moved: int = 0
    refused: frozenset[int] = frozenset()
    busy: bool = False


class Redriving:
    """Batches, put off when they fail."""

    def __init__(self, core: Core, wake_ups: WakeUps) -> None:
        self._core, self._wake_ups = core, wake_ups
        self._pass: _Pass | None = None
        self._rest = 0.0
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
            self._pass = None
            self._due = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures, 10))
            self._failures += 1
            self._core.events.announce("redrive.failed", error=type(error).__name__)
            return False
        self._failures = 0
        if worked:
            self._due = self._core.seams.clock.monotonic() + self._rest
        return worked

    def _batch(self) -> bool:
        redrive_id = self._core.database.read(self._core.store.redrives.oldest_running)
        if redrive_id is None:
            self._pass = None
            return False
        now = self._pass
        if now is None or now.redrive_id != redrive_id:
            now = _Pass(redrive_id=redrive_id)
        batch = self._core.database.transact("redrive", lambda tx: self._move(tx, now))
        self._rest = self._core.settings.redrive_batch_pause
        if batch.last is None:
            self._pass = None
            if now.busy and not now.moved:
                self._rest = max(self._rest, _BUSY_PAUSE)
        else:
            self._pass = _Pass(
                redrive_id=redrive_id,
                after=batch.last,
                moved=now.moved + batch.moved,
                refused=batch.refused,
                busy=now.busy or batch.busy,
            )
        if batch.moved:
            self._wake_ups.signal(instance_id=None, work=True)
        return True

    def _move(self, tx: Transaction, now: _Pass) -> Batch:
        redrives = self._core.store.redrives
        redrive = redrives.lock(tx, now.redrive_id, counted=False)
        if redrive is None or not redrive.is_running:
            return Batch()
        tx.checkpoints.reach("redrive.locked", redrive_id=redrive.id)
        room = self._core.settings.redrive_batch_size
        if redrive.limit is not None:
            room = min(room, redrive.limit - redrive.moved)
        batch = redrives.move(tx, redrive, now.after, room, now.refused) if room > 0 else Batch()
        moved = redrive.moved + batch.moved
        is_full = redrive.limit is not None and moved >= redrive.limit
        if is_full or (batch.last is None and now.moved == 0 and not now.busy):
            self._finish(tx, redrive, moved)
        return batch

    def _finish(self, tx: Transaction, redrive: Redrive, moved: int) -> None:
        store = self._core.store
        store.redrives.end(tx, redrive.id, "completed")
        store.administration.audit(
            tx, action="redrive.finish", kind=redrive.kind, subject=redrive.id, operator=redrive.started_by
        )
        self._core.events.announce_after(
            tx, "redrive.finished", redrive_id=redrive.id, outbox=redrive.kind, count=moved
        )
