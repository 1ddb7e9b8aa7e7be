"""Broadcasts reach everybody who listens, as metadata, whatever fails on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import redis
from sqlalchemy import URL, Engine, text

from flask_solid_objects.runtime.broadcaster import Broadcaster
from flask_solid_objects.runtime.broadcasting import broadcast_channel, decoded
from flask_solid_objects.store.listeners import ListenConnection
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.counting import StatementCounter
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.crashing import crash
from tests.runtime.outboxes import child
from tests.runtime.outboxes.boards import ALL
from tests.runtime.outboxes.ears import Ears
from tests.runtime.outboxes.looking import Beside, errors, make_due
from tests.runtime.test_wakeups import REDIS, need_redis

LOST = ConnectionResetError("the connection is gone")
MakeBroadcaster = Callable[[RuntimeUnderTest], Broadcaster]


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
def rt(make_runtime: MakeRuntime, ears: Ears) -> RuntimeUnderTest:
    return make_runtime(own=ALL, broadcast_transport=ears, max_attempts=3, retry_delay=lambda attempt: 3600.0)


@pytest.fixture
def make_broadcaster() -> Iterator[MakeBroadcaster]:
    made: list[Broadcaster] = []

    def make(rt: RuntimeUnderTest) -> Broadcaster:
        made.append(rt.runtime.broadcaster())
        return made[-1]

    yield make
    for each in made:
        each._leave()


@pytest.fixture
def broadcaster(rt: RuntimeUnderTest, make_broadcaster: MakeBroadcaster) -> Broadcaster:
    return make_broadcaster(rt)


def rows(engine: Engine) -> list[tuple[str, int]]:
    """Status and attempts of each row."""
    found = text("SELECT status, attempt_count FROM solid_objects_broadcasts ORDER BY id")
    with engine.connect() as connection:
        return [(status, attempts) for status, attempts in connection.execute(found)]


def test_listeners_of_this_process_hear(rt: RuntimeUnderTest, broadcaster: Broadcaster) -> None:
    """Whoever subscribed to the hub of the broadcasting process hears, until it unsubscribes."""
    heard: list[Any] = []
    unsubscribe = rt.runtime.hub.subscribe(heard.extend)
    rt.ref("Board", "b").add(amount=2)
    broadcaster.run_once()
    unsubscribe()
    rt.ref("Board", "b").add(amount=2)
    broadcaster.run_once()

    assert [(each.actor_type, each.observable, each.revision) for each in heard] == [("Board", "total", 1)]


def test_failing_listener_keeps_nothing_from_others(
    rt: RuntimeUnderTest, broadcaster: Broadcaster, engine: Engine
) -> None:
    """A listener that raises is no failure of the broadcast, and the others hear it."""
    heard: list[Any] = []
    rt.runtime.hub.subscribe(lambda broadcasts: 1 / 0)  # type: ignore[arg-type]
    rt.runtime.hub.subscribe(heard.extend)
    rt.ref("Board", "b").add(amount=2)
    broadcaster.run_once()

    assert (len(heard), rows(engine)) == (1, [("delivered", 1)])


def test_function_hears_metadata_only(rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears) -> None:
    """A function of the application hears who changed, and never the value, not even a shared one."""
    rt.ref("Board", "b").add()
    broadcaster.run_once()

    assert sorted(ears.heard) == [("b", "parity", 1), ("b", "total", 1)]
    assert set(msgspec.to_builtins(ears.raw[0])) == {
        *("broadcast_id", "actor_type", "actor_id", "incarnation", "revision", "observable"),
    }
    assert b"odd" not in msgspec.json.encode(ears.raw)


@requires.notifications
def test_notify(make_runtime: MakeRuntime, make_broadcaster: MakeBroadcaster) -> None:
    """Whoever listens on the broadcast channel of the database hears, in as few notifications as possible."""
    rt = make_runtime(own=ALL)
    rt.ref("Board", "b").add()
    listening = ListenConnection(rt.database, broadcast_channel(rt.runtime.core))
    make_broadcaster(rt).run_once()
    (received,) = listening.receive(5.0)
    listening.close()

    assert sorted(each.observable for each in decoded(received)) == ["parity", "total"]


@requires.notifications
def test_notify_reconnects(make_runtime: MakeRuntime, make_broadcaster: MakeBroadcaster, engine: Engine) -> None:
    """A notifying connection that broke is replaced, and what it could not tell is told again."""
    rt = make_runtime(own=ALL)
    broadcaster = make_broadcaster(rt)
    rt.ref("Board", "b").add()
    broadcaster.run_once()
    end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    with engine.connect() as connection:
        ended = connection.execute(
            text(end + "WHERE datname = current_database() AND query LIKE '%pg_notify%' AND pid <> pg_backend_pid()")
        ).scalar_one()
    # Its wake-ups have a connection of their own.
    assert ended >= 1
    rt.ref("Board", "b").add()
    broadcaster.run_once()
    broadcaster.run_once()

    assert [status for status, _ in rows(engine)] == ["delivered"] * 4


def test_redis(make_runtime: MakeRuntime, make_broadcaster: MakeBroadcaster) -> None:
    """Whoever subscribes to the broadcast channel on Redis hears."""
    url = need_redis(REDIS)
    assert url is not None
    rt = make_runtime(own=ALL, broadcast_transport="redis", redis_url=url)
    rt.ref("Board", "b").add(amount=2)
    client = redis.Redis.from_url(url)
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:  # type: ignore[no-untyped-call]
        pubsub.subscribe(broadcast_channel(rt.runtime.core))
        pubsub.get_message(timeout=5.0)
        make_broadcaster(rt).run_once()
        received: Any = None
        for _ in range(10):
            received = received or pubsub.get_message(timeout=1.0)
    client.close()

    assert [(each.actor_id, each.observable) for each in decoded(received["data"])] == [("b", "total")]


def test_failure_backs_off_and_dies(rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears, engine: Engine) -> None:
    """What the transport refuses waits, is tried again when due, and is dead after its attempts, with the error."""
    ears.refused = {"b"}
    rt.ref("Board", "b").add(amount=2)
    seen = []
    for _ in range(3):
        broadcaster.run_once()
        again = broadcaster.run_once()
        seen.append((*rows(engine)[0], again))
        make_due(engine, "broadcasts")

    assert seen == [("pending", 1, False), ("pending", 2, False), ("dead", 3, False)]
    assert errors(engine, "broadcasts") == ["LookupError"]
    ears.refused = set()
    assert broadcaster.run_once() is False
    assert ears.heard == []


def test_poison_blocks_nobody(rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears, engine: Engine) -> None:
    """One row that the transport refuses keeps nothing back from the others of its batch."""
    ears.refused = {"b"}
    for actor_id in ("a", "b", "c"):
        rt.ref("Board", actor_id).add(amount=2)
    broadcaster.run_once()

    assert ears.heard == [("a", "total", 1), ("c", "total", 1)]
    assert [status for status, _ in rows(engine)] == ["delivered", "pending", "delivered"]


def test_newest_revision_is_told(rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears, engine: Engine) -> None:
    """Of several undelivered revisions of one observable only the newest is told, and all count as delivered."""
    for _ in range(3):
        rt.ref("Board", "b").add(amount=2)
    broadcaster.run_once()

    assert ears.heard == [("b", "total", 3)]
    assert rows(engine) == [("delivered", 1)] * 3


def test_late_revision_is_superseded(
    rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears, engine: Engine
) -> None:
    """A revision that failed is not told any more when a newer one was delivered meanwhile."""
    ears.refused = {"b"}
    rt.ref("Board", "b").add(amount=2)
    broadcaster.run_once()
    ears.refused = set()
    rt.ref("Board", "b").add(amount=2)
    broadcaster.run_once()
    make_due(engine, "broadcasts")
    broadcaster.run_once()

    assert ears.heard == [("b", "total", 2)]
    assert [status for status, _ in rows(engine)] == ["delivered"] * 2


def test_an_outage_costs_the_same_for_many(rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears) -> None:
    """That a whole batch fails, and is looked at again later, takes a fixed number of statements."""
    counts = []
    broadcaster.run_once()  # which registers it
    for number in (2, 32):
        names = [f"{number}-{each}" for each in range(number)]
        ears.refused = set(names)
        for name in names:
            rt.ref("Board", name).add(amount=2)
        counter = StatementCounter(rt.database.engine)
        with counter.measure() as failing:
            broadcaster.run_once()
        make_due(rt.database.engine, "broadcasts")
        with counter.measure() as repeating:
            broadcaster.run_once()
        counter.close()
        counts.append((failing.statements, repeating.statements))
        ears.refused = set()
        make_due(rt.database.engine, "broadcasts")
        broadcaster.run_once()

    assert counts[0] == counts[1]


def test_two_share_the_work(
    rt: RuntimeUnderTest, make_broadcaster: MakeBroadcaster, checkpoints: HeldCheckpoints, ears: Ears
) -> None:
    """What one broadcaster holds is passed over by the other, which then writes nothing; each row is told once."""
    for number in range(60):
        rt.ref("Board", str(number)).add()
    one, two = make_broadcaster(rt), make_broadcaster(rt)
    with checkpoints.hold("broadcast.claimed") as hold:
        first = Beside(one.run_once)
        hold.wait_reached()
        worked = two.run_once()
        counter = StatementCounter(rt.database.engine)
        with counter.measure() as measured:
            idle = two.run_once()
        counter.close()
        alone = len(ears.heard)
        hold.release()
        first.join()

    assert (worked, idle, measured.commits) == (True, False, 0)
    assert alone == 20
    assert sorted(ears.heard) == sorted((str(number), name, 1) for number in range(60) for name in ("parity", "total"))


@pytest.mark.parametrize("step", ["broadcast.claimed", "broadcast.delivered", "record_broadcasts.committing"])
def test_killed_broadcaster(
    rt: RuntimeUnderTest, broadcaster: Broadcaster, ears: Ears, database_url: URL, engine: Engine, step: str
) -> None:
    """What a killed broadcaster had claimed is told by another one, once it was held for too long."""
    rt.ref("Board", "b").add(amount=2)
    crash(database_url, "broadcaster", step, main=child.main)

    assert (broadcaster.run_once(), rows(engine)) == (False, [("processing", 1)])
    make_due(engine, "broadcasts", "claimed_at")
    broadcaster.run_once()
    assert (ears.heard, rows(engine)) == ([("b", "total", 1)], [("delivered", 2)])


@pytest.mark.parametrize("unit", ["claim_broadcasts", "record_broadcasts"])
@pytest.mark.parametrize("when", ["committing", "acknowledging"])
def test_unknown_commit(
    rt: RuntimeUnderTest,
    broadcaster: Broadcaster,
    ears: Ears,
    checkpoints: HeldCheckpoints,
    engine: Engine,
    unit: str,
    when: str,
) -> None:
    """A claim or record whose commit is unknown loses nothing, and is settled at the next look."""
    rt.ref("Board", "b").add(amount=2)
    checkpoints.fail(f"{unit}.{when}", LOST)
    for _ in range(2):
        broadcaster.run_once()

    assert (ears.heard, [status for status, _ in rows(engine)]) == ([("b", "total", 1)], ["delivered"])
