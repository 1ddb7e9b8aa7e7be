"""kill -9 at every step of a turn: nothing is lost, nothing done twice, the order kept, within two lease lengths."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import URL

from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.child import LEASE
from tests.runtime.crashes.crashing import crash, recover

# Step of a caller, whether its message is durable after its death, and the attempts of the message after recovery.
CALLER = [
    ("admit.committing", False, None),
    ("admit.acknowledging", True, 2),
    ("turn.claimed", True, 2),
    ("turn.handled", True, 2),
    ("commit.committing", True, 2),
    ("commit.acknowledging", True, 1),
    ("commit.committed", True, 1),
]


@pytest.mark.parametrize(("step", "durable", "attempts"), CALLER)
def test_caller_dies(
    survivor: RuntimeUnderTest, database_url: URL, step: str, durable: bool, attempts: int | None
) -> None:
    """A caller killed before its admit has left nothing; after it, its message is run exactly once in the end."""
    survivor.journal("a").add(entry="before")
    crash(database_url, "caller", step)
    later = survivor.journal("a").add.send(entry="after")
    took = recover(survivor, ["before", "crash", "after"] if durable else ["before", "after"])

    assert took < 2 * LEASE
    assert later.result() == (3 if durable else 2)
    if durable:
        record = survivor.runtime.core.database.read(lambda tx: survivor.store.mailbox.find(tx, later.id - 1))
        assert record is not None
        assert (record.operation, record.attempts, record.sequence) == ("add", attempts, 2)


WORKER = [
    ("claim.committing", 1),
    ("claim.acknowledging", 2),
    ("turn.claimed", 2),
    ("turn.handled", 2),
    ("commit.committing", 2),
    ("commit.acknowledging", 1),
    ("commit.committed", 1),
]


@pytest.mark.parametrize(("step", "attempts"), WORKER)
def test_worker_dies(survivor: RuntimeUnderTest, database_url: URL, step: str, attempts: int) -> None:
    """A worker killed at any step leaves its message to the next one; only a started attempt is spent."""
    journal = survivor.journal("a")
    messages = [journal.add.send(entry=entry) for entry in ("one", "two", "three")]
    crash(database_url, "worker", step)
    took = recover(survivor, ["one", "two", "three"])

    # The commit of the first has also claimed the second.
    claimed_next = 2 if attempts == 1 and step.startswith("commit.") else 1
    assert took < 2 * LEASE
    assert [message.result() for message in messages] == [1, 2, 3]
    assert [message.outcome().attempts for message in messages] == [attempts, claimed_next, 1]


@pytest.mark.parametrize(
    ("step", "attempts"),
    [
        ("claim.committing", (1, 1)),
        ("claim.acknowledging", (2, 1)),
        ("commit.committing", (2, 1)),
        ("commit.acknowledging", (1, 1)),
    ],
)
def test_caller_dies_while_it_runs_an_earlier_message(
    survivor: RuntimeUnderTest, database_url: URL, expire: Callable[[], None], step: str, attempts: tuple[int, int]
) -> None:
    """A caller that waits runs what is before its own; killed at that, both run once, in order."""
    one = survivor.journal("a").add.send(entry="one")
    crash(database_url, "caller", step)
    if attempts[0] == 2:
        expire()
    recover(survivor, ["one", "crash"])

    own = survivor.runtime.core.database.read(lambda tx: survivor.store.mailbox.find(tx, one.id + 1))
    assert own is not None
    assert (one.outcome().attempts, own.attempts) == attempts


@pytest.mark.parametrize("role", ["caller", "worker"])
@pytest.mark.parametrize("step", ["fail.committing", "fail.acknowledging"])
def test_failure_is_being_recorded(
    survivor: RuntimeUnderTest, database_url: URL, expire: Callable[[], None], role: str, step: str
) -> None:
    """Killed while a failure is stored: the message is retried, and in the end dead after its attempts, never lost."""
    failing = survivor.journal("a").fail.send(entry="x") if role == "worker" else None
    crash(database_url, role, step, "fail")
    if step == "fail.committing":
        expire()
    survivor.journal("a").add.send(entry="after")
    recover(survivor, ["after"])

    (letter,) = survivor.runtime.operators.dead_letters()
    assert (letter.exception_class, letter.attempts) == ("RuntimeError", 5)
    assert failing is None or failing.status() is MessageStatus.DEAD


def test_message_that_kills_every_process_becomes_a_dead_letter(
    make_runtime: MakeRuntime, database_url: URL, expire: Callable[[], None]
) -> None:
    """Crashes spend attempts, so that a message that kills its worker ends, and those behind it run."""
    rt = make_runtime(max_attempts=3)
    deadly = rt.journal("a").add.send(entry="deadly")
    after = rt.journal("a").add.send(entry="after")
    for attempt in (1, 2, 3):
        crash(database_url, "worker", "turn.handled")
        expire()
        assert deadly.outcome().attempts == attempt
    recover(rt, ["after"])

    assert deadly.status() is MessageStatus.DEAD
    assert [letter.exception_class for letter in rt.runtime.operators.dead_letters()] == ["CrashedWorker"]
    assert after.result() == 1
