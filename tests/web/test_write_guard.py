"""Actor code reads the app's database freely and cannot write to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL, event
from sqlalchemy.exc import DBAPIError

from flask_solid_objects import Actor, operation
from flask_solid_objects.errors import MessageFailed
from tests.apps import AppUnderTest


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    with AppUnderTest(database_url).ready(made=True) as ready:
        yield ready


def test_reads_are_free(app: AppUnderTest) -> None:
    """A query of an actor reads committed rows of the app."""
    app.db.session.add(app.Note(body="x"))
    app.db.session.commit()

    assert app.Counter.ref("a").notes() == 1


@pytest.mark.parametrize("how", ["flush", "core", "text", "ddl", "lock"])
def test_writes_are_refused(app: AppUnderTest, how: str) -> None:
    """ORM, Core, text, DDL and locking reads fail the turn at its first attempt, and write nothing."""
    if how == "lock" and app.db.engine.dialect.name == "sqlite":
        how = "text"  # SQLite has no row locks, so SQLAlchemy sends it a plain read
    with pytest.raises(MessageFailed) as raised:
        app.Counter.ref("a").write(how=how)

    assert raised.value.details["class"] == "ApplicationWriteForbidden"
    assert app.db.session.query(app.Note).count() == 0
    assert app.Counter.ref("a").value == 0


def test_driver_connections_are_read_only(app: AppUnderTest) -> None:
    """The second belt: a write on the driver's own cursor is refused by the database, and undone afterwards."""
    if app.db.engine.dialect.name == "mysql":
        return  # there is no belt here that could be undone without a trace; the statements are read before
    with pytest.raises(MessageFailed) as raised:
        app.Counter.ref("a").write(how="raw")

    assert "read" in str(raised.value.details["message"]).lower()
    app.db.session.add(app.Note(body="x"))
    app.db.session.commit()
    assert app.db.session.query(app.Note).count() == 1


def test_connections_are_given_back_as_they_were(app: AppUnderTest) -> None:
    """Connections that the app itself opens read-only are still so after a turn has read through them."""
    name = app.db.engine.dialect.name
    if name == "mysql":
        return  # there is no second belt
    make_read_only = _READ_ONLY[name]
    event.listen(app.db.engine, "connect", make_read_only)
    app.db.engine.dispose()

    assert app.Counter.ref("a").notes() == 0
    with app.db.engine.connect() as connection, pytest.raises(DBAPIError, match=r"read-?only"):
        connection.execute(app.Note.__table__.insert().values(body="x"))
    event.remove(app.db.engine, "connect", make_read_only)
    app.db.engine.dispose()


def _postgresql(connection: Any, _record: object) -> None:
    connection.read_only = True


def _sqlite(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA query_only = ON")


_READ_ONLY = {"postgresql": _postgresql, "sqlite": _sqlite}


def test_reading_in_memory_does_not_stop_other_threads() -> None:
    """While a turn reads an in-memory database, other threads write on the connection that all share."""
    reading, finish = threading.Event(), threading.Event()
    with AppUnderTest(URL.create("sqlite", database=":memory:")).ready() as app:

        @app.solid.actor
        class Reader(Actor):
            @operation
            def read(self) -> int:
                count = int(app.db.session.query(app.Note).count())
                reading.set()
                finish.wait(10)
                return count

        def read() -> None:
            with app.app.app_context():
                Reader.ref("r").read()

        thread = threading.Thread(target=read)
        thread.start()
        try:
            assert reading.wait(10)
            assert app.Counter.ref("a").increment() == 1
        finally:
            finish.set()
            thread.join()
