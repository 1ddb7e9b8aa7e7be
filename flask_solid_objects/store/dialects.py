"""What differs between the databases: the answers of SQLite, PostgreSQL and MySQL/MariaDB to one set of questions.

Nothing else in the package names a database. Hot and cold statements alike are written once in SQLAlchemy
Core, compiled once per dialect, and run on the driver's cursor: measured at 29 us against 184 us per turn for
constructs run by SQLAlchemy. Bind processors do not run there, so times and ids are encoded here.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar

import sqlalchemy
from sqlalchemy import Column, ColumnElement, Engine, Table, func, literal_column
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine.interfaces import Dialect as CoreDialect
from sqlalchemy.sql.base import Executable

from flask_solid_objects.errors import UnsupportedDatabase


class Fault(Enum):
    """What a driver's error means for the unit of work in which it happened."""

    CONFLICT = "conflict"  # deadlock, serialisation failure, lock timeout, busy: repeat the whole unit
    DISCONNECTED = "disconnected"  # the connection is gone; before COMMIT nothing was written
    DUPLICATE = "duplicate"
    MISSING_TABLE = "missing table"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Statement:
    """One compiled statement: its text for the driver and the values of its constants."""

    text: str
    constants: dict[str, Any]
    returns_id: bool = False


class Dialect:
    """The questions; each database is a subclass. Times are UTC."""

    name: ClassVar[str]
    minimum: ClassVar[tuple[int, ...]]
    # One statement may insert, update and delete in several tables and return rows (writable CTE).
    has_writable_cte: ClassVar[bool] = False
    # Only one connection at a time may write, so writers of one process queue before they ask.
    single_writer: ClassVar[bool] = False
    # Seconds between two tries of a unit, at most.
    longest_pause: ClassVar[float] = 0.1
    # What the engine asks for, where the server's default must not decide; the driver sends it with BEGIN.
    isolation_level: ClassVar[str | None] = None
    # How processes can learn of each other's commits.
    can_notify: ClassVar[bool] = False
    # A plain read of an application's transaction may show rows as they were before a lock was granted.
    reads_old_rows: ClassVar[bool] = False
    has_data_version: ClassVar[bool] = False
    now: ColumnElement[Any]
    core: CoreDialect

    def __init__(self) -> None:
        self.now_text = str(sqlalchemy.select(self.now).compile(dialect=self.core))

    def compile(self, construct: Executable, *columns: str, returns_id: bool = False) -> Statement:
        """Compile once; ``columns`` become bind parameters of an INSERT or UPDATE under their own names."""
        compiled = construct.compile(dialect=self.core, column_keys=list(columns) or None)  # type: ignore[attr-defined]
        # A forgotten parameter must fail in the driver, not become NULL, so only true constants are kept.
        constants = {name: bind.effective_value for bind, name in compiled.bind_names.items() if not bind.required}
        return Statement(str(compiled), constants, returns_id)

    def insert_unless_present(self, table: Table, values: dict[str, Any], unique: list[Column[Any]]) -> Executable:
        """Insert a row, or do nothing when the unique columns are taken; SQLite and PostgreSQL share the syntax."""
        insert = postgresql.insert if self.has_writable_cte else sqlite.insert
        return insert(table).values(values).on_conflict_do_nothing(index_elements=unique)

    def encode_time(self, value: datetime | None) -> Any:
        return value

    def decode_time(self, value: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def encode_text(self, value: str | None) -> Any:
        """Encode an actor id or idempotency key, which compare byte for byte."""
        return value

    def decode_text(self, value: Any) -> Any:
        return value

    def decode_json(self, value: Any) -> Any:
        """A JSON column as text."""
        return value

    def begin(self, cursor: Any, milliseconds: int) -> None:
        """Begin a write; waiting for a lock ends after the given time with a CONFLICT."""

    def join(self, cursor: Any) -> None:
        """Make sure that a transaction of the application is one in which a row that was read stays as it is."""

    def prepare_connection(self, connection: Any) -> None:
        """Set up a new driver connection of the runtime's own engine."""

    def check_server(self, engine: Engine, version: Sequence[int | str]) -> None:
        if _numbers(version) < self.minimum:
            wanted = ".".join(map(str, self.minimum))
            raise UnsupportedDatabase(
                f"{self.name} {'.'.join(map(str, version))} is too old; {wanted} or newer is needed."
            )

    def classify(self, error: BaseException) -> Fault:
        raise NotImplementedError

    def is_definite_at_commit(self, error: BaseException) -> bool:
        """True when this error of COMMIT proves that nothing was committed."""
        return self.classify(error) is Fault.CONFLICT


class SQLiteDialect(Dialect):
    """SQLite in WAL mode: one writer per file, text times with milliseconds padded to six digits."""

    name = "sqlite"
    minimum = (3, 35)
    single_writer = True
    # A busy file has no queue: who looks seldom starves while another process writes all the time.
    longest_pause = 0.01
    has_data_version = True
    now = literal_column("strftime('%Y-%m-%d %H:%M:%f000','now')")
    core = SQLiteDialect_pysqlite(paramstyle="named")

    def encode_time(self, value: datetime | None) -> Any:
        return None if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

    def decode_time(self, value: Any) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value).replace(tzinfo=UTC)

    def decode_json(self, value: Any) -> Any:
        # A column of type JSON has numeric affinity here: a result that is one number comes back as a number.
        return repr(value) if isinstance(value, int | float) else value

    def begin(self, cursor: Any, milliseconds: int) -> None:
        # A deferred transaction that upgrades to a write fails at once instead of waiting.
        cursor.execute("BEGIN IMMEDIATE")

    def join(self, cursor: Any) -> None:
        # The driver begins only at the first write; until then nothing that was read is protected.
        if not cursor.connection.in_transaction:
            cursor.execute("BEGIN IMMEDIATE")

    def prepare_connection(self, connection: Any) -> None:
        connection.isolation_level = None
        # The wait is ours (Database), with jitter and the caller's deadline; SQLite's own is unfair.
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA foreign_keys = ON")

    def classify(self, error: BaseException) -> Fault:
        if not isinstance(error, sqlite3.Error):
            return Fault.OTHER
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Fault.CONFLICT
        if isinstance(error, sqlite3.IntegrityError):
            return Fault.DUPLICATE
        if "no such table" in str(error):
            return Fault.MISSING_TABLE
        return Fault.OTHER


