"""What commands print: lines and tables for people, JSON for programs, one line for an error, and exit codes.

Exit codes: 0 done, 1 refused or unhealthy, 2 wrong usage (click's own).
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, ParamSpec, TypeVar

import click

from flask_solid_objects.errors import SolidObjectsError

P = ParamSpec("P")
R = TypeVar("R")

# Commands act as this operator; the administration policy gets it as its context.
CLI_CONTEXT: Mapping[str, str] = {"source": "cli"}

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def command_errors(command: Callable[P, R]) -> Callable[P, R]:
    """End a command on an error of ours with its text, which says what to do, and exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except SolidObjectsError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)

    return wrapped


def is_terminal() -> bool:
    """Whether somebody watches, who may see a bar."""
    return sys.stdout.isatty()


def print_json(value: object) -> None:
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Columns as wide as their longest cell; a sentence when there is no row."""
    if not rows:
        click.echo(empty)
        return
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[number]) for row in [list(headers), *cells]) for number in range(len(headers))]
    for row in [[header.upper() for header in headers], *cells]:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def plain(value: object) -> Any:
    """Plain JSON values of what the runtime returns; times in ISO 8601."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value).replace("\n", " ")[:80]
