"""Fixtures of all tests: a fresh database on every configured server, the tables, an engine, held checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, Engine

from flask_solid_objects.seams import Seams
from flask_solid_objects.store.dialects import Dialect, dialect_for
from flask_solid_objects.store.tables import Tables
from tests import requires
from tests.checkpoints import HeldCheckpoints
from tests.counting import StatementCounter
from tests.databases import Available, Scratch, find_available, make_scratch
from tests.leaks import no_leaks as no_leaks
from tests.leaks import pool_watch as pool_watch
from tests.leaks import remember
from tests.schema import KeptEngine, tables_of

_AVAILABLE = pytest.StashKey[Available]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requires(*capabilities): skip on a database that lacks one of them")
    config.addinivalue_line("markers", "keeps_connections: the test may leave idle connections in a pool")
    try:
        config.stash[_AVAILABLE] = find_available()
    except LookupError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header(config: pytest.Config) -> str:
    return f"databases: {config.stash[_AVAILABLE]}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that uses a database on every one that is there."""
    if "database" in metafunc.fixturenames:
        metafunc.parametrize("database", metafunc.config.stash[_AVAILABLE].names, indirect=True)


# -- databases ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def scratches(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Scratch]]:
    """The scratch databases of this process, each made when it is first asked for."""
    made: dict[str, Scratch] = {}

    def scratch(name: str) -> Scratch:
        if name not in made:
            directory: Path = tmp_path_factory.mktemp("databases")
            made[name] = make_scratch(name, pytestconfig.stash[_AVAILABLE], directory)
        return made[name]

    yield scratch
    for each in made.values():
        each.drop()


@pytest.fixture
def database(request: pytest.FixtureRequest, scratches: Callable[[str], Scratch]) -> Scratch:
    """One configured database; use ``database_url`` or ``blank_database_url`` instead."""
    name: str = request.param
    lacking = requires.missing(request.node, name)
    if lacking:
        pytest.skip(f"{name} has no {', '.join(sorted(lacking))}")
    scratch = scratches(name)
    remember(request.node, scratch)
    return scratch


@pytest.fixture
def database_url(database: Scratch) -> URL:
    """A database with our tables and no row, on each configured server in turn."""
    return database.fresh()


@pytest.fixture
def blank_database_url(database: Scratch) -> URL:
    """A database without any table, on each configured server in turn."""
    return database.blank()


@pytest.fixture
def dialect(database_url: URL) -> Dialect:
    return dialect_for(database_url)


@pytest.fixture
def tables() -> Tables:
    """The tables in a metadata of their own, under the default prefix, as ``database_url`` has them."""
    return tables_of()


@pytest.fixture(scope="session")
def kept_engines() -> dict[str, KeptEngine]:
    return {}


@pytest.fixture
def engine(database_url: URL, kept_engines: dict[str, KeptEngine]) -> Iterator[Engine]:
    """A plain engine for looking at rows and changing them behind the runtime's back."""
    kind = database_url.get_backend_name()
    if kind not in kept_engines:
        kept_engines[kind] = KeptEngine(database_url)
    with kept_engines[kind].at(database_url) as engine:
        yield engine


@pytest.fixture
def counter(engine: Engine) -> Iterator[StatementCounter]:
    """Counts what ``engine`` sends; make a ``StatementCounter`` for any other engine."""
    counter = StatementCounter(engine)
    yield counter
    counter.close()


# -- seams -------------------------------------------------------------------------------------


@pytest.fixture
def checkpoints() -> Iterator[HeldCheckpoints]:
    """Checkpoints to wait for, hold and break; everybody is let go when the test ends."""
    checkpoints = HeldCheckpoints()
    yield checkpoints
    checkpoints.release_all()


@pytest.fixture
def seams(checkpoints: HeldCheckpoints) -> Seams:
    return Seams(checkpoints=checkpoints)
