"""``flask solid doctor``: what is wrong with this installation, and what to do about it."""

from __future__ import annotations

import sys

import click
from flask.cli import with_appcontext

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.output import command_errors, json_option, print_json
from flask_solid_objects.runtime.doctor import Doctor


@click.command("doctor")
@click.option("--invariants", is_flag=True, help="Also check the invariants of all stored rows.")
@json_option
@with_appcontext
@command_errors
def doctor_command(invariants: bool, as_json: bool) -> None:
    """Check settings, schema, server, wake-ups, pool and roles, and make a real call; exit code 1 when one fails."""
    checks = Doctor(current_runtime()).run(invariants=invariants)
    healthy = all(check.status != "fail" for check in checks)
    if as_json:
        print_json({"healthy": healthy, "checks": checks})
    else:
        for check in checks:
            click.echo(f"{check.status:>5}  {check.name}: {check.text}")
            if check.remedy:
                click.echo(f"       {check.remedy}")
        click.echo("Healthy." if healthy else "Not healthy.")
    if not healthy:
        sys.exit(1)
