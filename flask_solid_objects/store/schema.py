"""Making, removing and checking the tables: `flask solid upgrade`, `downgrade` and the check of every start.

Promises: tables that the application made itself are adopted when they are right and never touched when they are
not; two upgrades at once do the work once; a crash leaves nothing (PostgreSQL, SQLite) or something that the next
upgrade completes (MySQL, MariaDB).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, delete, insert, inspect, select

from flask_solid_objects.assets import MIGRATIONS
from flask_solid_objects.errors import InvalidSchema
from flask_solid_objects.store.columns import DEFAULT_PREFIX
from flask_solid_objects.store.schema_lock import exclusive, note_begun, note_finished, was_interrupted
from flask_solid_objects.store.schema_shape import compare
from flask_solid_objects.store.tables import Tables, build_tables

# Alembic keeps the running migration in module globals, so that threads of one process take turns. Taken before
# the lock of the database: in the other order two threads could each hold what the other waits for.
_alembic = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """What is in the database, beside what this version needs.

    ``revision`` is None when the application's own migrations keep the tables.
    """

    missing_tables: tuple[str, ...]
    differences: tuple[str, ...]
    revision: str | None
    head: str

    @property
    def ok(self) -> bool:
        """True when the tables can be used, however they came about."""
        return not self.missing_tables and not self.differences

    @property
    def problems(self) -> tuple[str, ...]:
        """Missing tables and differences alike, as sentences."""
        return (*(f"{table} is missing" for table in self.missing_tables), *self.differences)


def check(bind: Engine | Connection, prefix: str = DEFAULT_PREFIX) -> SchemaReport:
    """Compare the tables with what this version needs, without changing anything."""
    if isinstance(bind, Engine):
        with bind.connect() as connection:
            return check(connection, prefix)
    tables = build_tables(MetaData(), prefix)
    shape = compare(bind, [table for table in tables.all if table is not tables.version])
    return SchemaReport(
        missing_tables=shape.missing_tables,
        differences=shape.differences,
        revision=_revision(bind, tables),
        head=ScriptDirectory(str(MIGRATIONS)).get_heads()[0],
    )


def upgrade(bind: Engine | Connection, prefix: str = DEFAULT_PREFIX, revision: str = "heads") -> None:
    """Make the tables or bring them up to date, or adopt them when they are right already.

    :param bind: an engine, or a connection that is in no transaction.
    :raises InvalidSchema: tables of these names exist in another shape; nothing was changed.
    """
    with _alembic, exclusive(bind, prefix) as connection:
        tables = build_tables(MetaData(), prefix)
        report = check(connection, prefix)
        if report.ok:
            _adopt(connection, tables, report)
        else:
            if _starts_over(connection, prefix, tables, report):
                _record(connection, tables, None)
            note_begun(connection, prefix)
            _migrate(connection, prefix, command.upgrade, revision)
            _verify(connection, prefix)
        note_finished(connection, prefix)


def downgrade(bind: Engine | Connection, prefix: str = DEFAULT_PREFIX, revision: str = "base") -> None:
    """Drop what the migrations made, with all data in it; tables that no upgrade made or adopted stay."""
    with _alembic, exclusive(bind, prefix) as connection:
        tables = build_tables(MetaData(), prefix)
        if _revision(connection, tables) is not None:
            note_begun(connection, prefix)
            _migrate(connection, prefix, command.downgrade, revision)
            note_finished(connection, prefix)


def _adopt(connection: Connection, tables: Tables, report: SchemaReport) -> None:
    # A newer release may have been here, and will want to go on from its own version.
    if report.revision is None or report.revision in _known_revisions():
        _record(connection, tables, report.head)


def _starts_over(connection: Connection, prefix: str, tables: Tables, report: SchemaReport) -> bool:
    """Choose between the first migration and the next one, and refuse tables of unknown origin."""
    if len(report.missing_tables) == len(tables.all) - 1:
        return True
    if report.revision not in (None, report.head, *_known_revisions()):
        newer = f"{tables.version.name} says {report.revision}, which this release does not know: a newer one was here"
        raise InvalidSchema([*report.problems, newer])
    if was_interrupted(connection, prefix):
        # What a crashed change left is completed from the start, since every step skips what is there already.
        return True
    if report.revision in (None, report.head):
        raise InvalidSchema(report.problems)
    return False


def _verify(connection: Connection, prefix: str) -> None:
    report = check(connection, prefix)
    if report.revision == report.head and not report.ok:
        raise InvalidSchema(report.problems)


def _revision(connection: Connection, tables: Tables) -> str | None:
    if not inspect(connection).has_table(tables.version.name):
        return None
    return connection.scalar(select(tables.version.c.version_num))


def _record(connection: Connection, tables: Tables, revision: str | None) -> None:
    # Made here and not by Alembic, so that it is the table that the application's metadata describes.
    tables.version.create(connection, checkfirst=True)
    connection.execute(delete(tables.version))
    if revision is not None:
        connection.execute(insert(tables.version).values(version_num=revision))


def _known_revisions() -> set[str]:
    return {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}


def _migrate(connection: Connection, prefix: str, act: Callable[[Config, str], None], revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes.update({"connection": connection, "solid_objects_prefix": prefix})
    act(config, revision)
