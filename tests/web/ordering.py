"""An app whose actor stages commit actions that write the app's own rows, in every way that there is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import URL, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from flask_solid_objects import Actor, operation
from flask_solid_objects.errors import Rejected
from flask_solid_objects.values import CommitContext
from tests.apps import AppUnderTest

How = Callable[["OrderingApp", CommitContext, str], None]


class OrderingApp(AppUnderTest):
    """``Orders.place(bodies, how)`` stages one action per body."""

    def __init__(self, url: URL, **config: Any) -> None:
        super().__init__(url, **config)
        self.ran: list[str] = []
        # What an action does beside those that are named below.
        self.hows: dict[str, How] = dict(_HOWS)
        app = self

        @self.solid.commit_action
        def record(context: CommitContext, *, body: str, how: str) -> None:
            app.ran.append(body)
            app.hows[how](app, context, body)

        @self.solid.actor
        class Orders(Actor):
            taken: list[str] = []

            @operation
            def place(self, bodies: list[str], how: str = "add") -> int:
                self.taken.extend(bodies)
                for body in bodies:
                    record.stage(body=body, how=how)
                return len(self.taken)

        self.Orders: Any = Orders

    @property
    def bodies(self) -> list[str]:
        """The committed rows, in the order of their ids."""
        self.db.session.rollback()
        return list(self.db.session.execute(select(self.Note.body).order_by(self.Note.id)).scalars())

    def taken(self, actor_id: str = "a") -> list[str]:
        """The committed state."""
        return list(self.Orders.ref(actor_id).snapshot().taken)


def _add(app: OrderingApp, context: CommitContext, body: str) -> None:
    context.session.add(app.Note(body=body))


def _raise(app: OrderingApp, context: CommitContext, body: str) -> None:
    _add(app, context, body)
    context.session.flush()
    raise RuntimeError(body)


def _reject(app: OrderingApp, context: CommitContext, body: str) -> None:
    _add(app, context, body)
    context.session.flush()
    raise Rejected("full", "No room.", details={"body": body})


def _commit_and_raise(app: OrderingApp, context: CommitContext, body: str) -> None:
    _add(app, context, body)
    context.session.commit()
    raise RuntimeError(body)


def _roll_back(app: OrderingApp, context: CommitContext, body: str) -> None:
    """Every second one takes back what it added."""
    _add(app, context, body)
    context.session.flush()
    if len(app.ran) % 2 == 0:
        context.session.rollback()


def _end_connection(app: OrderingApp, context: CommitContext, body: str) -> None:
    _add(app, context, body)
    context.session.flush()
    context.session.connection().commit()
    raise RuntimeError(body)


def _end_by_text(app: OrderingApp, context: CommitContext, body: str) -> None:
    _add(app, context, body)
    context.session.flush()
    context.session.execute(text("  -- done\n COMMIT"))
    raise RuntimeError(body)


def _change_schema(app: OrderingApp, context: CommitContext, body: str) -> None:
    _add(app, context, body)
    context.session.flush()
    context.session.execute(text("CREATE TABLE made_in_an_action (id INTEGER)"))
    raise RuntimeError(body)


def _duplicate(app: OrderingApp, context: CommitContext, body: str) -> None:
    context.session.add(app.Note(id=1, body=body))
    context.session.flush()


def _duplicate_nested(app: OrderingApp, context: CommitContext, body: str) -> None:
    try:
        with context.session.begin_nested():
            _duplicate(app, context, body)
    except IntegrityError:
        context.session.add(app.Note(body=f"{body} instead"))


def _duplicate_rolled_back(app: OrderingApp, context: CommitContext, body: str) -> None:
    try:
        _duplicate(app, context, body)
    except IntegrityError:
        context.session.rollback()
        context.session.add(app.Note(body=f"{body} instead"))


def _read(app: OrderingApp, context: CommitContext, body: str) -> None:
    """Read by both sessions: the app's sees what is committed, the action's also what it writes."""
    _add(app, context, body)
    context.session.flush()
    seen = [session.execute(select(app.Note.body)).scalars().all() for session in (app.db.session, context.session)]
    context.session.add(app.Note(body=f"saw {len(seen[0])} and {len(seen[1])}"))


def _read_commit_and_raise(app: OrderingApp, context: CommitContext, body: str) -> None:
    _read(app, context, body)
    context.session.flush()
    app.db.session.commit()
    raise RuntimeError(body)


def _write_aside(app: OrderingApp, context: CommitContext, body: str) -> None:
    _add(app, context, body)
    app.db.session.add(app.Note(body="aside"))
    app.db.session.flush()


def _missing(app: OrderingApp, context: CommitContext, body: str) -> None:
    context.session.execute(text("INSERT INTO no_such_table (body) VALUES ('x')"))


def _conflict_once(app: OrderingApp, context: CommitContext, body: str) -> None:
    """The first run meets what the server says of a lost conflict."""
    _add(app, context, body)
    context.session.flush()
    if len(app.ran) > 1:
        return
    name = context.session.connection().dialect.name
    if name == "sqlite":
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise OperationalError("UPDATE", {}, error)
    if name == "mysql":
        # A deadlock has rolled the whole transaction back, savepoints and all.
        context.session.connection().connection.cursor().execute("ROLLBACK")
    context.session.execute(text(_CONFLICTS[name]))


def _conflict_nested_once(app: OrderingApp, context: CommitContext, body: str) -> None:
    with context.session.begin_nested():
        _conflict_once(app, context, body)


def _end_and_ignore(app: OrderingApp, context: CommitContext, body: str) -> None:
    _add(app, context, body)
    context.session.flush()
    with suppress(Exception):
        context.session.connection().commit()


def _roll_back_connection(app: OrderingApp, context: CommitContext, body: str) -> None:
    context.session.connection().rollback()


def _defer(app: OrderingApp, context: CommitContext, body: str) -> None:
    """Leave rows whose constraint the database looks at only when the transaction commits."""
    _add(app, context, body)
    context.session.execute(text("INSERT INTO deferred VALUES (0), (0)"))


_CONFLICTS = {
    "postgresql": "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$",
    "mysql": "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213",
}

_HOWS: dict[str, How] = {
    "add": _add,
    "raise": _raise,
    "reject": _reject,
    "commit_and_raise": _commit_and_raise,
    "roll_back": _roll_back,
    "end_connection": _end_connection,
    "end_by_text": _end_by_text,
    "change_schema": _change_schema,
    "duplicate": _duplicate,
    "duplicate_nested": _duplicate_nested,
    "duplicate_rolled_back": _duplicate_rolled_back,
    "read": _read,
    "read_commit_and_raise": _read_commit_and_raise,
    "write_aside": _write_aside,
    "missing": _missing,
    "conflict_once": _conflict_once,
    "defer": _defer,
    "conflict_nested_once": _conflict_nested_once,
    "end_and_ignore": _end_and_ignore,
    "roll_back_connection": _roll_back_connection,
}
