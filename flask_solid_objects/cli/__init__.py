"""The command group ``flask solid``; every command says in ``--help`` what it does and takes ``--json`` to be read."""

from __future__ import annotations

from flask.cli import AppGroup

from flask_solid_objects.cli.actors import actors
from flask_solid_objects.cli.doctor import doctor_command
from flask_solid_objects.cli.operators import cleanup_command, dead_letters, status_command
from flask_solid_objects.cli.outboxes import effects
from flask_solid_objects.cli.prune import prune_command
from flask_solid_objects.cli.redrives import redrive
from flask_solid_objects.cli.reminders import reminders
from flask_solid_objects.cli.schema import check_command, downgrade_command, upgrade_command
from flask_solid_objects.cli.work import dev_command, work_command

solid_cli = AppGroup("solid", help="Durable actors: schema, workers, operators.")
for _command in (
    upgrade_command,
    check_command,
    downgrade_command,
    work_command,
    dev_command,
    status_command,
    doctor_command,
    cleanup_command,
    prune_command,
    dead_letters,
    redrive,
    reminders,
    effects,
    actors,
):
    solid_cli.add_command(_command)
