"""Runtimes on each database, closed when the test ends, with the invariants checked before that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import URL, Engine

from flask_solid_objects.seams import Seams
from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import Violation
from tests.actors import RuntimeUnderTest

MakeRuntime = Callable[..., RuntimeUnderTest]


@pytest.fixture
def pruned() -> bool:
    """Whether the test prunes, which leaves gaps in the sequences."""
    return False


@pytest.fixture
def make_runtime(
    database_url: URL, seams: Seams, engine: Engine, tables: Tables, pruned: bool
) -> Iterator[MakeRuntime]:
    """Makes runtimes on one database; several stand for several processes."""
    made: list[RuntimeUnderTest] = []

    def make(**settings: Any) -> RuntimeUnderTest:
        runtime = RuntimeUnderTest(database_url, seams=settings.pop("seams", seams), **settings)
        made.append(runtime)
        return runtime

    yield make
    for runtime in made:
        runtime.close()
    with engine.connect() as connection:
        violations = check_invariants(connection, tables, lease_duration=30.0, roles_running=False, pruned=pruned)

    assert violations == []


@pytest.fixture
def rt(make_runtime: MakeRuntime) -> RuntimeUnderTest:
    """One runtime with short times and no pause before retries."""
    return make_runtime()


@pytest.fixture
def invariants_beside(engine: Engine, tables: Tables) -> Iterator[None]:
    """Check all invariants again and again while the test runs; none may be broken at any moment."""
    over, found = threading.Event(), list[Violation]()

    def look() -> None:
        while not over.wait(0.02):
            with engine.connect() as connection:
                found.extend(check_invariants(connection, tables, lease_duration=30.0, roles_running=False))

    thread = threading.Thread(target=look)
    thread.start()
    yield
    over.set()
    thread.join()

    assert found == []
