"""``flask solid status``, ``cleanup`` and ``dead-letters``: what runs, and what has failed for good."""

from __future__ import annotations

import json
from typing import Literal

import click
from flask.cli import AppGroup, with_appcontext

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.outboxes import print_broadcasts, print_effects, retry_broadcast, retry_effect
from flask_solid_objects.cli.output import CLI_CONTEXT, command_errors, json_option, plain, print_json, print_table
from flask_solid_objects.store.dead_letters import DeadLetter

dead_letters = AppGroup("dead-letters", help="Messages, effects and broadcasts that failed for good.")
_Kind = Literal["message", "effect", "broadcast"]
_kind_option = click.option(
    "--kind",
    type=click.Choice(["message", "effect", "broadcast"]),
    default="message",
    show_default=True,
    help="What has failed.",
)


@click.command("status")
@json_option
@with_appcontext
@command_errors
def status_command(as_json: bool) -> None:
    """Show the processes that are registered and have not stopped."""
    processes = current_runtime().operators.processes(context=CLI_CONTEXT)
    if as_json:
        print_json([{**plain(process), "metadata": json.loads(process.metadata)} for process in processes])
        return
    rows = [
        (p.kind, p.hostname, p.pid, "stale" if p.is_stale else p.shutdown_state, p.started_at, p.last_heartbeat_at)
        for p in processes
    ]
    empty = "Nothing runs. Start `flask solid work`."
    print_table(["kind", "host", "pid", "state", "started", "last heartbeat"], rows, empty)


@click.command("cleanup")
@json_option
@with_appcontext
@command_errors
def cleanup_command(as_json: bool) -> None:
    """Free what dead processes held; maintenance does it by itself while a worker runs."""
    count = current_runtime().operators.clean_up(context=CLI_CONTEXT)
    if as_json:
        print_json({"cleaned_processes": count})
    else:
        click.echo(f"Cleaned up after {count} dead processes.")


@dead_letters.command("list")
@_kind_option
@click.option("--type", "actor_type", default=None, help="Only this actor type.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Rows of one page.")
@click.option("--before", type=int, default=None, help="Go on below this id.")
@json_option
@command_errors
def list_dead_letters(kind: _Kind, actor_type: str | None, limit: int, before: int | None, as_json: bool) -> None:
    """List the newest dead letters."""
    operators = current_runtime().operators
    if kind == "effect":
        effects = operators.effects.dead(actor_type=actor_type, before=before, most=limit, context=CLI_CONTEXT)
        print_effects(effects, as_json, "There are no dead effects.")
        return
    if kind == "broadcast":
        broadcasts = operators.broadcasts.dead(actor_type=actor_type, before=before, most=limit, context=CLI_CONTEXT)
        print_broadcasts(broadcasts, as_json, "There are no dead broadcasts.")
        return
    letters = operators.dead_letters(actor_type=actor_type, before=before, most=limit, context=CLI_CONTEXT)
    if as_json:
        print_json([_letter(letter) for letter in letters])
        return
    rows = [
        (
            each.id,
            each.key.actor_type,
            each.key.actor_id,
            each.operation,
            each.attempts,
            each.exception_class,
            each.last_failed_at,
            each.retried_message_id,
        )
        for each in letters
    ]
    headers = ["id", "type", "actor", "operation", "attempts", "error", "failed", "retried as"]
    print_table(headers, rows, "There are no dead letters.")


@dead_letters.command("show")
@click.argument("dead_letter_id", type=int)
@json_option
@command_errors
def show_dead_letter(dead_letter_id: int, as_json: bool) -> None:
    """Show one dead letter with its arguments and backtrace."""
    letter = current_runtime().operators.dead_letter(dead_letter_id, context=CLI_CONTEXT)
    if as_json:
        print_json(_letter(letter))
        return
    click.echo(f"{letter.key} {letter.operation}, message {letter.message_id}, {letter.attempts} attempts")
    click.echo(f"Arguments: {json.dumps(_letter(letter)['arguments'])}")
    click.echo(f"{letter.exception_class}: {letter.exception_message}")
    for line in json.loads(letter.backtrace):
        click.echo(f"  {line}")
    if letter.retried_message_id is not None:
        click.echo(f"Retried as message {letter.retried_message_id}.")


@dead_letters.command("retry")
@click.argument("dead_letter_id")
@_kind_option
@json_option
@command_errors
def retry_dead_letter(dead_letter_id: str, kind: _Kind, as_json: bool) -> None:
    """Send a message again, at the end of its mailbox, or let an effect or broadcast start from the beginning.

    A message is named by the id of its dead letter, the others by their own ids. A second time does nothing new.
    """
    if kind == "effect":
        retry_effect(dead_letter_id, as_json)
        return
    if kind == "broadcast":
        retry_broadcast(dead_letter_id, as_json)
        return
    if not dead_letter_id.isdecimal():
        raise click.BadParameter(f"{dead_letter_id!r} is not the id of a dead letter; see --kind.")
    message = current_runtime().operators.retry_dead_letter(int(dead_letter_id), context=CLI_CONTEXT)
    if as_json:
        print_json({"message_id": message.id, "sequence": message.sequence, "request_id": message.request_id})
    else:
        click.echo(f"Sent again as message {message.id}.")


def _letter(letter: DeadLetter) -> dict[str, object]:
    values: dict[str, object] = plain(letter)
    shown = current_runtime().redaction.arguments(letter.key.actor_type, letter.operation, letter.arguments)
    return values | {"arguments": shown, "backtrace": json.loads(letter.backtrace)}
