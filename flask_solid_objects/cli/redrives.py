"""``flask solid redrive``: revive much that is dead in the background, and watch how far that is."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import click
from flask.cli import AppGroup

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.output import (
    CLI_CONTEXT,
    command_errors,
    is_terminal,
    json_option,
    print_json,
    print_table,
)
from flask_solid_objects.runtime.redrive_operators import RedriveOperators
from flask_solid_objects.store.redrives import KINDS, Redrive, RedriveKind, RedrivePreview, RedriveStatus

redrive = AppGroup("redrive", help="Revive dead effects, broadcasts and messages in the background.")
_COLUMNS = [
    *("id", "kind", "type", "operation", "error", "failed after", "limit"),
    *("status", "moved", "remaining", "started", "finished"),
]
_LOOK_SECONDS = 0.2


def _time(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        given = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no time in ISO 8601, such as 2026-01-31T12:00:00Z.") from None
    return given.replace(tzinfo=UTC) if given.tzinfo is None else given


@redrive.command("start")
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What is revived.")
@click.option("--type", "actor_type", default=None, help="Only of this actor type.")
@click.option(
    "--failed-after",
    metavar="TIME",
    callback=_time,
    default=None,
    help="Only what died at or after this time: ISO 8601, UTC unless it says otherwise.",
)
@click.option("--operation", default=None, help="Only messages of this operation.")
@click.option(
    "--error", "exception_class", metavar="CLASS", default=None, help="Only messages that died of this class."
)
@click.option("--limit", type=click.IntRange(1, 2**31 - 1), default=None, help="Revive so many at most.")
@click.option("--dry-run", is_flag=True, help="Only count what would be revived, up to 10,000, and start nothing.")
@click.option("--wait", is_flag=True, help="Wait until it has ended; a worker has to run.")
@json_option
@command_errors
def start_redrive(
    kind: RedriveKind,
    actor_type: str | None,
    failed_after: datetime | None,
    operation: str | None,
    exception_class: str | None,
    limit: int | None,
    dry_run: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Start a task that `flask solid work` runs; while an equal one runs, that one is shown."""
    if kind != "message" and not (operation is None and exception_class is None):
        raise click.UsageError("--operation and --error choose among messages: use them with --kind message.")
    if dry_run and wait:
        raise click.UsageError("--dry-run starts nothing that --wait could wait for: use one of them.")
    redrives = current_runtime().operators.redrives
    act = redrives.preview if dry_run else redrives.start
    found = act(
        kind,
        actor_type=actor_type,
        failed_after=failed_after,
        operation=operation,
        exception_class=exception_class,
        limit=limit,
        context=CLI_CONTEXT,
    )
    if isinstance(found, RedrivePreview):
        _tell_preview(found, as_json)
        return
    task = found
    if wait:
        task = _wait_with_bar(redrives, task) if not as_json and is_terminal() else _wait(redrives, task)
    _tell(task, as_json)


@redrive.command("list")
@click.option("--status", type=click.Choice(["running", "completed", "cancelled"]), default=None, help="Only these.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Rows at most.")
@json_option
@command_errors
def list_redrives(status: RedriveStatus | None, limit: int, as_json: bool) -> None:
    """List the tasks that were started last."""
    tasks = current_runtime().operators.redrives.list(status=status, most=limit, context=CLI_CONTEXT)
    if as_json:
        print_json(tasks)
        return
    rows = [
        (
            task.id,
            task.kind,
            task.actor_type,
            task.operation,
            task.exception_class,
            task.failed_after,
            task.limit,
            task.status,
            task.moved,
            task.remaining,
            task.started_at,
            task.finished_at,
        )
        for task in tasks
    ]
    print_table(_COLUMNS, rows, "There are no redrives.")


@redrive.command("show")
@click.argument("redrive_id")
@json_option
@command_errors
def show_redrive(redrive_id: str, as_json: bool) -> None:
    """Show how far a task is."""
    _tell(current_runtime().operators.redrives.find(redrive_id, context=CLI_CONTEXT), as_json)


@redrive.command("cancel")
@click.argument("redrive_id")
@json_option
@command_errors
def cancel_redrive(redrive_id: str, as_json: bool) -> None:
    """End a running task; what it has revived stays so."""
    _tell(current_runtime().operators.redrives.cancel(redrive_id, context=CLI_CONTEXT), as_json)


def _tell(task: Redrive, as_json: bool) -> None:
    if as_json:
        print_json(task)
    else:
        click.echo(f"Redrive {task.id} is {task.status}: {task.moved} revived, {task.remaining} remaining.")


def _tell_preview(preview: RedrivePreview, as_json: bool) -> None:
    if as_json:
        print_json(preview)
        return
    more = " or more" if preview.is_capped else ""
    click.echo(f"{preview.count}{more} would be revived now; nothing was started.")


def _wait(redrives: RedriveOperators, task: Redrive) -> Redrive:
    pause = threading.Event()
    while task.is_running:
        pause.wait(_LOOK_SECONDS)
        task = redrives.find(task.id, context=CLI_CONTEXT)
    return task


def _wait_with_bar(redrives: RedriveOperators, task: Redrive) -> Redrive:
    pause = threading.Event()
    with click.progressbar(length=task.moved + task.remaining, label="Reviving", show_pos=True) as bar:
        bar.update(task.moved)
        while task.is_running:
            pause.wait(_LOOK_SECONDS)
            task, before = redrives.find(task.id, context=CLI_CONTEXT), task
            bar.update(task.moved - before.moved)
    return task
