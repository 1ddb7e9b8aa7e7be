"""One upgrade at a time: the transaction of an upgrade, under a lock that other upgrades of the same tables wait for.

PostgreSQL and SQLite keep or undo all of it. MySQL and MariaDB commit every CREATE TABLE on its own; there a
table of ours says that an upgrade has begun, so that the next one knows whose half-made tables it sees.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, exc, func, inspect, select

from flask_solid_objects.errors import DatabaseDeadlineExceeded
from flask_solid_objects.store.columns import TABLE_OPTIONS

_WAIT_SECONDS = 60
_RETRY_SECONDS = 0.05


@contextmanager
def exclusive(bind: Engine | Connection, prefix: str) -> Iterator[Connection]:
    """Open a transaction that no other upgrade of this prefix runs beside; it is committed at the end.

    :param bind: an engine, or a connection that is in no transaction.
    :raises DatabaseDeadlineExceeded: another upgrade, or a writer on SQLite, did not finish within a minute.
    """
    if isinstance(bind, Engine):
        with bind.connect() as connection, exclusive(connection, prefix) as locked:
            yield locked
        return
    if bind.in_transaction():
        raise exc.InvalidRequestError("The schema is changed in a transaction of its own; commit or roll back first.")
    begin = {"postgresql": _postgresql, "sqlite": _sqlite}.get(bind.dialect.name, _mysql)
    with begin(bind, prefix):
        yield bind


@contextmanager
def _postgresql(connection: Connection, prefix: str) -> Iterator[None]:
    # The look at the catalogue must be newer than the wait, and the engine's own level may be AUTOCOMMIT.
    connection.execution_options(isolation_level="READ COMMITTED")
    with connection.begin():
        connection.execute(select(func.set_config("lock_timeout", f"{_WAIT_SECONDS}s", True)))
        try:
            # Of the transaction and not of the session, which a transaction pooler may give to others.
            connection.execute(select(func.pg_advisory_xact_lock(_number(prefix))))
        except exc.OperationalError as error:
            raise _too_late("another upgrade holds the lock") from error
        yield


@contextmanager
def _mysql(connection: Connection, prefix: str) -> Iterator[None]:
    connection.execution_options(isolation_level="READ COMMITTED")
    with connection.begin():
        # Names of locks are shared by all databases of a server.
        database = connection.scalar(select(func.database()))
        name = f"solid_objects_{_number(f'{database}.{prefix}'):x}"
        taken = connection.scalar(select(func.get_lock(name, _WAIT_SECONDS)))
    if taken != 1:
        raise _too_late("another upgrade holds the lock")
    try:
        with connection.begin():
            yield
    finally:
        if not connection.invalidated:
            with connection.begin():
                connection.execute(select(func.release_lock(name)))


@contextmanager
def _sqlite(connection: Connection, _prefix: str) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    _patiently(lambda: _write_ahead(driver))
    with connection.begin():
        # A listener of the engine may have begun a transaction that only reads so far, and cannot wait for writers.
        if driver.in_transaction:
            driver.rollback()
        _patiently(lambda: driver.execute("BEGIN IMMEDIATE"))
        yield


def _write_ahead(driver: Any) -> None:
    """Let readers and the writer of a database file go on beside each other; the file remembers it."""
    if driver.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        driver.execute("PRAGMA journal_mode = WAL").fetchone()


def _patiently(step: Callable[[], object]) -> None:
    """Repeat a step while another connection is in the way; SQLite's own wait is switched off by the runtime."""
    limit = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            step()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() >= limit:
                raise _too_late("another connection holds the database") from error
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _too_late(why: str) -> DatabaseDeadlineExceeded:
    return DatabaseDeadlineExceeded(f"The schema was not changed: {why}, and did not finish in {_WAIT_SECONDS} s.")


def _number(name: str) -> int:
    """Return a number of 63 bits that stands for the name; the lock function of PostgreSQL takes no text."""
    return int.from_bytes(hashlib.sha256(f"flask_solid_objects {name}".encode()).digest()[:8]) >> 1


# -- steps that commit themselves --------------------------------------------------------------


def note_begun(connection: Connection, prefix: str) -> None:
    """Leave a mark that a crash in the middle of the steps does not undo."""
    if _commits_each_step(connection):
        _mark(prefix).create(connection, checkfirst=True)


def note_finished(connection: Connection, prefix: str) -> None:
    if _commits_each_step(connection):
        _mark(prefix).drop(connection, checkfirst=True)


def was_interrupted(connection: Connection, prefix: str) -> bool:
    """True when the tables may be half-made by an upgrade or downgrade that crashed, and by nobody else."""
    return _commits_each_step(connection) and inspect(connection).has_table(_mark(prefix).name)


def _commits_each_step(connection: Connection) -> bool:
    return connection.dialect.name in ("mysql", "mariadb")


def _mark(prefix: str) -> Table:
    return Table(f"{prefix}schema_change", MetaData(), Column("id", String(1), primary_key=True), **TABLE_OPTIONS)
