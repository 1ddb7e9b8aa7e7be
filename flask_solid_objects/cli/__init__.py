"""The command group ``flask solid``."""

from __future__ import annotations

from flask.cli import AppGroup

solid_cli = AppGroup("solid", help="Durable actors: schema, workers, operators.")
