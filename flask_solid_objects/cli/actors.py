"""``flask solid actors``: look at actors and steer those that are stuck."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
from flask.cli import AppGroup

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.output import CLI_CONTEXT, command_errors, json_option, plain, print_json, print_table
from flask_solid_objects.values import ActorKey

actors = AppGroup("actors", help="Actors: list, show, pause, resume, and the ways out of a stuck head.")
_COLUMNS = ["id", "type", "actor", "lease", "backlog", "ready", "next", "revision", "last used"]


@actors.command("list")
@click.option("--type", "actor_type", default=None, help="Only this actor type.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Rows of one page.")
@click.option("--after", type=int, default=0, help="Go on after this id.")
@json_option
@command_errors
def list_actors(actor_type: str | None, limit: int, after: int, as_json: bool) -> None:
    """List actors by id."""
    reports = current_runtime().operators.actors(actor_type=actor_type, after=after, most=limit, context=CLI_CONTEXT)
    if as_json:
        print_json(reports)
        return
    rows = [
        (
            each.id,
            each.key.actor_type,
            each.key.actor_id,
            each.lease,
            each.has_backlog,
            each.ready_at,
            each.next_sequence,
            each.state_revision,
            each.last_used_at,
        )
        for each in reports
    ]
    print_table(_COLUMNS, rows, "There are no actors.")


@actors.command("show")
@click.argument("actor_type")
@click.argument("actor_id")
@json_option
@command_errors
def show_actor(actor_type: str, actor_id: str, as_json: bool) -> None:
    """Show one actor: its lease, its hints, how much waits, and why it is parked."""
    operators = current_runtime().operators
    report = operators.actor(_key(actor_type, actor_id), context=CLI_CONTEXT)
    depth = operators.depth(report.id, most=1000)
    values = plain(report) | {"waiting": depth}
    values["parked_error"] = json.loads(report.parked_error) if report.parked_error else None
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        if name != "key":
            click.echo(f"{name.replace('_', ' '):>16}  {value if value is not None else '-'}")


def _act(name: str, help_text: str, act: Callable[[Any, ActorKey], Any], done: str, nothing: str) -> None:
    """Add a command that does one thing to one actor."""

    @actors.command(name, help=help_text)
    @click.argument("actor_type")
    @click.argument("actor_id")
    @json_option
    @command_errors
    def command(actor_type: str, actor_id: str, as_json: bool) -> None:
        result = act(current_runtime().operators, _key(actor_type, actor_id))
        changed = result is not None and result is not False
        if as_json:
            values: dict[str, object] = {"changed": changed}
            if isinstance(result, int) and not isinstance(result, bool):
                values["message_id"] = result
            print_json(values)
        else:
            click.echo((done if changed else nothing).format(result=result))


_act(
    "pause",
    "Let the running turn finish, and start no other.",
    lambda operators, key: operators.pause(key, context=CLI_CONTEXT),
    "Paused.",
    "It was paused already.",
)
_act(
    "resume",
    "Let a paused actor go on.",
    lambda operators, key: operators.resume(key, context=CLI_CONTEXT),
    "Resumed.",
    "It was not paused.",
)
_act(
    "retry-now",
    "End the back-off of a failing head, and the parking of a failing activation.",
    lambda operators, key: operators.retry_now(key, context=CLI_CONTEXT),
    "It is tried again now.",
    "Nothing was waiting for a retry.",
)
_act(
    "skip",
    "End the head without a result, even while it runs.",
    lambda operators, key: operators.skip(key, context=CLI_CONTEXT),
    "Skipped message {result}.",
    "There is no message to skip.",
)
_act(
    "fail",
    "Move the head to the dead letters, even while it runs.",
    lambda operators, key: operators.fail(key, context=CLI_CONTEXT),
    "Message {result} is a dead letter now.",
    "There is no message to fail.",
)


@actors.command("destroy")
@click.argument("actor_type")
@click.argument("actor_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@command_errors
def destroy_actor(actor_type: str, actor_id: str, yes: bool, as_json: bool) -> None:
    """Delete an actor, its messages and its dead letters."""
    if not yes:
        click.confirm(f"Delete {actor_type} {actor_id!r} with its messages and dead letters?", abort=True)
    destroyed = current_runtime().operators.destroy(_key(actor_type, actor_id), context=CLI_CONTEXT)
    if as_json:
        print_json({"destroyed": destroyed})
    else:
        click.echo("Destroyed." if destroyed else "There was no such actor.")


def _key(actor_type: str, actor_id: str) -> ActorKey:
    return ActorKey(actor_type=actor_type, actor_id=actor_id)
