"""Redrives as operators see them: started once, joined, cancelled, listed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import Unauthorized, UnknownRedrive
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.runtime.redrive_operators import RedriveOperators
from flask_solid_objects.runtime.redriving import Redriving
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Outside, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.looking import Beside
from tests.runtime.outboxes.operating import (
    LOST,
    Denying,
    actions,
    dead,
    events,
    finish,
    kill_effects,
    look,
    runner_of,
)
from tests.runtime.outboxes.rows import count

ALL = (Till, Sender, Receiver, Alarm)
FIVE = ("a", "b", "c", "d", "e")
EFFECTS = "solid_objects_effects"


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=ALL, max_attempts=1, redrive_batch_size=2, redrive_batch_pause=0.0)


@pytest.fixture
def redrives(rt: RuntimeUnderTest) -> RedriveOperators:
    return rt.runtime.operators.redrives


@pytest.fixture
def five(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> list[str]:
    """Five dead effects, the oldest first."""
    return kill_effects(rt, roles, outside, *FIVE)


@pytest.fixture
def runner(rt: RuntimeUnderTest) -> Redriving:
    return runner_of(rt)


# -- starting ----------------------------------------------------------------------------------


def test_started_task(five: list[str], redrives: RedriveOperators, engine: Engine) -> None:
    """A started task says what it will do, is recorded once, and has done nothing yet."""
    since = datetime(2020, 1, 31, 12, 0, tzinfo=UTC)
    task = redrives.start("effect", actor_type="Till", failed_after=since, limit=4, context="ann")

    assert (task.kind, task.actor_type, task.failed_after, task.limit) == ("effect", "Till", since, 4)
    assert (task.status, task.moved, task.remaining, task.finished_at) == ("running", 0, 4, None)
    assert events(engine) == [("redrive.start", "effect", task.id, "ann")]
    assert redrives.find(task.id) == task


def test_equal_start_joins_the_running_task(redrives: RedriveOperators, engine: Engine) -> None:
    """The same kind and filters give the task that runs, also when the time is given in another zone."""
    since = datetime(2020, 1, 31, 12, 0, tzinfo=UTC)
    first = redrives.start("effect", failed_after=since, limit=1)

    assert redrives.start("effect", failed_after=since.astimezone(), limit=2) == first
    assert actions(engine) == ["redrive.start"]


def test_other_filters_start_another_task(redrives: RedriveOperators) -> None:
    """Another kind, type or time is another task."""
    since = datetime(2020, 1, 31, tzinfo=UTC)
    tasks = [
        redrives.start("effect"),
        redrives.start("broadcast"),
        redrives.start("effect", actor_type="Till"),
        redrives.start("effect", failed_after=since),
    ]

    assert len({task.id for task in tasks}) == 4


def test_two_starts_at_once(rt: RuntimeUnderTest, redrives: RedriveOperators, checkpoints: HeldCheckpoints) -> None:
    """Two equal starts that meet give one task to both."""
    found: list[str] = []
    with checkpoints.hold("redrive.inserted") as hold:
        first = Beside(lambda: found.append(redrives.start("effect").id))
        hold.wait_reached()
        second = Beside(lambda: found.append(redrives.start("effect").id))
        hold.release()
        first.join()
        second.join()

    assert len(found) == 2
    assert [task.id for task in redrives.list()] == [found[0]]
    assert found[0] == found[1]


def test_many_starts_at_once(redrives: RedriveOperators, engine: Engine) -> None:
    """Eight equal starts at one moment give one task, recorded once."""
    barrier, found = threading.Barrier(8), list[str]()

    def start() -> None:
        barrier.wait()
        found.append(redrives.start("effect").id)

    for thread in [Beside(start) for _ in range(8)]:
        thread.join()

    assert (len(found), len(set(found)), actions(engine)) == (8, 1, ["redrive.start"])


def test_finished_task_makes_room(redrives: RedriveOperators, runner: Redriving) -> None:
    """After the end of a task the same filters start a new one."""
    first = redrives.start("effect")
    finish(runner)

    assert redrives.start("effect").id != first.id


def test_wrong_arguments(redrives: RedriveOperators, engine: Engine) -> None:
    """A wrong kind, time, limit or status is an error that says what is right, and starts nothing."""
    with pytest.raises(ValueError, match="effect, broadcast, message"):
        redrives.start("reminder")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="time zone"):
        redrives.start("effect", failed_after=datetime(2020, 1, 1))
    for limit in (0, -1, 2**31, True):
        with pytest.raises(ValueError, match="limit"):
            redrives.start("effect", limit=limit)
    with pytest.raises(ValueError, match="running, completed, cancelled"):
        redrives.list(status="dead")  # type: ignore[arg-type]

    assert (redrives.list(), events(engine)) == ([], [])


# -- cancelling and looking --------------------------------------------------------------------


def test_cancelled_task(
    rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, runner: Redriving, engine: Engine
) -> None:
    """A cancelled task revives nothing more; cancelling it again changes and records nothing."""
    task = redrives.start("effect")
    runner.step()
    cancelled = redrives.cancel(task.id, context="ann")
    finish(runner)

    assert redrives.cancel(task.id) == cancelled
    assert (look(rt, task), len(dead(rt))) == (("cancelled", 2, 0), 3)
    assert events(engine)[1:] == [("redrive.cancel", "effect", task.id, "ann")]


def test_cancelled_during_a_batch(
    rt: RuntimeUnderTest,
    five: list[str],
    redrives: RedriveOperators,
    runner: Redriving,
    checkpoints: HeldCheckpoints,
) -> None:
    """A task that is cancelled while its batch runs keeps what the batch did."""
    task = redrives.start("effect")
    with checkpoints.hold("redrive.locked") as hold:
        batch = Beside(runner.step)
        hold.wait_reached()
        cancel = Beside(lambda: redrives.cancel(task.id))
        hold.release()
        batch.join()
        cancel.join()

    assert (look(rt, task), len(dead(rt))) == (("cancelled", 2, 0), 3)


def test_unknown_task(redrives: RedriveOperators) -> None:
    """A task that is not there is an error that names it."""
    with pytest.raises(UnknownRedrive, match="no redrive x"):
        redrives.find("x")
    with pytest.raises(UnknownRedrive, match="no redrive x"):
        redrives.cancel("x")


def test_tasks_are_listed(redrives: RedriveOperators) -> None:
    """The tasks that were started last are listed, by status if wanted."""
    first, second = redrives.start("effect"), redrives.start("broadcast")
    cancelled = redrives.cancel(first.id)

    assert redrives.list() == [second, cancelled]
    assert redrives.list(most=1) == [second]
    assert redrives.list(status="cancelled") == [cancelled]


@pytest.mark.parametrize(
    ("action", "act"),
    [
        ("redrive", lambda redrives: redrives.start("effect")),
        ("inspect", lambda redrives: redrives.list()),
        ("inspect", lambda redrives: redrives.find("x")),
        ("cancel", lambda redrives: redrives.cancel("x")),
    ],
)
def test_denied(
    make_runtime: MakeRuntime, engine: Engine, action: str, act: Callable[[RedriveOperators], object]
) -> None:
    """What the policy denies writes nothing."""
    rt = make_runtime(own=ALL, policies=Policies(registered={"administration": Denying(action)}))
    with pytest.raises(Unauthorized):
        act(rt.runtime.operators.redrives)

    assert (count(rt, "solid_objects_redrives"), events(engine)) == (0, [])


def test_start_with_a_lost_commit(redrives: RedriveOperators, checkpoints: HeldCheckpoints, engine: Engine) -> None:
    """A start whose commit is lost gives the task that it made, recorded once."""
    checkpoints.fail("administration.acknowledging", LOST)
    task = redrives.start("effect")

    assert ([task], actions(engine)) == (redrives.list(), ["redrive.start"])
