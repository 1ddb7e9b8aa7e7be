"""Reminders of an actor, armed and looked at from its own code: durable alarms that become messages when due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from flask_solid_objects.actors.definition import OperationDefinition
from flask_solid_objects.actors.options import SCHEDULE, require
from flask_solid_objects.actors.recurrence import checked_recurrence
from flask_solid_objects.actors.staging import stage_for
from flask_solid_objects.errors import StagingUnavailable
from flask_solid_objects.intents import (
    CancelReminder,
    CancelReminders,
    ReminderIntent,
    SetReminder,
    current_turn,
    folded,
)
from flask_solid_objects.values import Options, Reminder

_NAME_LENGTH = 191


def schedule(
    operation: OperationDefinition, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options, title: str
) -> Reminder:
    """Arm a reminder with this turn, or move the one of the same operation and key.

    What it returns does not know how often the former one had rung; ``.reminder(key=)`` does, for a look-up.

    :raises TypeError, ValueError: there is no time to ring at, or one that cannot be.
    :raises InvalidArguments, InvalidPayload, PayloadTooLarge: naming the argument; nothing was staged.
    """
    stage = stage_for("schedule", title)
    require(SCHEDULE, options, f"{title}.schedule()")
    recurrence = checked_recurrence(every=options.every, cron=options.cron, timezone=options.timezone)
    if options.at is None and options.delay is None and recurrence is None:
        raise TypeError(f"{title}.schedule() needs to know when: .using(at=, delay=, every= or cron=).")
    if recurrence is None and options.missed is not None:
        raise TypeError("missed belongs to recurring reminders: every= or cron=.")
    if options.at is not None:
        due = options.at
    elif options.delay is not None:
        due = _later(stage.now, options.delay)
    else:
        assert recurrence is not None, "one of them is given"
        due = recurrence.first_after(stage.now)
    intent = SetReminder(
        name=reminder_name(operation.name, options.key),
        operation=operation.name,
        key=options.key,
        arguments=operation.encode_arguments(args, kwargs, stage.payload_limit),
        next_run_at=due,
        interval=None if recurrence is None else recurrence.interval,
        cron=None if recurrence is None else recurrence.cron,
        timezone=None if recurrence is None or recurrence.cron is None else recurrence.timezone,
        missed=options.missed or "latest",
    )
    stage.reminders.append(intent)
    return _as_reminder(intent, None)


def unschedule(operation: OperationDefinition, key: str | None, title: str) -> None:
    """Cancel one reminder with this turn; no error when there is none."""
    stage_for("unschedule", title).reminders.append(CancelReminder(name=reminder_name(operation.name, key)))


def unschedule_all(operation: OperationDefinition, title: str) -> None:
    """Cancel every reminder of an operation, whatever its key."""
    stage_for("unschedule_all", title).reminders.append(CancelReminders(operation=operation.name))


def find_reminder(operation: OperationDefinition, key: str | None, title: str) -> Reminder | None:
    """The armed reminder as this turn would leave it; None when there is none, or it has rung for good."""
    return _visible(title).get(reminder_name(operation.name, key))


def list_reminders(operation: OperationDefinition, title: str) -> list[Reminder]:
    """All armed reminders of an operation, the next one first."""
    mine = [each for each in _visible(title).values() if each.operation == operation.name]
    return sorted(mine, key=lambda each: (each.next_run_at, each.key or ""))


def reminder_name(operation: str, key: str | None) -> str:
    """The name under which a reminder is unique for its actor.

    :raises ValueError: operation and key together are too long.
    """
    name = operation if key is None else f"{operation}:{key}"
    if len(name) > _NAME_LENGTH:
        raise ValueError(f"key is too long: with the operation's name, {_NAME_LENGTH - 1} characters are possible.")
    return name


def _visible(title: str) -> dict[str, Reminder]:
    turn = current_turn.get()
    if turn is None or turn.read_reminders is None:
        raise StagingUnavailable("reminder", title)
    found = turn.read_reminders()
    if turn.stage is not None:
        found = with_staged(found, turn.stage.reminders)
    return {name: each for name, each in found.items() if each.status in ("scheduled", "paused")}


def with_staged(committed: Mapping[str, Reminder], intents: Sequence[ReminderIntent]) -> Mapping[str, Reminder]:
    """The reminders of an actor as its turn would leave them, by name."""
    if not intents:
        return committed
    operations, names, armed = folded(intents)
    kept = {name: each for name, each in committed.items() if each.operation not in operations and name not in names}
    return kept | {name: _as_reminder(intent, kept.get(name)) for name, intent in armed.items()}


def _as_reminder(intent: SetReminder, former: Reminder | None) -> Reminder:
    return Reminder(
        operation=intent.operation,
        key=intent.key,
        next_run_at=intent.next_run_at,
        every=intent.interval,
        cron=intent.cron,
        timezone=intent.timezone,
        missed=intent.missed,
        occurrence=0 if former is None else former.occurrence,
        status="scheduled",
    )


def _later(now: datetime, seconds: float) -> datetime:
    try:
        return now + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
