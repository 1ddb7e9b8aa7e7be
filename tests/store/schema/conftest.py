"""Engines like the runtime's, each on a new and empty database that goes after the test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import URL, Engine, event

from flask_solid_objects.store.dialects import dialect_for
from tests.databases import Available, find_available

MakeURL = Callable[[], URL]
MakeEngine = Callable[[], Engine]


@pytest.fixture(scope="session")
def available() -> Available:
    return find_available()


@pytest.fixture(params=["sqlite", "postgresql", "mysql", "mariadb"])
def make_url(request: pytest.FixtureRequest, tmp_path: Path, available: Available) -> Iterator[MakeURL]:
    """Make URLs of new databases; mysql and mariadb are one server, by both names that SQLAlchemy has for it."""
    name: str = request.param
    server = available.servers.get("mysql" if name == "mariadb" else name)
    if name != "sqlite" and server is None:
        pytest.skip(f"no {name}")
    made: list[str] = []

    def make() -> URL:
        database = f"solid_schema_{uuid.uuid4().hex[:12]}"
        if server is None:
            return URL.create("sqlite", database=str(tmp_path / f"{database}.db"))
        _on_server(server, f"CREATE DATABASE {database}")
        made.append(database)
        return server.set(database=database, drivername=server.drivername.replace("mysql+", f"{name}+"))

    yield make
    if server is not None:
        for database in made:
            _on_server(server, f"DROP DATABASE {database}")


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


def _on_server(server: URL, statement: str) -> None:
    admin = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(statement)
    admin.dispose()
