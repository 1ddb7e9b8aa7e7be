"""Runs of the retention, by hand and in the maintenance role: batches, stops, failures, and work beside it."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest
from sqlalchemy import Engine, func, select, update

from flask_solid_objects.errors import MessagePruned
from flask_solid_objects.runtime.retention import Retention
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.seams import Clock, Seams
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime

SOON = 0.001
OLD = 1000.0


@pytest.fixture
def pruned() -> bool:
    return True


class TurnedClock(Clock):
    """Monotonic time that a test turns on; waits are over at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        return event.is_set()


class Finished:
    """Finished messages of one actor, as old as a test wants."""

    def __init__(self, rt: RuntimeUnderTest, engine: Engine, tables: Tables) -> None:
        self._rt, self._engine, self._tables = rt, engine, tables

    def make(self, count: int, actor_id: str = "a") -> None:
        for number in range(count):
            self._rt.journal(actor_id).add(entry=str(number))
        self.age()

    def age(self) -> None:
        """Let everything have happened some minutes ago."""
        m, i = self._tables.messages, self._tables.instances
        now = self._rt.database.read(lambda tx: tx.now())
        before = (now if self._engine.dialect.name == "postgresql" else now.replace(tzinfo=None)) - timedelta(
            seconds=OLD
        )
        with self._engine.begin() as connection:
            connection.execute(update(m).values(completed_at=before).where(m.c.completed_at.is_not(None)))
            connection.execute(update(i).values(last_used_at=before))

    def number(self) -> int:
        with self._engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(self._tables.messages)).scalar_one())


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def rt(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, clock: TurnedClock) -> RuntimeUnderTest:
    """A runtime that keeps finished messages for a minute and prunes one row at a time, every hour."""
    return make_runtime(
        message_retention=60.0,
        prune_batch_size=1,
        dead_process_cleanup_interval=0.0,
        seams=Seams(checkpoints=checkpoints, clock=clock),
    )


@pytest.fixture
def finished(rt: RuntimeUnderTest, engine: Engine, tables: Tables) -> Finished:
    return Finished(rt, engine, tables)


def run_until_finished(role: Role, checkpoints: HeldCheckpoints) -> int:
    """How many passes of the role a run has taken."""
    before = checkpoints.count("retention.finished")
    for passes in range(1, 100):
        role.run_once()
        if checkpoints.count("retention.finished") > before:
            return passes
    raise AssertionError(f"no run has finished. {checkpoints.describe()}")


# -- by hand -----------------------------------------------------------------------------------


def test_run_counts_or_deletes(rt: RuntimeUnderTest, finished: Finished) -> None:
    """A run counts by kind what it would delete, then deletes that, and finds nothing a second time."""
    finished.make(3)
    retention = Retention(rt.runtime.core)

    assert retention.run(("messages", "audit"), execute=False) == {"messages": 3, "audit": 0}
    assert finished.number() == 3
    assert retention.run(("messages", "audit"), execute=True) == {"messages": 3, "audit": 0}
    assert finished.number() == 0
    assert retention.run(("messages",), execute=True) == {"messages": 0}


def test_age_of_an_operator_replaces_the_settings(rt: RuntimeUnderTest, finished: Finished) -> None:
    """An age that is given holds for every kind, but deletes no actor whose type is not listed."""
    finished.make(2)
    retention = Retention(rt.runtime.core)

    assert retention.run(("messages",), execute=False, older_than=2 * OLD) == {"messages": 0}
    assert retention.run(("messages", "instances"), execute=True, older_than=OLD / 2) == {"messages": 2, "instances": 0}


def test_run_tells_its_progress_and_stops_when_asked(rt: RuntimeUnderTest, finished: Finished) -> None:
    """Each batch is announced with its kind and number; a stop ends the run after the batch, which stays deleted."""
    finished.make(3)
    seen: list[tuple[str, int]] = []
    counts = Retention(rt.runtime.core).run(
        ("messages",), execute=True, progress=lambda *batch: seen.append(batch), is_stopping=lambda: len(seen) == 2
    )

    assert counts == {"messages": 2}
    assert seen == [("messages", 1), ("messages", 1)]
    assert finished.number() == 1


def test_each_batch_is_a_transaction(rt: RuntimeUnderTest, finished: Finished, checkpoints: HeldCheckpoints) -> None:
    """A run commits after every batch, so that what it did survives the failure of the next one."""
    finished.make(3)
    checkpoints.fail("prune.committing", RuntimeError("broken"), match=lambda _: finished.number() == 2)
    with pytest.raises(RuntimeError, match="broken"):
        Retention(rt.runtime.core).run(("messages",), execute=True)

    assert finished.number() == 2


