"""Reads for somebody who looks: a statement that takes longer is ended, and the connection keeps no limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL

from flask_solid_objects.errors import DatabaseDeadlineExceeded
from flask_solid_objects.seams import Seams
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.transaction import Transaction

_LIMIT = 0.3
# Far above the limit and below what a test may take, on a machine that has other work.
_PATIENCE = 10.0
_SLOW = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "postgresql": "SELECT pg_sleep(60)",
    "mysql": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000),"
    " m(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM m WHERE i < 4000)"
    " SELECT max(a.i * b.i * c.i) FROM n a, m b, n c",
}
_LIMITS = {
    "postgresql": "SELECT current_setting('statement_timeout')",
    "mysql": "SELECT @@SESSION.max_statement_time",
}


@pytest.fixture
def narrow(database_url: URL) -> Iterator[Database]:
    """A database with one connection only, so that the next read gets the one that was limited."""
    made = Database(database_url, settings=Settings(pool_size=1, max_overflow=0), seams=Seams())
    yield made
    made.dispose()


def run(tx: Transaction, statement: str) -> Any:
    tx._cursor.execute(statement)
    return tx._cursor.fetchone()[0]


def limit_of(database: Database) -> Any:
    name = database.dialect.name
    name = "mysql" if name == "mariadb" else name
    return None if name == "sqlite" else database.read(lambda tx: run(tx, _LIMITS[name]))


def slow(database: Database) -> str:
    return _SLOW["mysql" if database.dialect.name == "mariadb" else database.dialect.name]


def test_slow_statements_end(narrow: Database) -> None:
    """A statement that would take a minute ends soon after the limit, as an error of ours."""
    before = limit_of(narrow)
    started = time.monotonic()
    with pytest.raises(DatabaseDeadlineExceeded) as caught:
        narrow.read_within(_LIMIT, lambda tx: run(tx, slow(narrow)))
    took = time.monotonic() - started

    assert caught.value.__cause__ is not None
    assert _LIMIT * 0.9 <= took < _PATIENCE
    assert limit_of(narrow) == before
    assert narrow.read(lambda tx: run(tx, "SELECT 7")) == 7


def test_the_limit_holds_only_inside(narrow: Database) -> None:
    """Within a read each statement is limited; after it, done or failed, none is."""
    before = limit_of(narrow)
    name = "mysql" if narrow.dialect.name == "mariadb" else narrow.dialect.name
    if name != "sqlite":
        inside = narrow.read_within(1.5, lambda tx: run(tx, _LIMITS[name]))
        assert str(inside).startswith(("1.5", "1500"))
    assert narrow.read_within(_LIMIT, lambda tx: run(tx, "SELECT 7")) == 7
    assert limit_of(narrow) == before
    with pytest.raises(ZeroDivisionError):
        narrow.read_within(_LIMIT, lambda tx: 1 / 0)
    assert limit_of(narrow) == before


def test_work_after_the_limit(narrow: Database) -> None:
    """A connection that was limited a moment ago runs what takes longer than the limit."""
    narrow.read_within(0.05, lambda tx: run(tx, "SELECT 1"))
    long = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000)"
        " SELECT max(i) FROM n",
        "postgresql": "SELECT count(*) FROM generate_series(1, 3) s, pg_sleep(0.1)",
        "mysql": "SELECT SLEEP(0.2)",
    }["mysql" if narrow.dialect.name == "mariadb" else narrow.dialect.name]
    started = time.monotonic()
    found = narrow.read(lambda tx: run(tx, long))
    took = time.monotonic() - started

    assert (found in (0, 3, 2_000_000), took > 0.05) == (True, True)
