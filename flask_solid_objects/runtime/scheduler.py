"""The reminder role: turn due reminders into messages, each in one transaction with its advance.

A reminder that cannot ring backs off, says why, dies after its attempts, and delays nobody else's. This role also
delivers messages between actors, since it never runs code of an application that could hold them up.
"""

from __future__ import annotations

import random
import uuid
from datetime import datetime, timedelta
from functools import partial
from typing import ClassVar

from flask_solid_objects.actors.recurrence import END_OF_TIME, Recurrence
from flask_solid_objects.errors import (
    CommitUnknown,
    DatabaseDeadlineExceeded,
    MailboxFull,
    UnknownActorType,
    UnknownOperation,
)
from flask_solid_objects.payloads import decode, encode
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.delivering import Delivering
from flask_solid_objects.runtime.passing import attempt_each
from flask_solid_objects.runtime.process import Keeper
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.turn_ends import error_document
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.reminders import ReminderRow
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Enqueued, NewMessage, Reminder, RungReminder

_AT_ONCE = 50
# Another process may know the type, such as during a deployment, and gets its chance meanwhile.
_UNKNOWN_TYPE_SECONDS = 60.0
_MOST_MISSED = 2**31 - 1


class ReminderScheduler(Role):
    """Rings what is due; any number of schedulers ring each occurrence once."""

    kind: ClassVar[str] = "reminder"

    def __init__(self, core: Core, wake_ups: WakeUps, keeper: Keeper, delivering: Delivering) -> None:
        super().__init__(core, wake_ups, keeper)
        self._delivering = delivering

    def run_once(self) -> bool:
        """Ring a page of due reminders, and deliver messages that are due."""
        rung = self.ring_due()
        return self._delivering.run_once(lambda: self.is_stopping) or rung > 0

    def ring_due(self, now: datetime | None = None, most: int = _AT_ONCE) -> int:
        """Ring what is due, up to ``most``; how many rang.

        :param now: instead of the database's time, for tests of an application.
        """
        reminders = self._core.store.reminders
        due = self._core.database.read(lambda tx: reminders.due(tx, now or tx.now(), most))
        # Several schedulers see the same page; starting anywhere, they wait for each other's locks less.
        start = random.randrange(len(due)) if due else 0  # noqa: S311 - not a secret
        return attempt_each(
            [*due[start:], *due[:start]],
            lambda row: self._ring(row, now),
            subject=lambda row: row.instance_id,
            is_stopping=lambda: self.is_stopping,
        )

    def _ring(self, row: ReminderRow, now: datetime | None) -> bool:
        self._core.seams.checkpoints.reach("reminder.due", row=row)
        try:
            database = self._core.database
            rang = database.transact("ring", lambda tx: self._ring_locked(tx, row, now), deadline=database.soon())
        except (CommitUnknown, DatabaseDeadlineExceeded):
            # Either it rang or it did not; the row says which, at the next look.
            raise
        except Exception as error:
            # Such as a time zone that this machine does not know: nobody else's reminder waits for it.
            cause = error
            self._core.database.transact("postpone", lambda tx: self._postpone_seen(tx, row, cause))
            return False
        if rang:
            self._wake_ups.signal(instance_id=row.instance_id, work=True)
        return rang

    def _ring_locked(self, tx: Transaction, seen: ReminderRow, now: datetime | None) -> bool:
        """Ring one reminder, unless it was cancelled, moved, paused or rung since it was seen (protocol 8.2)."""
        store = self._core.store
        if store.instances.lock_by_id(tx, seen.instance_id) is None:
            return False
        row, now = store.reminders.lock(tx, seen.id), now or tx.now()
        if row is None or row.reminder.status != "scheduled" or row.reminder.next_run_at > now:
            return False
        tx.checkpoints.reach("reminder.locked", row=row)
        next_run_at, missed = _after(row.reminder, row.due_at, now)
        rung = RungReminder(id=row.id, generation=row.generation, due_at=row.due_at, missed=min(missed, _MOST_MISSED))
        try:
            new = ringing(self._core, row, rung)
            enqueued = store.admission.admit(tx, new, None)
        except (MailboxFull, UnknownOperation, UnknownActorType) as error:
            self._postpone(tx, row, error)
            return False
        store.reminders.advance(tx, row, next_run_at)
        announce_rung(self._core, tx, row, new, enqueued, lateness=(now - row.due_at).total_seconds())
        return True

    def _postpone_seen(self, tx: Transaction, seen: ReminderRow, error: Exception) -> None:
        """Postpone what failed in a transaction that is gone, unless it has changed since."""
        store = self._core.store
        if store.instances.lock_by_id(tx, seen.instance_id) is None:
            return
        row = store.reminders.lock(tx, seen.id)
        if row is not None and row == seen:
            self._postpone(tx, row, error)

    def _postpone(self, tx: Transaction, row: ReminderRow, error: Exception) -> None:
        settings, attempt = self._core.settings, row.attempts + 1
        pause = settings.pause_after(attempt)
        if isinstance(error, UnknownActorType):
            pause = max(pause, _UNKNOWN_TYPE_SECONDS)
        until = None if attempt >= settings.max_attempts else tx.now() + timedelta(seconds=pause)
        document = decode(error_document(error))
        text = encode({**document, "due_at": row.due_at.isoformat()}, path="error")
        self._core.store.reminders.postpone(tx, row, until=until, error=text)
        self._core.events.announce_after(
            tx,
            "reminder.dead" if until is None else "reminder.failed",
            actor=row.actor,
            operation=row.reminder.operation,
            attempt=attempt,
            error=type(error).__name__,
        )


def ringing(core: Core, row: ReminderRow, rung: RungReminder) -> NewMessage:
    """The message of a reminder.

    :raises UnknownActorType, UnknownOperation: this process could not run it.
    """
    core.registry.get(row.actor.actor_type).lookup(row.reminder.operation)
    return NewMessage(
        key=row.actor,
        operation=row.reminder.operation,
        delivery_mode="internal",
        arguments=row.arguments,
        request_id=str(uuid.uuid4()),
        max_attempts=core.settings.max_attempts,
        instance_id=row.instance_id,
        reminder=rung,
    )


def announce_rung(
    core: Core, tx: Transaction, row: ReminderRow, new: NewMessage, enqueued: Enqueued, *, lateness: float
) -> None:
    """Tell of a reminder that has rung, once its message is committed."""
    tx.after_commit(partial(core.events.announce_enqueued, new, enqueued))
    core.events.announce_after(
        tx,
        "reminder.enqueued",
        actor=row.actor,
        instance_id=row.instance_id,
        message_id=enqueued.message_id,
        reminder_id=row.id,
        operation=row.reminder.operation,
        occurrence=row.reminder.occurrence + 1,
        attempt=row.attempts,
        lateness=lateness,
    )


def _after(reminder: Reminder, due_at: datetime, now: datetime) -> tuple[datetime | None, int]:
    """When it rings next, if ever, and how many occurrences this ringing stands for beside its own."""
    if reminder.every is None and reminder.cron is None:
        return None, 0
    recurrence = Recurrence(interval=reminder.every, cron=reminder.cron, timezone=reminder.timezone or "UTC")
    advance = recurrence.advance(due_at, now, missed=reminder.missed)
    return (None if advance.next_due >= END_OF_TIME else advance.next_due), advance.missed
