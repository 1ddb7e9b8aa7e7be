"""What SQLite answers."""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import literal_column
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from flask_solid_objects.store.dialects.base import Dialect, Fault

# Of the database's machine, between two looks at the clock: about a millisecond.
_STEPS_BETWEEN_LOOKS = 20_000


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

    def encode_decimal(self, value: Decimal) -> Any:
        # The driver takes no Decimal; a column of affinity NUMERIC makes a number of the text.
        return str(value)

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

    def may_be_in_transaction(self, connection: Any) -> bool:
        return bool(connection.in_transaction)

    def limit_statements(self, cursor: Any, seconds: float) -> None:
        until = time.monotonic() + seconds
        cursor.connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS_BETWEEN_LOOKS)

    def unlimit_statements(self, cursor: Any) -> None:
        cursor.connection.set_progress_handler(None, 0)

    def prepare_connection(self, connection: Any) -> None:
        connection.isolation_level = None
        # The wait is ours (Database), with jitter and the caller's deadline; SQLite's own is unfair.
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA foreign_keys = ON")

    def is_definite_at_commit(self, error: BaseException) -> bool:
        # A deferred foreign key.
        return isinstance(error, sqlite3.IntegrityError) or super().is_definite_at_commit(error)

    def classify(self, error: BaseException) -> Fault:
        if not isinstance(error, sqlite3.Error):
            return Fault.OTHER
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT):
            return Fault.CONFLICT
        if isinstance(error, sqlite3.IntegrityError):
            return Fault.DUPLICATE
        if "no such table" in str(error):
            return Fault.MISSING_TABLE
        return Fault.OTHER
