"""What MySQL and MariaDB answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import Column, Engine, Table, literal_column
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.sql.base import Executable

from flask_solid_objects.errors import UnsupportedDatabase
from flask_solid_objects.store.dialects.base import Dialect, Fault, leading_numbers


class MySQLDialect(Dialect):
    """MySQL 8 and MariaDB 10.6 through PyMySQL: lock first, compute in Python, assign literals."""

    name = "mysql"
    minimum = (8, 0)
    reads_old_rows = True
    minimum_mariadb: ClassVar[tuple[int, ...]] = (10, 6)
    now = literal_column("UTC_TIMESTAMP(6)")
    core = MySQLDialect_pymysql(paramstyle="pyformat")

    def insert(self, table: Table) -> Any:
        return mysql.insert(table)

    def upsert(self, insert: Any, unique: Sequence[Column[Any]], columns: Sequence[str], also: dict[str, Any]) -> Any:
        return insert.on_duplicate_key_update({**{name: insert.inserted[name] for name in columns}, **also})

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

    def limit_statements(self, cursor: Any, seconds: float) -> None:
        # Each server reads its own of the two comments; what stands before them changes nothing.
        cursor.execute(
            "SET SESSION wait_timeout = @@SESSION.wait_timeout"
            f" /*M!100101 , SESSION max_statement_time = {seconds:.3f} */"
            f" /*!50708 , SESSION max_execution_time = {int(seconds * 1000)} */"
        )

    def unlimit_statements(self, cursor: Any) -> None:
        self.limit_statements(cursor, 0)

    def prepare_connection(self, connection: Any) -> None:
        # The same for all connections of ours. Longer waits repeat the unit until the caller's deadline.
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")

    def check_server(self, engine: Engine, version: Sequence[int | str]) -> None:
        minimum = self.minimum_mariadb if getattr(engine.dialect, "is_mariadb", False) else self.minimum
        if leading_numbers(version) < minimum:
            wanted = ".".join(map(str, minimum))
            raise UnsupportedDatabase(
                f"This MySQL or MariaDB server ({'.'.join(map(str, version))}) is too old; {wanted} or newer is needed."
            )

    def classify(self, error: BaseException) -> Fault:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else None
        if code in (1205, 1213, 3572, 3024, 1969, 1020):
            return Fault.CONFLICT
        if code in (2006, 2013, 2014, 2055, 1053, 1927, 0):
            return Fault.DISCONNECTED
        if code == 1062:
            return Fault.DUPLICATE
        if code == 1146:
            return Fault.MISSING_TABLE
        return Fault.OTHER
