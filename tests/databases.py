"""Which databases the tests run on, and a scratch database of each per test process, emptied before every test.

SQLite is always there. The servers come from the environment, or from their default address when somebody listens
there; with SOLID_REQUIRE_DATABASES=1 an absent one is a failure. Nothing but databases named solid_test_* is touched.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import sqlalchemy
from sqlalchemy import URL, Connection, Engine, MetaData, NullPool, make_url
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from flask_solid_objects.store.tables import Tables, build_tables

DEFAULT_URLS = {
    "postgresql": "postgresql+psycopg://postgres@127.0.0.1:5432/postgres",
    # PyMySQL reads all certificates of the system for every connection, 30 ms of a core, unless it is told not to.
    "mysql": "mysql+pymysql://root@127.0.0.1:3306/test?ssl_disabled=1",
}
_TABLES = {"postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'", "mysql": "SHOW TABLES"}
_LIST = {"postgresql": "SELECT datname FROM pg_database", "mysql": "SHOW DATABASES"}
_LOCK_SECONDS = 5
_OLD_SECONDS = 24 * 60 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """The servers that are there, and why each of the others is not."""

    servers: Mapping[str, URL]
    absent: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        return ["sqlite", *self.servers]

    def __str__(self) -> str:
        used = ["sqlite", *(f"{name} ({url})" for name, url in self.servers.items())]
        return ", ".join(used + [f"no {name} ({reason})" for name, reason in self.absent.items()])


def find_available(environment: Mapping[str, str] = os.environ) -> Available:
    """Look for the servers; one that is named in the environment must answer.

    :raises LookupError: a server that was named, or is required, is absent.
    """
    servers, absent = {}, {}
    for name, default in DEFAULT_URLS.items():
        variable = f"SOLID_TEST_{name.upper()}_URL"
        given = environment.get(variable)
        url = make_url(given or default)
        reason = _why_absent(url)
        if reason is None:
            servers[name] = url
        elif given or environment.get("SOLID_REQUIRE_DATABASES") == "1":
            raise LookupError(f"{name} does not answer at {url} ({variable}): {reason}")
        else:
            absent[name] = reason
    return Available(servers=servers, absent=absent)


def make_scratch(name: str, available: Available, directory: Path) -> Scratch:
    return FileScratch(directory) if name == "sqlite" else ServerScratch(name, available.servers[name])


def _why_absent(url: URL) -> str | None:
    try:
        engine = sqlalchemy.create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 2})
        engine.connect().close()
    except (SQLAlchemyError, ImportError) as error:
        return str(getattr(error, "orig", error)).strip().partition("\n")[0]
    return None


class Scratch(Protocol):
    """One database of this test process, whose tables come from the metadata."""

    name: str

    def fresh(self) -> URL:
        """Give the database with our tables, without a row, and without any other table."""
        ...

    def blank(self) -> URL:
        """Give the database without any table."""
        ...

    def open_connections(self) -> list[str]:
        """Describe every connection to what was given last."""
        ...

    def drop(self) -> None:
        """Remove it at the end of the run."""


class FileScratch:
    """SQLite: every test gets a file of its own, copied from one that was made once."""

    name = "sqlite"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._template = directory / "template.sqlite3"
        self._given: Path | None = None
        self._number = 0

    def fresh(self) -> URL:
        if not self._template.exists():
            self._make_template()
        self._given = self._next_path()
        shutil.copyfile(self._template, self._given)
        return URL.create("sqlite", database=str(self._given))

    def blank(self) -> URL:
        self._given = self._next_path()
        return URL.create("sqlite", database=str(self._given))

    def open_connections(self) -> list[str]:
        """Look at the open files of this process, where the system shows them."""
        shown = Path("/proc/self/fd")
        if self._given is None or not shown.is_dir():
            return []
        opened = [os.readlink(link) for link in shown.iterdir() if link.is_symlink()]
        return [f"open file {path}" for path in opened if path.removesuffix(" (deleted)") == str(self._given)]

    def drop(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def _next_path(self) -> Path:
        if self._given is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._given}{suffix}").unlink(missing_ok=True)
        self._number += 1
        return self._directory / f"test_{self._number}.sqlite3"

    def _make_template(self) -> None:
        engine = sqlalchemy.create_engine(URL.create("sqlite", database=str(self._template)), poolclass=NullPool)
        with engine.connect() as connection:
            # The mode is kept in the file; closing the last connection leaves no log beside it.
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            _create_tables(connection, build_tables(MetaData()))
            connection.commit()


class ServerScratch:
    """A database on a server, with one connection of our own to it; made at first use, emptied in between."""

    def __init__(self, name: str, server: URL) -> None:
        self.name = name
        self._server = server
        self._tables = build_tables(MetaData())
        self._engine: Engine | None = None

    def fresh(self) -> URL:
        with self._opened() as connection:
            names, ours = self._names(connection), {table.name for table in self._tables.all}
            if ours <= names:
                _drop_tables(connection, names - ours)
                self._empty(connection)
            else:
                _drop_tables(connection, names)
                _create_tables(connection, self._tables)
            return connection.engine.url

    def blank(self) -> URL:
        with self._opened() as connection:
            _drop_tables(connection, self._names(connection))
            return connection.engine.url

    def open_connections(self) -> list[str]:
        if self._engine is None:
            return []
        query = {
            "postgresql": "SELECT pid, application_name, state, left(query, 200) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
            "mysql": "SELECT id, host, coalesce(t.trx_state, command), left(coalesce(info, ''), 200)"
            " FROM information_schema.processlist LEFT JOIN information_schema.innodb_trx t"
            " ON t.trx_mysql_thread_id = id WHERE db = database() AND id <> connection_id()",
        }[self.name]
        with self._opened() as connection:
            return [" ".join(map(str, row)) for row in connection.exec_driver_sql(query)]

    def drop(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            with _on_server(self._server) as connection:
                _drop_database(connection, str(self._engine.url.database))

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        if self._engine is None:
            # A test may have cut every connection to its database.
            self._engine = sqlalchemy.create_engine(self._create(), pool_size=1, max_overflow=0, pool_pre_ping=True)
        with self._engine.begin() as connection:
            _limit_waiting(connection)
            yield connection

    def _names(self, connection: Connection) -> set[str]:
        return set(connection.exec_driver_sql(_TABLES[self.name]).scalars())

    def _empty(self, connection: Connection) -> None:
        """Delete what there is; most tests use few of the tables."""
        looks = [f"SELECT '{table.name}' FROM {table.name} LIMIT 1" for table in self._tables.all]
        filled = set(connection.exec_driver_sql(" UNION ALL ".join(f"({look})" for look in looks)).scalars())
        for table in reversed(self._tables.all):
            if table.name in filled:
                connection.exec_driver_sql(f"DELETE FROM {table.name}")

    def _create(self) -> URL:
        name = f"solid_test_{int(time.time())}_{os.getpid()}_{_this_host()}"
        with _on_server(self._server) as connection:
            for stale in filter(_is_stale, connection.exec_driver_sql(_LIST[self.name]).scalars().all()):
                # A session of the dead run may still hold it; the next run tries again.
                with suppress(OperationalError):
                    _drop_database(connection, stale)
            if connection.dialect.name == "postgresql":
                # Another template may be in use by others at the same time.
                connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
                # A test may kill a client but never the server.
                connection.exec_driver_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
            else:
                connection.exec_driver_sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return self._server.set(database=name)


def _create_tables(connection: Connection, tables: Tables) -> None:
    tables.instances.metadata.create_all(connection, tables=tables.all, checkfirst=False)


def _drop_tables(connection: Connection, names: set[str]) -> None:
    if not names:
        return
    listed = ", ".join(map(connection.dialect.identifier_preparer.quote_identifier, names))
    if connection.dialect.name != "postgresql":
        connection.exec_driver_sql("SET SESSION foreign_key_checks = 0")
    connection.exec_driver_sql(f"DROP TABLE {listed} CASCADE")


def _limit_waiting(connection: Connection) -> None:
    """A test that left a lock behind must fail the next one, not hang it."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
    else:
        connection.exec_driver_sql(f"SET SESSION innodb_lock_wait_timeout = {_LOCK_SECONDS}")
        connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")


@contextmanager
def _on_server(server: URL) -> Iterator[Connection]:
    engine = sqlalchemy.create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with closing(engine.connect()) as connection:
        if connection.dialect.name != "postgresql":
            # Dropping waits, for a day by default, for whoever still reads a table.
            connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        yield connection


def _drop_database(connection: Connection, name: str) -> None:
    force = " WITH (FORCE)" if connection.dialect.name == "postgresql" else ""
    connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}{force}")


def _this_host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _is_stale(name: str) -> bool:
    """A run that ended without cleaning up: its process is gone, or, on another host, it is a day old."""
    found = re.fullmatch(r"solid_test_(\d+)_(\d+)_([0-9a-f]{8})", name)
    if found is None:
        return False
    made, pid, host = found.groups()
    return not _is_alive(int(pid)) if host == _this_host() else int(made) < time.time() - _OLD_SECONDS


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
