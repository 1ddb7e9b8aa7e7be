"""``flask solid effects``, and the dead effects and broadcasts of ``flask solid dead-letters``."""

from __future__ import annotations

import json
from typing import Any

import click
from flask.cli import AppGroup

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.output import CLI_CONTEXT, command_errors, json_option, plain, print_json, print_table
from flask_solid_objects.intents import ACTOR_MESSAGE
from flask_solid_objects.runtime.outbox_operators import WaitingStatus
from flask_solid_objects.store.broadcasts import BroadcastRow
from flask_solid_objects.store.effects import EffectRow

effects = AppGroup("effects", help="Effects, and messages from actor to actor, that are on their way.")
_EFFECT_COLUMNS = ["id", "effect", "actor", "work", "status", "attempts", "error", "changed"]
_BROADCAST_COLUMNS = ["id", "broadcast", "actor", "observable", "revision", "attempts", "error", "changed"]


@effects.command("list")
@click.option(
    "--status", type=click.Choice(["pending", "processing"]), default="pending", show_default=True, help="Which ones."
)
@click.option("--type", "actor_type", default=None, help="Only of this actor type.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Rows of one page.")
@click.option("--before", type=int, default=None, help="Go on below this id.")
@json_option
@command_errors
def list_effects(status: WaitingStatus, actor_type: str | None, limit: int, before: int | None, as_json: bool) -> None:
    """List the newest effects that wait or run; dead ones are among the dead letters."""
    found = current_runtime().operators.effects.waiting(
        status=status, actor_type=actor_type, before=before, most=limit, context=CLI_CONTEXT
    )
    print_effects(found, as_json, f"There are no {status} effects.")


@effects.command("retry")
@click.argument("effect_id")
@json_option
@command_errors
def retry_effect_command(effect_id: str, as_json: bool) -> None:
    """Let a dead effect start from the beginning, under the same id; any other stays as it is."""
    retry_effect(effect_id, as_json)


def retry_effect(effect_id: str, as_json: bool) -> None:
    row = current_runtime().operators.effects.retry(effect_id, context=CLI_CONTEXT)
    _tell(_effect(row), f"Effect {row.effect_id} is {row.status}.", as_json)


def retry_broadcast(broadcast_id: str, as_json: bool) -> None:
    row = current_runtime().operators.broadcasts.retry(broadcast_id, context=CLI_CONTEXT)
    _tell(_broadcast(row), f"Broadcast {row.broadcast_id} is {row.status}.", as_json)


def print_effects(found: list[EffectRow], as_json: bool, empty: str) -> None:
    if as_json:
        print_json([_effect(row) for row in found])
        return
    rows = [
        (
            row.id,
            row.effect_id,
            row.actor,
            _work(row),
            row.status,
            f"{row.attempts}/{row.max_attempts}",
            _error_class(row.error),
            row.updated_at,
        )
        for row in found
    ]
    print_table(_EFFECT_COLUMNS, rows, empty)


def print_broadcasts(found: list[BroadcastRow], as_json: bool, empty: str) -> None:
    if as_json:
        print_json([_broadcast(row) for row in found])
        return
    rows = [
        (
            row.id,
            row.broadcast_id,
            row.actor,
            row.observable,
            row.revision,
            f"{row.attempts}/{row.max_attempts}",
            _error_class(row.error),
            row.updated_at,
        )
        for row in found
    ]
    print_table(_BROADCAST_COLUMNS, rows, empty)


def _tell(values: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(values)
    else:
        click.echo(text)


def _effect(row: EffectRow) -> dict[str, Any]:
    values: dict[str, Any] = plain(row)
    del values["is_exhausted"]
    redaction = current_runtime().redaction
    shown = {
        "arguments": redaction.effect_arguments(row.name, row.arguments),
        "result": None if row.result is None else redaction.effect_result(row.name, row.result),
        "error": _decoded(row.error),
    }
    return values | shown | {"is_message": row.name == ACTOR_MESSAGE}


def _broadcast(row: BroadcastRow) -> dict[str, Any]:
    values: dict[str, Any] = plain(row)
    return values | {"error": _decoded(row.error)}


def _work(row: EffectRow) -> str:
    """The name of an effect; of a message its receiver and operation, never its arguments."""
    if row.name != ACTOR_MESSAGE:
        return row.name
    message = _decoded(row.arguments)
    return f"message to {message['type']} {message['id']!r}: {message['operation']}"


def _error_class(error: str | None) -> str | None:
    return None if error is None else str(_decoded(error).get("class"))


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)
