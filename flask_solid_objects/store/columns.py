"""The column types, defaults and names that the tables share.

Only SQLAlchemy's own types with variants are used: a custom type would have to be importable by every
migration that an application generates from these tables.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    DateTime,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    and_,
    column,
    or_,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import conv
from sqlalchemy.types import TypeEngine

DEFAULT_PREFIX = "solid_objects_"

# Every index and constraint name must stay within PostgreSQL's 63 characters whatever the prefix is.
_LONGEST_PREFIX_IN_A_NAME = 24

# Passed to every table. The engine gives foreign keys and row locks; the collation makes statuses, names and
# ids compare by their bytes, which the server's default does not. The two spellings are one database: which
# one SQLAlchemy reads depends on how the URL begins.
TABLE_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}
# A deleted row's number is never given out again: the id of an instance is its incarnation.
NUMBERED_TABLE_OPTIONS: dict[str, Any] = {**TABLE_OPTIONS, "sqlite_autoincrement": True}


# -- types -------------------------------------------------------------------------------------


def timestamp_type() -> TypeEngine[datetime]:
    """Return UTC with microseconds; MySQL would cut a plain DATETIME to seconds."""
    return DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def json_type() -> TypeEngine[Any]:
    """Return JSON in which None is NULL, so that "nothing stored" is one test in SQL and not two.

    MariaDB's JSON is text with a check that refuses more than 31 levels, where 100 are promised; so there, and on
    MySQL for the same form on both, it is plain text.
    """
    jsonb = JSONB(none_as_null=True)
    # Its repr goes into the migration that an application generates; with the default it says "Text()" there,
    # which is not imported. It only types the ->> operator, which nothing here uses.
    jsonb.astext_type = None  # type: ignore[assignment]
    plain = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    return JSON(none_as_null=True).with_variant(jsonb, "postgresql").with_variant(plain, "mysql", "mariadb")


def name_type() -> TypeEngine[str]:
    """Return a public name: 191 characters, compared by their bytes on every database."""
    return String(191).with_variant(mysql.VARCHAR(191, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


def key_type() -> TypeEngine[str]:
    """Return text that an application chose: an actor id or an idempotency key.

    Binary on MySQL and MariaDB, because even their binary text collation ignores trailing spaces. There the
    driver takes and gives UTF-8 bytes.
    """
    return String(191).with_variant(mysql.VARBINARY(764), "mysql", "mariadb")


def uuid_type() -> TypeEngine[str]:
    """Return a UUID as text, the same on every database and in every tool."""
    return String(36)


# -- columns -----------------------------------------------------------------------------------


def number_key() -> Column[int]:
    """Return the ``id`` of a table: 64 bits, counted up by the database."""
    # SQLite counts up only a column whose type is exactly INTEGER, which is 64 bits there.
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def bigint(name: str, *, nullable: bool = False, default: int | None = None) -> Column[int]:
    return Column(name, BigInteger(), nullable=nullable, server_default=_number(default))


def integer(name: str, *, nullable: bool = False, default: int | None = None) -> Column[int]:
    return Column(name, Integer(), nullable=nullable, server_default=_number(default))


def flag(name: str) -> Column[bool]:
    # Quoted, "0" is a false default on all databases, and reads back as the same on MySQL, where FALSE does not.
    return Column(name, Boolean(create_constraint=False), nullable=False, server_default="0")


def string(name: str, length: int, *, nullable: bool = False, default: str | None = None) -> Column[str]:
    return Column(name, String(length), nullable=nullable, server_default=default)


def key_uuid() -> Column[str]:
    """Return the ``id`` of a table whose rows are numbered by us, not by the database."""
    return Column("id", uuid_type(), primary_key=True)


def uuid(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, uuid_type(), nullable=nullable)


def public_name(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, name_type(), nullable=nullable)


def chosen_key(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, key_type(), nullable=nullable)


def json(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, json_type(), nullable=nullable)


def timestamp(name: str, *, nullable: bool = False) -> Column[datetime]:
    return Column(name, timestamp_type(), nullable=nullable)


def record_times() -> tuple[Column[datetime], Column[datetime]]:
    return timestamp("created_at"), timestamp("updated_at")


def _number(value: int | None) -> Any:
    return None if value is None else text(str(value))


# -- conditions of checks ----------------------------------------------------------------------


def at_least(name: str, minimum: int) -> ColumnElement[bool]:
    return column(name, Integer()) >= minimum


def more_than_zero(name: str) -> ColumnElement[bool]:
    return column(name, Integer()) > 0


def absent_or(name: str, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return or_(column(name).is_(None), condition)


def one_of(name: str, *values: str) -> ColumnElement[bool]:
    return column(name, String()).in_(values)


def is_present(name: str) -> ColumnElement[bool]:
    return column(name).is_not(None)


def both_or_neither(first: str, second: str) -> ColumnElement[bool]:
    return or_(
        and_(column(first).is_(None), column(second).is_(None)),
        and_(column(first).is_not(None), column(second).is_not(None)),
    )


# -- names -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Names:
    """Names tables, indexes and constraints under one prefix.

    Index names are shared by a whole PostgreSQL schema and SQLite file, so another prefix gives other names.
    """

    prefix: str

    def table(self, short: str) -> str:
        return self.prefix + short

    def index(self, short: str, *columns: str) -> Index:
        return Index(self._final("idx", short), *columns)

    def unique(self, short: str, *columns: str) -> Index:
        return Index(self._final("idx", short), *columns, unique=True)

    def check(self, short: str, condition: ColumnElement[bool]) -> CheckConstraint:
        return CheckConstraint(condition, name=self._final("chk", short))

    def foreign_key(self, short: str, source: str, target: Column[Any], on_delete: str) -> ForeignKeyConstraint:
        # The target is a column and not its name, which would be looked up in the schema of the metadata.
        return ForeignKeyConstraint([source], [target], name=self._final("fk", short), ondelete=on_delete)

    def _final(self, kind: str, short: str) -> conv:
        # conv keeps a naming convention of the application's metadata from rewriting the name.
        return conv(f"{kind}_{self._marker}{short}")

    @property
    def _marker(self) -> str:
        if self.prefix == DEFAULT_PREFIX:
            return "so_"
        # "so_" itself would give the names of the default prefix.
        if self.prefix != "so_" and len(self.prefix) <= _LONGEST_PREFIX_IN_A_NAME:
            return self.prefix
        return f"{self.prefix[:8]}_{hashlib.sha256(self.prefix.encode()).hexdigest()[:8]}_"
