"""A database of a benchmark's own, which is gone afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy
from sqlalchemy import URL, make_url, text

_DEFAULTS = {
    "postgresql": "postgresql+psycopg://postgres@127.0.0.1:5432/postgres",
    "mysql": "mysql+pymysql://root@127.0.0.1:3306/test?ssl_disabled=1",
}


@contextmanager
def scratch(name: str, directory: Path) -> Iterator[URL]:
    """An empty database on a server from ``SOLID_TEST_<NAME>_URL`` or its usual address; a file for SQLite."""
    if name == "sqlite":
        yield make_url(f"sqlite:///{directory}/benchmark.sqlite3")
        return
    server = make_url(os.environ.get(f"SOLID_TEST_{name.upper()}_URL", _DEFAULTS[name]))
    database = f"solid_bench_{os.getpid()}"
    engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {database}"))
    try:
        yield server.set(database=database)
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {database}" + (" WITH (FORCE)" if name == "postgresql" else "")))
        engine.dispose()