def test_key_of_a_pruned_message_is_not_run_again(rt: RuntimeUnderTest, finished: Finished) -> None:
    """The actor remembers the keys of finished messages that are gone."""
    rt.journal("a").add.using(idempotency_key="once").send(entry="x")
    rt.drain()
    finished.age()

    assert Retention(rt.runtime.core).run(("messages",), execute=True) == {"messages": 1}
    with pytest.raises(MessagePruned):
        rt.journal("a").add.using(idempotency_key="once").send(entry="x")
    assert rt.journal("a").entries == ["x"]


# -- in the maintenance role -------------------------------------------------------------------


def test_role_does_one_batch_per_pass(rt: RuntimeUnderTest, finished: Finished, checkpoints: HeldCheckpoints) -> None:
    """Recovery has its turn between any two batches."""
    finished.make(3)
    role = rt.runtime.maintenance()
    left = []
    for _ in range(20):
        checkpoints.clear()
        role.run_once()
        left.append(finished.number())
        assert checkpoints.count("prune.committed") <= 1

    assert left[-1] == 0
    assert sorted(left, reverse=True) == left
    assert {3, 2, 1, 0} >= set(left) >= {2, 1, 0}


def test_role_prunes_at_most_every_interval(
    rt: RuntimeUnderTest, finished: Finished, checkpoints: HeldCheckpoints, clock: TurnedClock
) -> None:
    """After a run the next one waits for the interval."""
    role = rt.runtime.maintenance()
    run_until_finished(role, checkpoints)
    finished.make(1)
    clock.now = 3599.0
    role.run_once()
    assert finished.number() == 1
    clock.now = 3601.0
    run_until_finished(role, checkpoints)

    assert finished.number() == 0


def test_interval_of_zero_prunes_never(make_runtime: MakeRuntime, engine: Engine, tables: Tables) -> None:
    """Whoever wants to prune by command only turns the automatic off."""
    rt = make_runtime(message_retention=60.0, retention_interval=0.0)
    finished = Finished(rt, engine, tables)
    finished.make(1)
    role = rt.runtime.maintenance()
    role.stop()
    for _ in range(5):
        role.run_once()

    assert finished.number() == 1


def test_role_keeps_actors_and_dead_letters_by_default(
    rt: RuntimeUnderTest, finished: Finished, checkpoints: HeldCheckpoints, clock: TurnedClock
) -> None:
    """Without their settings neither actors nor dead letters go, however old."""
    message = rt.journal("a").fail_for_good.send()
    rt.drain()
    finished.age()
    run_until_finished(rt.runtime.maintenance(), checkpoints)

    assert message.status() is MessageStatus.DEAD
    assert Retention(rt.runtime.core).automatic_kinds == (
        *("messages", "reminders", "recoveries", "redrives", "processes", "audit"),
    )


def test_role_prunes_actors_and_dead_letters_when_told_to(make_runtime: MakeRuntime) -> None:
    """With their settings both are among what maintenance prunes."""
    rt = make_runtime(dead_letter_retention=60.0, instance_retention_by_actor_type={"Journal": 60.0})

    assert {"dead-letters", "instances"} <= set(Retention(rt.runtime.core).automatic_kinds)


def test_failure_is_announced_and_tried_again_later(
    rt: RuntimeUnderTest,
    finished: Finished,
    checkpoints: HeldCheckpoints,
    clock: TurnedClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error of the pruning never ends the role: it is logged, and the next try comes after a growing pause."""
    finished.make(1)
    role = rt.runtime.maintenance()
    checkpoints.fail("retention.selected", ValueError("secret"), times=2)
    with caplog.at_level(logging.WARNING, "flask_solid_objects"):
        role.run_once()
        role.run_once()
        clock.now = 1.1
        role.run_once()
        clock.now = 2.9
        role.run_once()

    assert [record.message for record in caplog.records] == ["retention.failed error=ValueError"] * 2
    assert finished.number() == 1
    clock.now = 3.2
    run_until_finished(role, checkpoints)
    assert finished.number() == 0


def test_actors_may_be_used_while_they_are_pruned(make_runtime: MakeRuntime) -> None:
    """With an age of a millisecond every call still returns, on the actor as it was or on a new one."""
    rt = make_runtime(instance_retention_by_actor_type={"Journal": SOON}, message_retention=SOON)
    over, results, errors = threading.Event(), list[int](), list[Exception]()

    def call(actor_id: str) -> None:
        try:
            results.extend(rt.journal(actor_id).add(entry="x") for _ in range(40))
        except Exception as error:
            errors.append(error)

    def prune() -> None:
        while not over.is_set():
            Retention(rt.runtime.core).run(("messages", "instances"), execute=True)

    pruning = threading.Thread(target=prune)
    calling = [threading.Thread(target=call, args=(actor_id,)) for actor_id in "ab"]
    for thread in (pruning, *calling):
        thread.start()
    for thread in calling:
        thread.join()
    over.set()
    pruning.join()

    assert errors == []
    assert len(results) == 80
