"""kill -9 at every step of a turn: nothing is lost, nothing done twice, the order kept, within two lease lengths."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import URL

from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.processes import KILLED, Child, wait_until
from tests.runtime.conftest import MakeRuntime

LEASE = 1.0
SCRIPT = "tests/runtime/crashes/child.py"


def crash(url: URL, role: str, step: str, operation: str = "add", attempts: int = 5) -> None:
    """Run a child until it dies at a step."""
    arguments = (url.render_as_string(hide_password=False), role, step, operation)
    with Child(SCRIPT, *arguments, env={"MAX_ATTEMPTS": str(attempts)}) as child:
        child.expect(f"dies at {step}")

        assert child.wait() == KILLED


def recovered(rt: RuntimeUnderTest, expected: list[str]) -> float:
    """Work until the actor's entries are there; how long it took in seconds."""
    started = time.monotonic()
    worker = rt.runtime.worker()

    def settled() -> bool:
        worker.run_once()
        return bool(rt.journal("a").snapshot().entries == expected)

    wait_until(settled, f"{expected} in the journal")
    return time.monotonic() - started


@pytest.fixture
def rt(make_runtime: MakeRuntime) -> RuntimeUnderTest:
    return make_runtime(lease_duration=LEASE, lease_renewal_interval=0.3)


# Step of a caller, what is durable after its death, and the attempts of its message after recovery.
CALLER = [
    ("admit.committing", False, None),
    ("admit.committed", True, 2),
    ("turn.claimed", True, 2),
    ("turn.handled", True, 2),
    ("commit.committing", True, 2),
    ("commit.acknowledging", True, 1),
    ("commit.committed", True, 1),
]


@pytest.mark.parametrize(("step", "durable", "attempts"), CALLER)
def test_caller_dies(rt: RuntimeUnderTest, database_url: URL, step: str, durable: bool, attempts: int | None) -> None:
    """A caller killed before its admit has left nothing; after it, its message is run exactly once in the end."""
    rt.journal("a").add(entry="before")
    crash(database_url, "caller", step)
    later = rt.journal("a").add.send(entry="after")
    took = recovered(rt, ["before", "crash", "after"] if durable else ["before", "after"])

    assert took < 2 * LEASE
    assert later.result() == (3 if durable else 2)
    if durable:
        record = rt.runtime.core.database.read(lambda tx: rt.store.mailbox.find(tx, later.id - 1))
        assert record is not None
        assert (record.operation, record.attempts, record.sequence) == ("add", attempts, 2)


WORKER = [
    ("claim.committing", 1),
    ("claim.acknowledging", 2),
    ("claim.committed", 2),
    ("turn.claimed", 2),
    ("turn.handled", 2),
    ("commit.committing", 2),
    ("commit.acknowledging", 1),
    ("commit.committed", 1),
]


@pytest.mark.parametrize(("step", "attempts"), WORKER)
def test_worker_dies(rt: RuntimeUnderTest, database_url: URL, step: str, attempts: int) -> None:
    """A worker killed at any step leaves its message to the next one; only a started attempt is spent."""
    journal = rt.journal("a")
    messages = [journal.add.send(entry=entry) for entry in ("one", "two", "three")]
    crash(database_url, "worker", step)
    took = recovered(rt, ["one", "two", "three"])

    assert took < 2 * LEASE
    assert [message.result() for message in messages] == [1, 2, 3]
    assert messages[0].outcome().attempts == attempts


@pytest.mark.parametrize("step", ["fail.committing", "fail.acknowledging"])
def test_worker_dies_while_it_records_a_failure(rt: RuntimeUnderTest, database_url: URL, step: str) -> None:
    """Killed while a failure is stored: the message is retried, and in the end dead after its attempts, never lost."""
    failing = rt.journal("a").fail.send(entry="x")
    rt.journal("a").add.send(entry="after")
    crash(database_url, "worker", step)
    recovered(rt, ["after"])

    assert failing.status() is MessageStatus.DEAD
    assert failing.outcome().attempts == 5


def test_message_that_kills_every_process_becomes_a_dead_letter(rt: RuntimeUnderTest, database_url: URL) -> None:
    """Crashes spend attempts, so that a message that kills its worker ends, and those behind it run."""
    deadly = rt.journal("a").add.send(entry="deadly")
    wait_ready = rt.runtime.operators
    for _ in range(4):
        crash(database_url, "worker", "turn.handled")
        wait_until(lambda: rt.recover() == 1, "the lease to run out")
    assert deadly.outcome().attempts == 4
    crash(database_url, "worker", "turn.handled")
    after = rt.journal("a").add.send(entry="after")
    recovered(rt, ["after"])

    assert deadly.status() is MessageStatus.DEAD
    assert [letter.exception_class for letter in wait_ready.dead_letters()] == ["CrashedWorker"]
    assert after.result() == 1


def test_recoverer_dies(rt: RuntimeUnderTest, database_url: URL) -> None:
    """Killed while it takes a lease over: the next one takes it over."""
    message = rt.journal("a").add.send(entry="x")
    crash(database_url, "worker", "turn.claimed")
    wait_until(
        lambda: bool(rt.runtime.core.database.read(lambda tx: rt.store.candidates.expired(tx, 5))),
        "the lease to run out",
    )
    crash(database_url, "worker", "takeover.locked")
    recovered(rt, ["x"])

    assert message.outcome().attempts == 2
