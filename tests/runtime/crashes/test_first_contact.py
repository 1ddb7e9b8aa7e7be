"""The first look of a process at a database that somebody else holds, as while a file recovers from a kill."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import URL

from flask_solid_objects.errors import CallEnqueueTimeout
from flask_solid_objects.seams import Clock, Seams
from tests import requires
from tests.runtime.conftest import MakeRuntime

pytestmark = requires.database_file


class ThirdPauseFrees(Clock):
    """Lets the database go at the third repetition, which no other event tells about."""

    def __init__(self, holder: sqlite3.Connection) -> None:
        self._holder = holder
        self.pauses = 0

    def pause(self, seconds: float) -> None:
        self.pauses += 1
        if self.pauses == 3:
            self._holder.close()


@pytest.fixture
def watched() -> None:
    """In place of the checker of this folder: nobody can read a file that is held."""


@pytest.fixture
def holder(database_url: URL) -> Iterator[sqlite3.Connection]:
    """A connection that keeps all others out of the file, also from reading."""
    with closing(sqlite3.connect(str(database_url.database), isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
        yield connection


def test_busy_file_is_waited_for(make_runtime: MakeRuntime, holder: sqlite3.Connection) -> None:
    """A process that starts while the file is held repeats its first unit until it is free; no error surfaces."""
    clock = ThirdPauseFrees(holder)
    rt = make_runtime(seams=Seams(clock=clock))

    assert rt.journal("a").add(entry="x") == 1
    assert clock.pauses == 3


def test_busy_file_ends_at_the_deadline(make_runtime: MakeRuntime, holder: sqlite3.Connection) -> None:
    """A file that stays held costs a call its timeout, and nothing of it is stored."""
    rt = make_runtime()
    with pytest.raises(CallEnqueueTimeout):
        rt.journal("a").add.using(timeout=0.1)(entry="x")
    holder.close()

    assert rt.runtime.operators.actors() == []
