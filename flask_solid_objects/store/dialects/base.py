"""The questions that the databases answer differently; each has a module of its own beside this one.

Hot and cold statements alike are written once in SQLAlchemy Core, compiled at their first use, and run on the driver's
cursor: measured at 29 us against 184 us per turn for constructs run by SQLAlchemy. Bind processors do not run there, so
times and ids are encoded here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from typing import Any, ClassVar

import sqlalchemy
from sqlalchemy import Column, ColumnElement, Engine, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import Dialect as CoreDialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import Compiled

from flask_solid_objects.errors import UnsupportedDatabase


class Fault(Enum):
    """What a driver's error means for the unit of work in which it happened."""

    CONFLICT = "conflict"  # deadlock, serialisation failure, lock timeout, busy: repeat the whole unit
    DISCONNECTED = "disconnected"  # the connection is gone; before COMMIT nothing was written
    DUPLICATE = "duplicate"
    MISSING_TABLE = "missing table"
    OTHER = "other"


class Statement:
    """One statement: its text for the driver and the values of its constants.

    It is compiled at its first use: all of a store take 50 ms, and a process uses few of them.
    """

    def __init__(self, compiled: Callable[[], Compiled], *, returns_id: bool = False) -> None:
        self._compile = compiled
        self.returns_id = returns_id

    @cached_property
    def text(self) -> str:
        return str(self._compiled)

    @cached_property
    def constants(self) -> dict[str, Any]:
        # A forgotten parameter must fail in the driver, not become NULL, so only true constants are kept.
        named = self._compiled.bind_names.items()
        return {name: bind.effective_value for bind, name in named if not bind.required}

    @cached_property
    def _compiled(self) -> Any:
        return self._compile()


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
        """A statement; ``columns`` become bind parameters of an INSERT or UPDATE under their own names."""
        compiled = partial(construct.compile, dialect=self.core, column_keys=list(columns) or None)  # type: ignore[attr-defined]
        return Statement(compiled, returns_id=returns_id)

    def insert(self, table: Table) -> Any:
        """An INSERT of the database's own kind, to which an upsert can be added."""
        return (postgresql.insert if self.has_writable_cte else sqlite.insert)(table)

    def upsert(self, insert: Any, unique: Sequence[Column[Any]], columns: Sequence[str], also: dict[str, Any]) -> Any:
        """Let an INSERT overwrite ``columns`` of the row that has the same unique columns, and set ``also``."""
        taken = {name: insert.excluded[name] for name in columns}
        return insert.on_conflict_do_update(index_elements=list(unique), set_={**taken, **also})

    def insert_unless_present(self, table: Table, values: dict[str, Any], unique: list[Column[Any]]) -> Executable:
        """Insert a row, or do nothing when the unique columns are taken; SQLite and PostgreSQL share the syntax."""
        inserted: Executable = self.insert(table).values(values).on_conflict_do_nothing(index_elements=unique)
        return inserted

    def encode_time(self, value: datetime | None) -> Any:
        return value

    def decode_time(self, value: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def encode_text(self, value: str | None) -> Any:
        """Encode an actor id or idempotency key, which compare byte for byte."""
        return value

    def decode_text(self, value: Any) -> Any:
        return value

    def encode_decimal(self, value: Decimal) -> Any:
        """Encode an exact number."""
        return value

    def decode_json(self, value: Any) -> Any:
        """A JSON column as text."""
        return value

    def begin(self, cursor: Any, milliseconds: int) -> None:
        """Begin a write; waiting for a lock ends after the given time with a CONFLICT."""

    def join(self, cursor: Any) -> None:
        """Make sure that a transaction of the application is one in which a row that was read stays as it is."""

    def may_be_in_transaction(self, connection: Any) -> bool:
        """False when somebody has ended the transaction of a driver connection.

        MySQL has none after a deadlock either, after which a unit runs again, so that its absence tells nothing there.
        """
        return True

    def limit_statements(self, cursor: Any, seconds: float) -> None:
        """Let each statement of this transaction end after so many seconds with a CONFLICT."""

    def unlimit_statements(self, cursor: Any) -> None:
        """Take the limit back, where it outlives the transaction."""

    def prepare_connection(self, connection: Any) -> None:
        """Set up a new driver connection of the runtime's own engine."""

    def check_server(self, engine: Engine, version: Sequence[int | str]) -> None:
        if leading_numbers(version) < self.minimum:
            wanted = ".".join(map(str, self.minimum))
            raise UnsupportedDatabase(
                f"{self.name} {'.'.join(map(str, version))} is too old; {wanted} or newer is needed."
            )

    def classify(self, error: BaseException) -> Fault:
        raise NotImplementedError

    def is_definite_at_commit(self, error: BaseException) -> bool:
        """True when this error of COMMIT proves that nothing was committed."""
        return self.classify(error) is Fault.CONFLICT


def leading_numbers(version: Sequence[int | str]) -> tuple[int, ...]:
    """The leading numbers of a server's version; MariaDB adds words."""
    return tuple(itertools.takewhile(lambda part: isinstance(part, int), version))  # type: ignore[arg-type]
