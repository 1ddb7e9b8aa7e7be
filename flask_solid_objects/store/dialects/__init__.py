"""What differs between the databases: the answers of SQLite, PostgreSQL and MySQL/MariaDB to one set of questions.

Nothing else in the package names a database.
"""

from __future__ import annotations

import sqlalchemy

from flask_solid_objects.errors import UnsupportedDatabase
from flask_solid_objects.store.dialects.base import Dialect as Dialect
from flask_solid_objects.store.dialects.base import Fault as Fault
from flask_solid_objects.store.dialects.base import Statement as Statement
from flask_solid_objects.store.dialects.mysql import MySQLDialect
from flask_solid_objects.store.dialects.postgresql import PostgreSQLDialect
from flask_solid_objects.store.dialects.sqlite import SQLiteDialect

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
