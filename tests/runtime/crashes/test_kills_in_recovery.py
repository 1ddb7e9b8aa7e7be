"""kill -9 of those who clean up: take-over, hand-back, park and deregistration leave no half of themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import URL, Engine, text

from flask_solid_objects.values import ActorKey
from tests.actors import RuntimeUnderTest
from tests.runtime.crashes.crashing import crash, recover

Expire = Callable[[], None]


@pytest.mark.parametrize(
    ("role", "step"),
    [
        ("recoverer", "takeover.locked"),
        ("recoverer", "recover.committing"),
        ("recoverer", "recover.acknowledging"),
        ("worker", "claim.committing"),
    ],
)
def test_recoverer_dies(survivor: RuntimeUnderTest, database_url: URL, expire: Expire, role: str, step: str) -> None:
    """Killed while it takes a lease over: done or not done, and the crash is counted once."""
    message = survivor.journal("a").add.send(entry="x")
    crash(database_url, "worker", "turn.claimed")
    expire()
    if role == "worker":
        # Something that is ready for it to claim; the expired lease is found beside it.
        survivor.journal("b").add.send(entry="y")
    crash(database_url, role, step)
    recover(survivor, ["x"])

    assert message.outcome().attempts == 2


@pytest.mark.parametrize(("step", "attempts"), [("hand_back.committing", 2), ("hand_back.acknowledging", 1)])
def test_interrupted_worker_dies(
    survivor: RuntimeUnderTest, database_url: URL, expire: Expire, step: str, attempts: int
) -> None:
    """Killed while it hands a message back: a hand-back that is durable is uncounted, else it was a crash."""
    messages = [survivor.journal("a").add.send(entry=entry) for entry in ("one", "two")]
    crash(database_url, "quitter", step)
    if attempts == 2:
        expire()
    recover(survivor, ["one", "two"])

    assert [message.outcome().attempts for message in messages] == [attempts, 1]


@pytest.mark.parametrize(("step", "attempts"), [("park.committing", 2), ("park.acknowledging", 1)])
def test_parking_worker_dies(
    survivor: RuntimeUnderTest, database_url: URL, engine: Engine, expire: Expire, step: str, attempts: int
) -> None:
    """Killed while it parks an actor that cannot wake up: once it can, its message runs, and nothing is parked."""
    survivor.journal("a").add(entry="before")
    message = survivor.journal("a").add.send(entry="x")
    with engine.begin() as connection:
        connection.execute(text("UPDATE solid_objects_instances SET state_version = 9"))
    crash(database_url, "worker", step)
    with engine.begin() as connection:
        connection.execute(text("UPDATE solid_objects_instances SET state_version = 1"))
    if attempts == 2:
        expire()
    recover(survivor, ["before", "x"])

    assert message.outcome().attempts == attempts
    assert survivor.runtime.operators.actor(ActorKey(actor_type="Journal", actor_id="a")).parked_until is None


@pytest.mark.parametrize("step", ["deregister.acknowledging", "free.committing", "free.acknowledging"])
def test_cleaner_dies(survivor: RuntimeUnderTest, database_url: URL, engine: Engine, expire: Expire, step: str) -> None:
    """Killed while it frees what a dead process held: the lease's expiry remains, and the crash is counted once."""
    message = survivor.journal("a").add.send(entry="x")
    crash(database_url, "worker", "turn.claimed")
    with engine.begin() as connection:
        long_ago = "last_heartbeat_at = '2020-01-01 00:00:00.000000'"
        connection.execute(text(f"UPDATE solid_objects_processes SET {long_ago} WHERE kind = 'worker'"))
    crash(database_url, "cleaner", step)
    if step != "free.acknowledging":
        expire()
    recover(survivor, ["x"])

    assert message.outcome().attempts == 2
