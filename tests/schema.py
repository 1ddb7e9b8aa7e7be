"""The tables and the store of a prefix, made once a test process: nothing changes them, and each takes 15 ms of a core.

The statements of the invariants cost 25 ms to compile, so the engines that look behind the runtime's back are kept too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Engine, MetaData, event

from flask_solid_objects.settings import Settings
from flask_solid_objects.store.columns import DEFAULT_PREFIX
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import Tables, build_tables


@cache
def tables_of(prefix: str = DEFAULT_PREFIX) -> Tables:
    return build_tables(MetaData(), prefix)


def store_of(dialect: Dialect, settings: Settings) -> Store:
    """The store as a runtime makes it: only these of the settings have to do with it."""
    return _store(type(dialect), settings.table_prefix, settings.max_mailbox_length)


@cache
def _store(dialect: type[Dialect], prefix: str, max_mailbox_length: int) -> Store:
    return Store(tables_of(prefix), dialect(), Settings(table_prefix=prefix, max_mailbox_length=max_mailbox_length))


class KeptEngine:
    """An engine per kind of database, which leads to the database of the test that uses it."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine = sqlalchemy.create_engine(url)
        event.listen(self._engine, "do_connect", self._lead)
        if url.get_backend_name() == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)

    @contextmanager
    def at(self, url: URL) -> Iterator[Engine]:
        """Use it for this database; its connections are closed at the end."""
        self._url = url
        # What a test listens to is its own, and ends with it.
        yield self._engine.execution_options()
        self._engine.dispose()

    def _lead(self, dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> None:
        arguments[:], changed = dialect.create_connect_args(self._url)
        options.update(changed)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA busy_timeout = 5000")
