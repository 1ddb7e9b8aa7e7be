"""Flask apps for tests: one actor, a table of the app's own, any of the databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import URL, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_solid_objects import Actor, SolidObjects, operation, query
from flask_solid_objects.seams import Seams
from flask_solid_objects.store.schema import upgrade


class AppUnderTest:
    """An app with its own extension, actor class and model class, since all three belong to one app each."""

    def __init__(self, url: URL, *, seams: Seams | None = None, **config: Any) -> None:
        class Base(DeclarativeBase):
            pass

        self.app = Flask("app_under_test")
        self.app.config.update(
            SECRET_KEY="test",
            SQLALCHEMY_DATABASE_URI=url.render_as_string(hide_password=False),
            SOLID_OBJECTS_RETRY_DELAY=lambda attempt: 0.0,
            SOLID_OBJECTS_POLLING_INTERVAL=0.02,
            SOLID_OBJECTS_IDLE_POLLING_INTERVAL=0.1,
        )
        self.app.config.update(config)
        self.db = SQLAlchemy(model_class=Base)
        self.solid = SolidObjects()
        database, solid = self.db, self.solid

        class Note(database.Model):  # type: ignore[name-defined, misc]
            id: Mapped[int] = mapped_column(primary_key=True)
            body: Mapped[str] = mapped_column(String(100), default="")

        self.Note = Note

        @solid.actor
        class Counter(Actor):
            value: int = 0

            @operation
            def increment(self, amount: int = 1) -> int:
                self.value += amount
                return self.value

            @operation
            def write(self, how: str) -> int:
                self.value += 1
                _WRITES[how](database, Note)
                return self.value

            @query
            def notes(self) -> int:
                return database.session.query(Note).count()

            @query
            def sees(self) -> dict[str, bool]:
                from flask import g, has_request_context

                return {"request": has_request_context(), "g": "mark" in g}

        self.Counter: Any = Counter
        self.db.init_app(self.app)
        self.solid.init_app(self.app, seams=seams)

    @contextmanager
    def ready(self, *, made: bool = False) -> Iterator[AppUnderTest]:
        """With the tables made (or there already) and an app context pushed; everything is closed at the end."""
        with self.app.app_context():
            if not made:
                upgrade(self.solid.runtime.core.database.engine, self.solid.runtime.settings.table_prefix)
            self.Note.__table__.create(self.db.engine)
            try:
                yield self
            finally:
                self.db.session.remove()
                self.solid.runtime.close()
                self.Note.__table__.drop(self.db.engine)
                for engine in self.db.engines.values():
                    engine.dispose()


def _flush(database: Any, note: Any) -> None:
    database.session.add(note(body="x"))
    database.session.flush()


def _core(database: Any, note: Any) -> None:
    database.session.execute(note.__table__.insert().values(body="x"))


def _text(database: Any, _note: Any) -> None:
    database.session.execute(database.text("  -- a comment\n insert into note (body) values ('x')"))


def _ddl(database: Any, _note: Any) -> None:
    database.session.execute(database.text("CREATE TABLE other (id INTEGER)"))


def _lock(database: Any, note: Any) -> None:
    database.session.execute(database.select(note).with_for_update())


def _raw(database: Any, _note: Any) -> None:
    connection = database.engine.raw_connection()
    try:
        connection.cursor().execute("INSERT INTO note (body) VALUES ('x')")
    finally:
        connection.close()


_WRITES = {"flush": _flush, "core": _core, "text": _text, "ddl": _ddl, "lock": _lock, "raw": _raw}