class PostgreSQLDialect(Dialect):
    """PostgreSQL through psycopg 3: writable CTEs, wall-clock time of the server."""

    name = "postgresql"
    minimum = (14,)
    has_writable_cte = True
    can_notify = True
    isolation_level = "READ COMMITTED"
    now = func.clock_timestamp(type_=sqlalchemy.DateTime(timezone=True))
    core = PGDialect_psycopg()  # type: ignore[no-untyped-call]

    def begin(self, cursor: Any, milliseconds: int) -> None:
        # Local to the transaction: nothing stays behind on a connection of a transaction pooler.
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", (f"{milliseconds}ms",))

    def prepare_connection(self, connection: Any) -> None:
        # JSON stays text, as on the other databases; the typed decoding is ours. A client-side setting.
        from psycopg.types.string import TextLoader  # noqa: PLC0415 - an optional driver

        connection.adapters.register_loader("jsonb", TextLoader)
        connection.adapters.register_loader("json", TextLoader)

    def is_definite_at_commit(self, error: BaseException) -> bool:
        # What the server says in answer to COMMIT, such as a deferred constraint, means that it rolled back.
        return getattr(error, "sqlstate", None) is not None and self.classify(error) is not Fault.DISCONNECTED

    def classify(self, error: BaseException) -> Fault:
        state = getattr(error, "sqlstate", None)
        if state in ("40001", "40P01", "55P03", "57014"):
            return Fault.CONFLICT
        if state in _ENDED_BY_POSTGRESQL or (state is not None and state.startswith("08")):
            return Fault.DISCONNECTED
        if state is None and type(error).__name__ in ("OperationalError", "InterfaceError"):
            # libpq gives no state for what the server did not say: refused, reset, closed.
            return Fault.DISCONNECTED
        if state == "23505":
            return Fault.DUPLICATE
        if state == "42P01":
            return Fault.MISSING_TABLE
        return Fault.OTHER


