"""What operators do with reminders: look, pause, resume, ring at once, cancel; each under the lock of the actor's row.

That is the lock under which turns arm and cancel them and the scheduler rings them, and none of these holds it for
longer than its own short transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

from flask_solid_objects.actors.message import Message
from flask_solid_objects.errors import ReminderCompleted, UnknownReminder
from flask_solid_objects.runtime.acts import Acts, Record
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.messages import Messages
from flask_solid_objects.runtime.scheduler import announce_rung, ringing
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.reminders import ReminderRow
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import MessageRecord, ReminderStatus, RungReminder

_T = TypeVar("_T")
_PAGE = 50


class ReminderOperators:
    """Reminders of one runtime; ``context`` goes to the administration policy."""

    def __init__(self, core: Core, wake_ups: WakeUps, acts: Acts, messages: Messages) -> None:
        self._core, self._wake_ups, self._acts, self._messages = core, wake_ups, acts, messages

    def list(
        self,
        *,
        actor_type: str | None = None,
        status: ReminderStatus | None = None,
        after: int = 0,
        most: int = _PAGE,
        context: object = None,
    ) -> list[ReminderRow]:
        """One page of reminders by id; pass the last id as ``after`` for the next."""
        self._acts.require("inspect", "reminders", context)
        if status is not None and status not in get_args(ReminderStatus):
            raise ValueError(f"status is one of {', '.join(get_args(ReminderStatus))}, not {status!r}.")
        reminders = self._core.store.reminders
        return self._core.database.read(
            lambda tx: reminders.page(tx, actor_type=actor_type, status=status, after=after, most=most)
        )

    def pause(self, reminder_id: int, *, context: object = None) -> bool:
        """Let it ring no more until it is resumed; False when it did not wait to ring.

        :raises UnknownReminder, ReminderCompleted: there is nothing to pause.
        """

        def pause(tx: Transaction, row: ReminderRow) -> bool:
            if _unfinished(row).reminder.status != "scheduled":
                return False
            self._core.store.reminders.set_status(tx, row, "paused")
            return True

        return self._act("pause", reminder_id, pause, context)

    def resume(self, reminder_id: int, *, context: object = None) -> bool:
        """Let a paused or dead one ring again, at the time that it was meant for; False when it was neither.

        :raises UnknownReminder, ReminderCompleted: there is nothing to resume.
        """

        def resume(tx: Transaction, row: ReminderRow) -> bool:
            if _unfinished(row).reminder.status == "scheduled":
                return False
            self._core.store.reminders.set_status(tx, row, "scheduled")
            return True

        return self._act("resume", reminder_id, resume, context)

    def run_now(self, reminder_id: int, *, context: object = None) -> Message[Any]:
        """Ring once more, at once and in any status: a one-shot is completed by it, a recurring one keeps its time.

        :raises UnknownReminder, ReminderCompleted: there is nothing to ring.
        :raises MailboxFull, UnknownActorType, UnknownOperation: the reminder stays as it is.
        """
        store = self._core.store

        def ring(tx: Transaction, row: ReminderRow) -> MessageRecord:
            rung = RungReminder(id=row.id, generation=_unfinished(row).generation, due_at=tx.now(), missed=0)
            new = ringing(self._core, row, rung)
            enqueued = store.admission.admit(tx, new, None)
            announce_rung(self._core, tx, row, new, enqueued, lateness=0.0)
            if row.reminder.every is None and row.reminder.cron is None:
                store.reminders.advance(tx, row, None)
            record = store.mailbox.find(tx, enqueued.message_id)
            assert record is not None, "it was stored just now"
            return record

        return self._messages.reference(self._act("run", reminder_id, ring, context))

    def cancel(self, reminder_id: int, *, context: object = None) -> None:
        """Delete it, so that a message which it has rung before and which has not run yet is skipped.

        :raises UnknownReminder: it is gone already.
        """
        self._act("cancel", reminder_id, lambda tx, row: self._core.store.reminders.delete(tx, row.id), context)

    def _act(self, name: str, reminder_id: int, act: Callable[[Transaction, ReminderRow], _T], context: object) -> _T:
        self._acts.require(name, "reminders", context, resource_id=str(reminder_id))
        store = self._core.store

        def lock(tx: Transaction) -> ReminderRow | None:
            found = store.reminders.find(tx, reminder_id)
            if found is None or store.instances.lock_by_id(tx, found.instance_id) is None:
                return None
            return store.reminders.lock(tx, reminder_id)

        def recorded(tx: Transaction, row: ReminderRow | None, record: Record) -> tuple[int, _T]:
            if row is None:
                raise UnknownReminder(reminder_id)
            result = act(tx, row)
            record(kind="reminder", subject=str(reminder_id))
            return row.instance_id, result

        instance_id, result = self._acts.perform(f"reminder.{name}", context, lock, recorded)
        self._wake_ups.signal(instance_id=instance_id, work=True)
        return result


def _unfinished(row: ReminderRow) -> ReminderRow:
    if row.reminder.status == "completed":
        raise ReminderCompleted(row.id)
    return row
