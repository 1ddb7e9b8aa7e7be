"""``flask solid upgrade``, ``check`` and ``downgrade``: the tables in the database."""

from __future__ import annotations

import sys

import click
from flask.cli import with_appcontext

from flask_solid_objects.cli.current import current_runtime, current_state
from flask_solid_objects.cli.output import command_errors, json_option, print_json
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.schema import check, downgrade, upgrade


@click.command("upgrade")
@json_option
@with_appcontext
@command_errors
def upgrade_command(as_json: bool) -> None:
    """Make the tables, or bring them to this version; tables that are right already are adopted."""
    database, prefix = _place()
    upgrade(database.engine, prefix)
    report = check(database.engine, prefix)
    if as_json:
        print_json({"ok": report.ok, "revision": report.revision, "head": report.head})
    else:
        click.echo(f"The tables are at revision {report.revision}.")


@click.command("check")
@json_option
@with_appcontext
@command_errors
def check_command(as_json: bool) -> None:
    """Compare the tables with what this version needs; exit code 1 when they differ."""
    database, prefix = _place()
    report = check(database.engine, prefix)
    if as_json:
        print_json(
            {
                "ok": report.ok,
                "revision": report.revision,
                "head": report.head,
                "missing_tables": list(report.missing_tables),
                "differences": list(report.differences),
            }
        )
    elif report.ok:
        click.echo(f"The tables are right (revision {report.revision or 'kept by the app'}).")
    else:
        for problem in report.problems:
            click.echo(problem)
        click.echo("Run `flask solid upgrade`, or the app's own `flask db upgrade`.")
    if not report.ok:
        sys.exit(1)


@click.command("downgrade")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@with_appcontext
@command_errors
def downgrade_command(yes: bool, as_json: bool) -> None:
    """Drop the tables and everything in them."""
    if not yes:
        # On stderr, so that what --json prints stays JSON.
        click.confirm("This deletes every actor, message and dead letter. Go on?", abort=True, err=True)
    database, prefix = _place()
    downgrade(database.engine, prefix)
    if as_json:
        print_json({"ok": True, "revision": None})
    else:
        click.echo("The tables are gone.")


def _place() -> tuple[Database, str]:
    return current_runtime().core.database, current_state().settings.table_prefix
