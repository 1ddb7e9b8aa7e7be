"""Commit actions and the binds of an application: only what is in the actors' database can commit with a turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, select
from sqlalchemy.orm import Mapped, mapped_column

from flask_solid_objects import Actor, operation
from flask_solid_objects.errors import MessageFailed
from flask_solid_objects.values import CommitContext
from tests.apps import AppUnderTest


class BoundApp(AppUnderTest):
    """An app with a second bind, whose actor writes a row of it."""

    def __init__(self, url: URL, other: URL) -> None:
        binds = {"other": other.render_as_string(hide_password=False)}
        super().__init__(url, SQLALCHEMY_BINDS=binds, SOLID_OBJECTS_MAX_ATTEMPTS=3)
        database: Any = self.db

        class Entry(database.Model):  # type: ignore[misc]
            __bind_key__ = "other"
            id: Mapped[int] = mapped_column(primary_key=True)

        self.Entry: Any = Entry
        hows = {
            "orm": lambda session: session.add(Entry()),
            "core": lambda session: session.execute(Entry.__table__.insert().values(id=1)),
            "read": lambda session: session.execute(select(Entry)),
        }

        @self.solid.commit_action
        def write_entry(context: CommitContext, *, how: str) -> None:
            hows[how](context.session)
            context.session.flush()

        @self.solid.actor
        class Entries(Actor):
            @operation
            def write(self, how: str) -> None:
                write_entry.stage(how=how)

        self.Entries: Any = Entries

    @property
    def count(self) -> int:
        self.db.session.rollback()
        return len(self.db.session.execute(select(self.Entry)).all())


@pytest.fixture
def elsewhere(database_url: URL, tmp_path: Path) -> Iterator[BoundApp]:
    """The bind is another database."""
    yield from _ready(database_url, URL.create("sqlite", database=str(tmp_path / "other.sqlite3")))


@pytest.fixture
def same(database_url: URL) -> Iterator[BoundApp]:
    """The bind is the actors' database under another name."""
    yield from _ready(database_url, database_url)


def _ready(url: URL, other: URL) -> Iterator[BoundApp]:
    with BoundApp(url, other).ready(made=True) as app:
        assert isinstance(app, BoundApp)
        app.Entry.__table__.create(app.db.engines["other"])
        try:
            yield app
        finally:
            app.db.session.remove()
            app.Entry.__table__.drop(app.db.engines["other"])


@pytest.mark.parametrize("how", ["orm", "core", "read"])
def test_another_database_is_refused(elsewhere: BoundApp, how: str) -> None:
    """A table of a bind that is another database is CommitActionUnavailable, with the remedy, at the first attempt."""
    with pytest.raises(MessageFailed) as raised:
        elsewhere.Entries.ref("a").write(how=how)
    message = raised.value.details["message"]

    assert raised.value.details["class"] == "CommitActionUnavailable"
    assert "'other'" in message
    assert "SOLID_OBJECTS_BIND_KEY" in message
    assert [letter.attempts for letter in elsewhere.solid.dead_letters.dead_letters()] == [1]
    assert elsewhere.count == 0


@pytest.mark.parametrize("how", ["orm", "core"])
def test_same_database_is_allowed(same: BoundApp, how: str) -> None:
    """A bind that is the same database under another name can commit with the turn."""
    same.Entries.ref("a").write(how=how)

    assert same.count == 1
