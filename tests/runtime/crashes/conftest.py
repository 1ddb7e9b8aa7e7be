"""Every test here runs with the invariants checked beside it; the survivor of a crash leaves nothing behind either."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.tables import Tables
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.child import LEASE, RENEWAL


@pytest.fixture(autouse=True)
def watched(invariants_beside: None) -> None:
    """Nothing else: the checker runs as long as the test."""


@pytest.fixture
def survivor(make_runtime: MakeRuntime, engine: Engine, tables: Tables) -> Iterator[RuntimeUnderTest]:
    """A runtime with short leases; after its work also the invariant about what the dead leave behind must hold."""
    yield make_runtime(lease_duration=LEASE, lease_renewal_interval=RENEWAL)
    with engine.connect() as connection:
        assert check_invariants(connection, tables, lease_duration=0.0, roles_running=True) == []


@pytest.fixture
def expire(engine: Engine) -> Callable[[], None]:
    """Let every lease run out, by moving rows instead of clocks."""
    past = "activation_expires_at = '2020-01-01 00:00:00.000000'"
    expired = text(f"UPDATE solid_objects_instances SET {past} WHERE activation_owner_id IS NOT NULL")

    def expire() -> None:
        with engine.begin() as connection:
            assert connection.execute(expired).rowcount == 1

    return expire
