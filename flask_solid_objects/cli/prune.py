"""``flask solid prune``: say how much of what is old could go, and delete it when told to."""

from __future__ import annotations

from collections.abc import Callable

import click
from flask.cli import with_appcontext

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.output import (
    CLI_CONTEXT,
    command_errors,
    is_terminal,
    json_option,
    print_json,
    print_table,
)
from flask_solid_objects.runtime.operators import Operators
from flask_solid_objects.runtime.retention import has_retention
from flask_solid_objects.store.retention import KINDS

_SECONDS_OF_A_DAY = 86_400
_MOST_DAYS = 10_000
_KEPT = {
    "dead-letters": "Dead letters are kept for ever: set SOLID_OBJECTS_DEAD_LETTER_RETENTION, or give --older-than.",
    "instances": "Actors are kept for ever: list their types in SOLID_OBJECTS_INSTANCE_RETENTION_BY_ACTOR_TYPE.",
}


@click.command("prune")
@click.argument("kind", type=click.Choice([*sorted(KINDS), "all"]))
@click.option("--execute", is_flag=True, help="Delete; without it the rows are only counted.")
@click.option(
    "--older-than", type=click.FloatRange(0, _MOST_DAYS), default=None, metavar="DAYS", help="Instead of the settings."
)
@json_option
@with_appcontext
@command_errors
def prune_command(kind: str, execute: bool, older_than: float | None, as_json: bool) -> None:
    """Count what is old and no longer needed, or delete it with --execute.

    Maintenance does it by itself, by the SOLID_OBJECTS_*_RETENTION settings.
    """
    runtime = current_runtime()
    kinds = KINDS if kind == "all" else (kind,)
    seconds = None if older_than is None else older_than * _SECONDS_OF_A_DAY
    prune = _Prune(runtime.operators, kinds, seconds)
    if not execute:
        counts = prune.count()
    elif as_json or not is_terminal():
        counts = prune.delete()
    else:
        counts = prune.delete_with_bar()
    if as_json:
        print_json({"executed": execute, "counts": counts})
        return
    print_table(["kind", "deleted" if execute else "would be deleted"], list(counts.items()), "")
    for each in kinds:
        if not has_retention(runtime.settings, each) and (seconds is None or each == "instances"):
            click.echo(_KEPT[each])
    if not execute:
        click.echo("Nothing was deleted. Add --execute to delete these rows.")


class _Prune:
    """One use of the command."""

    def __init__(self, operators: Operators, kinds: tuple[str, ...], older_than: float | None) -> None:
        self._operators, self._kinds, self._older_than = operators, kinds, older_than

    def count(self) -> dict[str, int]:
        return self._run(execute=False)

    def delete(self) -> dict[str, int]:
        return self._run(execute=True)

    def delete_with_bar(self) -> dict[str, int]:
        """Count first, since a bar needs to know its end."""
        total = sum(self.count().values())
        with click.progressbar(length=total, label="Pruning", show_pos=True) as bar:
            return self._run(execute=True, progress=lambda _, count: bar.update(count))

    def _run(self, *, execute: bool, progress: Callable[[str, int], None] = lambda kind, count: None) -> dict[str, int]:
        return self._operators.prune(
            self._kinds, execute=execute, older_than=self._older_than, progress=progress, context=CLI_CONTEXT
        )
