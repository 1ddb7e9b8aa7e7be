"""Engines like the runtime's, each on a new and empty database that goes after the test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import URL, Engine, event

from flask_solid_objects.store.dialects import dialect_for

SERVERS = {
    "postgresql": os.environ.get("SOLID_TEST_POSTGRESQL_URL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"),
    "mysql": os.environ.get("SOLID_TEST_MYSQL_URL", "mysql+pymysql://root@127.0.0.1:3306/test"),
}

MakeURL = Callable[[], URL]
MakeEngine = Callable[[], Engine]


@pytest.fixture(params=["sqlite", "postgresql", "mysql", "mariadb"])
def make_url(request: pytest.FixtureRequest, tmp_path: Path) -> MakeURL:
    """Make URLs of new databases; mysql and mariadb are one server, by both names that SQLAlchemy has for it."""
    name: str = request.param

    def make() -> URL:
        database = f"solid_schema_{uuid.uuid4().hex[:12]}"
        if name == "sqlite":
            return sqlalchemy.make_url(f"sqlite:///{tmp_path / database}.db")
        server = sqlalchemy.make_url(SERVERS["postgresql" if name == "postgresql" else "mysql"])
        _on_server(server, f"CREATE DATABASE {database}")
        request.addfinalizer(lambda: _on_server(server, f"DROP DATABASE {database}"))
        return server.set(database=database, drivername=server.drivername.replace("mysql+", f"{name}+"))

    return make


@pytest.fixture
def connect() -> Iterator[Callable[[URL], Engine]]:
    """Make engines whose connections are set up as the runtime sets up its own."""
    engines: list[Engine] = []

    def make(url: URL) -> Engine:
        engine = sqlalchemy.create_engine(url)
        engines.append(engine)

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: Any) -> None:
            dialect_for(url).prepare_connection(connection)

        return engine

    yield make
    for engine in engines:
        engine.dispose()


@pytest.fixture
def make_engine(make_url: MakeURL, connect: Callable[[URL], Engine]) -> MakeEngine:
    return lambda: connect(make_url())


@pytest.fixture
def engine(make_engine: MakeEngine) -> Engine:
    return make_engine()


def _on_server(server: sqlalchemy.URL, statement: str) -> None:
    admin = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with admin.connect() as connection:
            connection.exec_driver_sql(statement)
    except sqlalchemy.exc.OperationalError:
        if "CI" in os.environ:
            raise
        pytest.skip(f"{server.get_backend_name()} cannot be reached")
    finally:
        admin.dispose()