class MySQLDialect(Dialect):
    """MySQL 8 and MariaDB 10.6 through PyMySQL: lock first, compute in Python, assign literals."""

    name = "mysql"
    minimum = (8, 0)
    reads_old_rows = True
    minimum_mariadb: ClassVar[tuple[int, ...]] = (10, 6)
    now = literal_column("UTC_TIMESTAMP(6)")
    core = MySQLDialect_pymysql(paramstyle="pyformat")

    def insert_unless_present(self, table: Table, values: dict[str, Any], unique: list[Column[Any]]) -> Executable:
        # INSERT IGNORE would also swallow bad values; this changes nothing in the row that is there.
        first = unique[0].name
        return mysql.insert(table).values(values).on_duplicate_key_update({first: table.c[first]})

    def encode_time(self, value: datetime | None) -> Any:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def decode_time(self, value: Any) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)

    def encode_text(self, value: str | None) -> Any:
        return None if value is None else value.encode()

    def decode_text(self, value: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else value

    def begin(self, cursor: Any, milliseconds: int) -> None:
        # Repeatable read would decide from a snapshot older than the lock, and take gap locks.
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def prepare_connection(self, connection: Any) -> None:
        # The same for all connections of ours. Longer waits repeat the unit until the caller's deadline.
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")

    def check_server(self, engine: Engine, version: Sequence[int | str]) -> None:
        minimum = self.minimum_mariadb if getattr(engine.dialect, "is_mariadb", False) else self.minimum
        if _numbers(version) < minimum:
            wanted = ".".join(map(str, minimum))
            raise UnsupportedDatabase(
                f"This MySQL or MariaDB server ({'.'.join(map(str, version))}) is too old; {wanted} or newer is needed."
            )

    def classify(self, error: BaseException) -> Fault:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        if code in (1205, 1213, 3572, 3024, 1020):
            return Fault.CONFLICT
        if code in (2006, 2013, 2014, 2055, 1053, 1927, 0):
            return Fault.DISCONNECTED
        if code == 1062:
            return Fault.DUPLICATE
        if code == 1146:
            return Fault.MISSING_TABLE
        return Fault.OTHER


# Shutdown, crash, starting up, and the server's limits for sessions and transactions that idle or last too long.
_ENDED_BY_POSTGRESQL = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")


def _numbers(version: Sequence[int | str]) -> tuple[int, ...]:
    """The leading numbers of a server's version; MariaDB adds words."""
    return tuple(itertools.takewhile(lambda part: isinstance(part, int), version))  # type: ignore[arg-type]


_DIALECTS: dict[str, type[Dialect]] = {
    "sqlite": SQLiteDialect,
    "postgresql": PostgreSQLDialect,
    "mysql": MySQLDialect,
    "mariadb": MySQLDialect,
}
_DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg", "mysql": "pymysql", "mariadb": "pymysql"}


def dialect_for(url: sqlalchemy.URL) -> Dialect:
    """Choose by the backend name of a database URL.

    :raises UnsupportedDatabase: another database or driver, with the URL scheme to use.
    """
    backend = url.get_backend_name()
    if backend not in _DIALECTS:
        raise UnsupportedDatabase(f"{backend} is not supported; use SQLite, PostgreSQL, MySQL or MariaDB.")
    driver = url.get_driver_name()
    if driver != _DRIVERS[backend]:
        raise UnsupportedDatabase(
            f"The driver {driver} is not supported for {backend}; use a URL that begins {backend}+{_DRIVERS[backend]}://."
        )
    return _DIALECTS[backend]()
