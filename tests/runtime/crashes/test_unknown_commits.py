"""The connection breaks at COMMIT: whatever the server did, the turn is committed exactly once in the end.

``<unit>.committing`` is before COMMIT was sent, so that the unit is just repeated; ``<unit>.acknowledging`` is after
the server has committed. ``test_lost_connections`` has the third case, a COMMIT that was sent and not done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.errors import CallUnresolved, CommitUnknown
from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime

LOST = ConnectionResetError("the connection is gone")
WHEN = ["committing", "acknowledging"]


@pytest.mark.parametrize("when", WHEN)
def test_admit(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, when: str) -> None:
    """An admit whose commit is unknown is repeated under its request id, and run once."""
    journal = rt.journal("a")
    journal.add(entry="one")
    checkpoints.fail(f"admit.{when}", LOST)

    assert journal.add(entry="two") == 2
    assert journal.entries == ["one", "two"]
    assert rt.runtime.operators.actors()[0].next_sequence == 4


def test_first_admit_of_an_actor(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints) -> None:
    """An admit that made its actor and is unknown finds it again."""
    checkpoints.fail("admit.acknowledging", LOST)

    assert rt.journal("a").add(entry="one") == 1
    assert rt.journal("a").entries == ["one"]


@pytest.mark.parametrize("when", WHEN)
def test_send(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, when: str) -> None:
    """A send whose commit is unknown is stored once."""
    journal = rt.journal("a")
    checkpoints.fail(f"send.{when}", LOST)
    message = journal.add.send(entry="x")

    assert message.sequence == 1
    assert journal.add.send(entry="y").sequence == 2
    rt.drain()
    assert journal.entries == ["x", "y"]


@pytest.mark.parametrize("when", WHEN)
def test_commit_of_a_call(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, when: str) -> None:
    """A call whose commit is unknown returns what is stored, and its operation counts once."""
    checkpoints.fail(f"commit.{when}", LOST)
    message = rt.journal("a")

    assert message.add(entry="x") == 1
    assert message.entries == ["x"]


def test_commit_that_stays_unknown_twice(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints) -> None:
    """The resolution itself may be unknown; it is repeated until it is not."""
    checkpoints.fail("commit.acknowledging", LOST)
    checkpoints.fail("resolve.acknowledging", LOST)

    assert rt.journal("a").add(entry="x") == 1
    assert rt.journal("a").entries == ["x"]


@pytest.mark.parametrize("when", WHEN)
def test_commit_and_claim_of_a_worker(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, when: str) -> None:
    """Commit n with claim n+1 unknown: n counts once, n+1 goes back uncounted and runs with attempt one."""
    journal = rt.journal("a")
    messages = [journal.add.send(entry=entry) for entry in ("one", "two", "three")]
    checkpoints.fail(f"commit.{when}", LOST)
    rt.drain()

    assert journal.entries == ["one", "two", "three"]
    assert [message.outcome().attempts for message in messages] == [1, 1, 1]


@pytest.mark.parametrize("when", WHEN)
def test_claim(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, when: str) -> None:
    """A claim that is unknown goes back uncounted."""
    message = rt.journal("a").add.send(entry="x")
    checkpoints.fail(f"claim.{when}", LOST)
    rt.drain()
    rt.drain()

    assert message.result() == 1
    assert message.outcome().attempts == 1


@pytest.mark.parametrize("when", WHEN)
def test_failure(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, when: str) -> None:
    """A failure whose commit is unknown is recorded once; the attempts are right."""
    rt = make_runtime(max_attempts=2)
    message = rt.journal("a").fail.send(entry="x")
    checkpoints.fail(f"fail.{when}", LOST)
    rt.drain()

    assert message.status() is MessageStatus.DEAD
    assert message.outcome().attempts == 2
    assert len(rt.runtime.operators.dead_letters()) == 1


@pytest.mark.parametrize("when", WHEN)
def test_hand_back(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, when: str) -> None:
    """A hand-back that is unknown happens once, uncounted."""
    message = rt.journal("a").add.send(entry="x")
    worker = rt.runtime.worker()
    checkpoints.fail("turn.claimed", KeyboardInterrupt)
    checkpoints.fail(f"hand_back.{when}", LOST)
    with pytest.raises(KeyboardInterrupt):
        worker.run_once()

    assert message.status() is MessageStatus.READY
    assert message.outcome().attempts == 0
    rt.drain()
    assert message.result() == 1


@pytest.mark.parametrize("when", WHEN)
def test_park(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, engine: Engine, when: str) -> None:
    """A park that is unknown happens once: the message goes back uncounted, and the actor has failed to wake once."""
    rt.journal("a").add(entry="one")
    message = rt.journal("a").add.send(entry="two")
    _set_version(engine, 9)
    checkpoints.fail(f"park.{when}", LOST)
    rt.runtime.worker().run_once()

    with engine.connect() as connection:
        assert connection.execute(text("SELECT parked_count FROM solid_objects_instances")).scalar_one() == 1
    assert (message.status(), message.outcome().attempts) == (MessageStatus.READY, 0)
    _set_version(engine, 1)
    rt.drain()
    assert (message.result(), message.outcome().attempts) == (2, 1)


@pytest.mark.parametrize("when", WHEN)
def test_claim_of_a_waiting_caller(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, when: str) -> None:
    """A caller whose claim of an earlier message is unknown gives it back uncounted, and runs it all the same."""
    earlier = rt.journal("a").add.send(entry="one")
    checkpoints.fail(f"claim.{when}", LOST)

    assert rt.journal("a").add(entry="two") == 2
    assert (earlier.result(), earlier.outcome().attempts) == (1, 1)


def test_take_over(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, expire: Callable[[], None]) -> None:
    """A take-over whose commit is unknown counts the crash once; the role that did it just looks again."""
    message = rt.journal("a").add.send(entry="x")
    worker = rt.runtime.worker()
    assert worker._claiming.claim_next(worker.registration.id, ("Journal",)) is not None
    expire()
    checkpoints.fail("recover.acknowledging", LOST)
    with pytest.raises(CommitUnknown):
        rt.recover()
    rt.drain()

    assert (message.result(), message.outcome().attempts) == (1, 2)


def test_unresolvable_admit_names_its_request(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """When the database stays away until the deadline, the error carries the request id to ask with later."""
    rt = make_runtime()
    journal = rt.journal("a")
    journal.add(entry="one")
    checkpoints.fail("admit.acknowledging", LOST, times=10_000)
    with pytest.raises(CallUnresolved) as raised:
        journal.add.using(timeout=0.3)(entry="two")
    checkpoints.release_all()
    found: Any = rt.runtime.messages.find(request_id=raised.value.request_id)

    assert found is not None
    rt.recover()
    assert found.status() in (MessageStatus.READY, MessageStatus.CLAIMED)


def _set_version(engine: Engine, version: int) -> None:
    """A version that the code does not know keeps the actor from waking up."""
    with engine.begin() as connection:
        connection.execute(text("UPDATE solid_objects_instances SET state_version = :version"), {"version": version})
