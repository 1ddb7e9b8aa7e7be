"""``flask solid reminders``: what is armed, and how it is paused, resumed, rung at once or cancelled."""

from __future__ import annotations

import json
from typing import Any

import click
from flask.cli import AppGroup

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.output import CLI_CONTEXT, command_errors, json_option, plain, print_json, print_table
from flask_solid_objects.store.reminders import ReminderRow
from flask_solid_objects.values import ReminderStatus

reminders = AppGroup("reminders", help="Reminders: list, pause, resume, run, cancel.")
_COLUMNS = ["id", "actor", "operation", "key", "status", "next", "every", "rung", "attempts", "error"]


@reminders.command("list")
@click.option("--type", "actor_type", default=None, help="Only of this actor type.")
@click.option(
    "--status", type=click.Choice(["scheduled", "paused", "completed", "dead"]), default=None, help="Only these."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Rows of one page.")
@click.option("--after", type=int, default=0, help="Go on after this id.")
@json_option
@command_errors
def list_reminders(
    actor_type: str | None, status: ReminderStatus | None, limit: int, after: int, as_json: bool
) -> None:
    """List reminders by id."""
    found = current_runtime().operators.reminders.list(
        actor_type=actor_type, status=status, after=after, most=limit, context=CLI_CONTEXT
    )
    if as_json:
        print_json([_reminder(row) for row in found])
        return
    rows = [
        (
            row.id,
            row.actor,
            row.reminder.operation,
            row.reminder.key,
            row.reminder.status,
            row.reminder.next_run_at,
            row.reminder.every or row.reminder.cron,
            row.reminder.occurrence,
            row.attempts,
            None if row.error is None else json.loads(row.error).get("class"),
        )
        for row in found
    ]
    print_table(_COLUMNS, rows, "There are no reminders.")


@reminders.command("pause")
@click.argument("reminder_id", type=int)
@json_option
@command_errors
def pause_reminder(reminder_id: int, as_json: bool) -> None:
    """Let it ring no more until it is resumed."""
    changed = current_runtime().operators.reminders.pause(reminder_id, context=CLI_CONTEXT)
    _tell({"changed": changed}, "Paused." if changed else "It did not wait to ring.", as_json)


@reminders.command("resume")
@click.argument("reminder_id", type=int)
@json_option
@command_errors
def resume_reminder(reminder_id: int, as_json: bool) -> None:
    """Let a paused or dead one ring again, at the time that it was meant for."""
    changed = current_runtime().operators.reminders.resume(reminder_id, context=CLI_CONTEXT)
    _tell({"changed": changed}, "Resumed." if changed else "It was neither paused nor dead.", as_json)


@reminders.command("run")
@click.argument("reminder_id", type=int)
@json_option
@command_errors
def run_reminder(reminder_id: int, as_json: bool) -> None:
    """Ring once more, at once; a recurring one keeps its time, any other is completed by it."""
    message = current_runtime().operators.reminders.run_now(reminder_id, context=CLI_CONTEXT)
    values = {"message_id": message.id, "sequence": message.sequence, "request_id": message.request_id}
    _tell(values, f"Rung as message {message.id}.", as_json)


@reminders.command("cancel")
@click.argument("reminder_id", type=int)
@json_option
@command_errors
def cancel_reminder(reminder_id: int, as_json: bool) -> None:
    """Delete it; a message that it has rung before and that has not run yet is skipped."""
    current_runtime().operators.reminders.cancel(reminder_id, context=CLI_CONTEXT)
    _tell({"cancelled": True}, "Cancelled.", as_json)


def _tell(values: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(values)
    else:
        click.echo(text)


def _reminder(row: ReminderRow) -> dict[str, Any]:
    values: dict[str, Any] = plain(row)
    reminder: dict[str, Any] = values.pop("reminder")
    every = row.reminder.every
    values |= reminder | {"every": None if every is None else every.total_seconds()}
    shown = current_runtime().redaction.arguments(row.actor.actor_type, row.reminder.operation, row.arguments)
    return values | {"arguments": shown, "error": row.error and json.loads(row.error)}
