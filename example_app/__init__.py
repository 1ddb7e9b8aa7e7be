"""A ticket shop, a chat and a queue of jobs: durable actors with live pages, and no JavaScript of their own.

Run it with ``make demo``, or ``flask --app example_app seed`` and ``flask --app example_app solid dev``.
"""

from __future__ import annotations

import os

import click
from flask import Flask, Response
from flask.cli import with_appcontext

from example_app import live as live
from example_app.actors import Event, Ledger, solid
from example_app.chat import chat
from example_app.jobs import jobs
from example_app.orders import db
from example_app.shop import shop


def create_app(config: dict[str, object] | None = None) -> Flask:
    """Make the app; ``DATABASE_URL`` chooses another database than the SQLite file in the instance folder."""
    app = Flask(__name__)
    app.config.update(
        SECRET_KEY=os.environ.get("SECRET_KEY", "only for the example"),
        SQLALCHEMY_DATABASE_URI=os.environ.get("DATABASE_URL", "sqlite:///ticket_shop.sqlite3"),
        SESSION_COOKIE_SAMESITE="Lax",
    )
    app.config.update(config or {})
    db.init_app(app)
    solid.init_app(app)
    for blueprint in (shop, chat, jobs):
        app.register_blueprint(blueprint)
    app.register_blueprint(solid.dashboard())
    app.cli.add_command(seed_command)
    app.after_request(_secure)
    return app


def _secure(response: Response) -> Response:
    """Only files of this site run on its pages: no inline script or style, and nothing from elsewhere."""
    policy = "default-src 'self'; frame-ancestors 'none'"
    response.headers.setdefault("Content-Security-Policy", policy)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    return response


def seed() -> bool:
    """Make the tables and the first event; False when it was there already."""
    solid.upgrade()
    db.create_all()
    event = Event.ref("night-of-strings")
    if event.snapshot().title:
        return False
    event.open(title="Night of Strings", venue="Small Hall", rows=6, seats_per_row=8, price_cents=3200)
    Ledger.ref("night-of-strings").note(text="The event is on sale.", cents=0)
    return True


@click.command("seed")
@with_appcontext
def seed_command() -> None:
    """Make the tables and an event, if they are not there yet."""
    click.echo("An event is on sale." if seed() else "The event was on sale already.")
