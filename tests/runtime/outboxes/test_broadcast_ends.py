"""How a broadcast ends that ends its process, or whose role is stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import URL, Engine

from flask_solid_objects.runtime.broadcaster import Broadcaster
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.crashing import crash
from tests.runtime.outboxes import child
from tests.runtime.outboxes.boards import ALL
from tests.runtime.outboxes.ears import Ears
from tests.runtime.outboxes.looking import errors, make_due
from tests.runtime.outboxes.test_broadcasts import rows


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
def rt(make_runtime: MakeRuntime, ears: Ears) -> RuntimeUnderTest:
    return make_runtime(own=ALL, broadcast_transport=ears, max_attempts=3)


@pytest.fixture
def broadcaster(rt: RuntimeUnderTest) -> Iterator[Broadcaster]:
    made = rt.runtime.broadcaster()
    yield made
    made._leave()


def test_row_that_ends_its_process_dies_alone(
    rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears, database_url: URL, engine: Engine
) -> None:
    """A row whose every attempt ended its process is dead after its last one; those of its batch are delivered."""
    for actor_id in ("b", "c"):
        rt.ref("Board", actor_id).add(amount=2)
    for _ in range(3):
        crash(database_url, "broadcaster", "broadcast.claimed", main=child.main)
        make_due(engine, "broadcasts", "claimed_at")
    assert rows(engine) == [("processing", 3), ("processing", 1)]

    while broadcaster.run_once():
        pass
    assert (ears.heard, rows(engine)) == ([("c", "total", 1)], [("dead", 3), ("delivered", 2)])
    assert errors(engine, "broadcasts")[0] == "CrashedWorker"


def test_stop_does_not_wait_for_a_refused_batch(
    rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears, engine: Engine
) -> None:
    """A role that is stopped while it tries rows one by one gives the others back, uncounted."""
    for actor_id in ("a", "b", "c"):
        rt.ref("Board", actor_id).add(amount=2)

    ears.refused, ears.on_single = {"b"}, broadcaster.stop
    broadcaster.run_once()

    assert (ears.heard, rows(engine)) == ([("a", "total", 1)], [("delivered", 1), ("pending", 0), ("pending", 0)])
