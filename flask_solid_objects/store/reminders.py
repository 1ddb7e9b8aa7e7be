"""The rows of reminders: armed and cancelled by turns, found when due, advanced when they ring.

Every change is made under the lock of the actor's row. A reminder that is armed anew gets the next generation, and one
that is cancelled loses its row, so that a message that it had rung before proves to be out of date (protocol 8.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Select, bindparam, delete, select, update

from flask_solid_objects.intents import ReminderIntent, SetReminder, folded
from flask_solid_objects.payloads import decode
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.rows import RowInsert
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, Reminder


@dataclass(frozen=True, slots=True, kw_only=True)
class ReminderRow:
    """A stored reminder with what only its delivery and operators need.

    ``due_at`` is the time that it was meant for, also while it waits for another attempt at ``reminder.next_run_at``.
    """

    id: int
    instance_id: int
    actor: ActorKey
    arguments: str
    generation: int
    attempts: int
    error: str | None
    due_at: datetime
    reminder: Reminder


class Reminders:
    """Statements on ``reminders``."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        r = self._table = tables.reminders
        self._dialect = dialect
        given = [
            *("operation", "key", "arguments", "next_run_at", "interval_seconds", "cron", "timezone"),
            "missed_policy",
        ]
        again = {
            "status": "scheduled",
            "attempt_count": 0,
            "error": None,
            "claimed_by": None,
            "claimed_at": None,
            "generation": r.c.generation + 1,
            "updated_at": dialect.now,
        }
        self._arm = RowInsert(
            r,
            dialect,
            ["instance_id", "actor_type", "actor_id", "name", *given],
            {"created_at": dialect.now, "updated_at": dialect.now},
            lambda inserted: dialect.upsert(inserted, [r.c.instance_id, r.c.name], given, again),
        )
        mine = r.c.instance_id == bindparam("instance_id")
        self._cancel_operations = Listed(
            dialect, r.c.operation, lambda each: delete(r).where(mine, r.c.operation.in_(each))
        )
        self._cancel_names = Listed(dialect, r.c.name, lambda each: delete(r).where(mine, r.c.name.in_(each)))
        rows = self.select_rows()
        self._of_actor = dialect.compile(rows.where(mine))
        self._lock = dialect.compile(rows.where(r.c.id == bindparam("id")).with_for_update())
        self._find = dialect.compile(rows.where(r.c.id == bindparam("id")))
        scheduled = r.c.status == "scheduled"
        self._due = dialect.compile(
            rows.where(scheduled, r.c.next_run_at <= bindparam("now", type_=r.c.next_run_at.type))
            .order_by(r.c.next_run_at, r.c.id)
            .limit(bindparam("most"))
        )
        self._current = dialect.compile(
            select(r.c.id).where(r.c.id == bindparam("id"), r.c.generation == bindparam("generation"))
        )
        after = r.c.id > bindparam("after")
        page = rows.where(after).order_by(r.c.id).limit(bindparam("most"))
        self._page = dialect.compile(page)
        self._page_of_status = dialect.compile(page.where(r.c.status == bindparam("status")))
        by_type = r.c.actor_type == bindparam("actor_type")
        self._page_of_type = dialect.compile(page.where(by_type))
        self._page_of_both = dialect.compile(page.where(by_type, r.c.status == bindparam("status")))
        changed = update(r).where(r.c.id == bindparam("w_id")).values(updated_at=dialect.now)
        self._advance = dialect.compile(
            changed.values(attempt_count=0, error=None), "status", "next_run_at", "occurrence"
        )
        self._postpone = dialect.compile(changed, "status", "next_run_at", "attempt_count", "error")
        self._set_status = dialect.compile(changed.values(attempt_count=0, error=None), "status", "next_run_at")
        self._delete = dialect.compile(delete(r).where(r.c.id == bindparam("w_id")))

    # -- of one actor -------------------------------------------------------------------------

    def apply(self, tx: Transaction, instance_id: int, key: ActorKey, intents: Sequence[ReminderIntent]) -> None:
        """Do what a turn staged: cancel, then arm; each in one statement, however many there are."""
        operations, names, armed = folded(intents)
        encoded = [self._dialect.encode_text(name) for name in sorted(names)]
        self._cancel_operations.write(tx, sorted(operations), instance_id=instance_id)
        self._cancel_names.write(tx, encoded, instance_id=instance_id)
        if armed:
            self._arm.write(tx, [self._values(instance_id, key, intent) for intent in armed.values()])

    def of_actor(self, tx: Transaction, instance_id: int) -> dict[str, Reminder]:
        """The reminders of an actor by name."""
        rows = [self.row_of(row) for row in tx.rows(self._of_actor, instance_id=instance_id)]
        return {_name(row.reminder): row.reminder for row in rows}

    def is_current(self, tx: Transaction, reminder_id: int, generation: int) -> bool:
        """Whether what rang is still armed as it was: neither cancelled nor armed anew since."""
        return tx.one(self._current, id=reminder_id, generation=generation) is not None

    # -- delivery -----------------------------------------------------------------------------

    def due(self, tx: Transaction, now: datetime, most: int) -> list[ReminderRow]:
        """Those that should have rung by now, the longest overdue first; nothing is locked."""
        return [self.row_of(row) for row in tx.rows(self._due, now=self._dialect.encode_time(now), most=most)]

    def lock(self, tx: Transaction, reminder_id: int) -> ReminderRow | None:
        """Read a reminder for a change; the actor's row is locked before (protocol 3.2)."""
        row = tx.one(self._lock, id=reminder_id)
        return None if row is None else self.row_of(row)

    def advance(self, tx: Transaction, row: ReminderRow, next_run_at: datetime | None) -> None:
        """Note that it has rung; without a next time it is completed."""
        tx.write(
            self._advance,
            w_id=row.id,
            status="completed" if next_run_at is None else "scheduled",
            next_run_at=self._dialect.encode_time(next_run_at or row.due_at),
            occurrence=row.reminder.occurrence + 1,
        )

    def postpone(self, tx: Transaction, row: ReminderRow, *, until: datetime | None, error: str) -> None:
        """Note a failed delivery: another attempt later, or the end; ``error`` keeps the time it was meant for."""
        tx.write(
            self._postpone,
            w_id=row.id,
            status="dead" if until is None else "scheduled",
            next_run_at=self._dialect.encode_time(until or row.due_at),
            attempt_count=row.attempts + 1,
            error=error,
        )

    # -- operators ----------------------------------------------------------------------------

    def find(self, tx: Transaction, reminder_id: int) -> ReminderRow | None:
        row = tx.one(self._find, id=reminder_id)
        return None if row is None else self.row_of(row)

    def page(
        self, tx: Transaction, *, actor_type: str | None, status: str | None, after: int, most: int
    ) -> list[ReminderRow]:
        """Reminders by id, after an id."""
        statement, values = self._page, {"after": after, "most": most}
        if actor_type is not None and status is not None:
            found = tx.rows(self._page_of_both, actor_type=actor_type, status=status, **values)
        elif actor_type is not None:
            found = tx.rows(self._page_of_type, actor_type=actor_type, **values)
        elif status is not None:
            found = tx.rows(self._page_of_status, status=status, **values)
        else:
            found = tx.rows(statement, **values)
        return [self.row_of(row) for row in found]

    def set_status(self, tx: Transaction, row: ReminderRow, status: str) -> None:
        """Pause, or let it ring again at the time that it was meant for; forgets failed attempts."""
        tx.write(self._set_status, w_id=row.id, status=status, next_run_at=self._dialect.encode_time(row.due_at))

    def delete(self, tx: Transaction, reminder_id: int) -> bool:
        return tx.write(self._delete, w_id=reminder_id) == 1

    # -- parts --------------------------------------------------------------------------------

    def _values(self, instance_id: int, key: ActorKey, intent: SetReminder) -> dict[str, Any]:
        encode = self._dialect.encode_text
        interval = intent.interval
        return {
            "instance_id": instance_id,
            "actor_type": key.actor_type,
            "actor_id": encode(key.actor_id),
            "name": encode(intent.name),
            "operation": intent.operation,
            "key": encode(intent.key),
            "arguments": intent.arguments,
            "next_run_at": self._dialect.encode_time(intent.next_run_at),
            "interval_seconds": None if interval is None else self._dialect.encode_decimal(_seconds(interval)),
            "cron": intent.cron,
            "timezone": intent.timezone,
            "missed_policy": intent.missed,
        }

    def select_rows(self) -> Select[*tuple[Any, ...]]:
        """The columns that :meth:`row_of` reads."""
        r = self._table
        return select(
            *(r.c.id, r.c.instance_id, r.c.actor_type, r.c.actor_id, r.c.operation, r.c.key, r.c.arguments),
            *(r.c.next_run_at, r.c.interval_seconds, r.c.cron, r.c.timezone, r.c.generation, r.c.occurrence),
            *(r.c.missed_policy, r.c.status, r.c.attempt_count, r.c.error),
        )

    def row_of(self, row: tuple[Any, ...]) -> ReminderRow:
        decode_text, next_run_at = self._dialect.decode_text, self._dialect.decode_time(row[7])
        assert next_run_at is not None, "next_run_at is NOT NULL"
        meant = decode(row[16]).get("due_at") if row[16] is not None else None
        every = None if row[8] is None else timedelta(microseconds=int(Decimal(str(row[8])) * 1_000_000))
        return ReminderRow(
            id=row[0],
            instance_id=row[1],
            actor=ActorKey(actor_type=row[2], actor_id=decode_text(row[3])),
            arguments=row[6],
            generation=row[11],
            attempts=row[15],
            error=row[16],
            due_at=next_run_at if meant is None else datetime.fromisoformat(meant),
            reminder=Reminder(
                operation=row[4],
                key=decode_text(row[5]),
                next_run_at=next_run_at,
                every=every,
                cron=row[9],
                timezone=row[10],
                missed=row[13],
                occurrence=row[12],
                status=row[14],
            ),
        )


def _name(reminder: Reminder) -> str:
    return reminder.operation if reminder.key is None else f"{reminder.operation}:{reminder.key}"


def _seconds(interval: timedelta) -> Decimal:
    microseconds = (interval.days * 86_400 + interval.seconds) * 1_000_000 + interval.microseconds
    return Decimal(microseconds) / 1_000_000
