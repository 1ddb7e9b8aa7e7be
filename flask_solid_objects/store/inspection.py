"""What the doctor asks a server: version, storage engine, journal mode, connection limit."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy
from sqlalchemy import Connection

from flask_solid_objects.store.database import Database
from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.schema import SchemaReport, check
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """A server as it answered; ``problems`` are sentences with the remedy."""

    name: str
    version: str
    max_connections: int | None
    problems: tuple[str, ...]


def inspect_server(database: Database, tables: Tables) -> ServerReport:
    """Ask the server; an unsupported version raises as it does at the first use."""
    with database.engine.connect() as connection:
        dialect = connection.dialect
        name = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
        numbers = dialect.server_version_info or ()
        problems: list[str] = []
        limit: int | None = None
        if dialect.name == "sqlite":
            problems += _sqlite_problems(connection, database)
        elif dialect.name == "postgresql":
            limit = int(connection.exec_driver_sql("SHOW max_connections").scalar_one())
        else:
            limit = int(connection.exec_driver_sql("SELECT @@max_connections").scalar_one())
            problems += _engine_problems(connection, tables)
        connection.rollback()
    version = ".".join(str(part) for part in numbers if isinstance(part, int))
    return ServerReport(name=name, version=version, max_connections=limit, problems=tuple(problems))


def inspect_schema(database: Database, prefix: str) -> SchemaReport:
    return check(database.engine, prefix)


def inspect_invariants(
    database: Database, tables: Tables, *, lease_duration: float, roles_running: bool
) -> list[Violation]:
    """Rows that break an invariant of the turn protocol; there must be none, at any time.

    Gaps in the sequences are none: maintenance may have pruned at any time.
    """
    with database.engine.connect() as connection:
        return check_invariants(
            connection, tables, lease_duration=lease_duration, roles_running=roles_running, pruned=True
        )


def _sqlite_problems(connection: Connection, database: Database) -> list[str]:
    problems = []
    mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
    if mode != "wal" and not database.is_memory:
        problems.append(f"The journal mode is {mode}, so that readers block writers: run `flask solid upgrade`.")
    if connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() != 1:
        problems.append("Foreign keys are off on our connections: remove what turns them off from the engine options.")
    return problems


def _engine_problems(connection: Connection, tables: Tables) -> list[str]:
    """Only InnoDB has the row locks and foreign keys that the promises rest on."""
    names = [table.name for table in tables.all]
    found = connection.execute(
        sqlalchemy.text(
            "SELECT table_name, engine FROM information_schema.tables "
            "WHERE table_schema = DATABASE() AND table_name IN :names"
        ).bindparams(sqlalchemy.bindparam("names", expanding=True)),
        {"names": names},
    )
    return [
        f"The table {name} uses {engine}, not InnoDB: ALTER TABLE {name} ENGINE=InnoDB."
        for name, engine in found
        if str(engine).lower() != "innodb"
    ]
