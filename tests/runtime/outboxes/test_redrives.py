"""Redrives: durable tasks that revive what is dead, batch by batch, shared by any number of runners."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import CommitUnknown, Unauthorized, UnknownRedrive
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.runtime.redrive_operators import RedriveOperators
from flask_solid_objects.runtime.redriving import Redriving
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.processes import wait_until
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Outside, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.looking import Beside
from tests.runtime.outboxes.operating import (
    LOST,
    Denying,
    actions,
    dead,
    events,
    kill_effects,
    look,
    stands,
)
from tests.runtime.outboxes.rows import count, execute, find_effect

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


def runner_of(rt: RuntimeUnderTest) -> Redriving:
    return Redriving(rt.runtime.core, rt.runtime.wake_ups)


def finish(runner: Redriving) -> int:
    """Run until nothing is left; how many steps that were."""
    for steps in range(100):
        if not runner.step():
            return steps
    raise AssertionError("still busy after 100 steps")


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
    with pytest.raises(ValueError, match="effect, broadcast"):
        redrives.start("message")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="time zone"):
        redrives.start("effect", failed_after=datetime(2020, 1, 1))
    for limit in (0, -1, 2**31, True):
        with pytest.raises(ValueError, match="limit"):
            redrives.start("effect", limit=limit)
    with pytest.raises(ValueError, match="running, completed, cancelled"):
        redrives.list(status="dead")  # type: ignore[arg-type]

    assert (redrives.list(), events(engine)) == ([], [])


# -- running -----------------------------------------------------------------------------------


def test_all_dead_effects_are_revived(
    rt: RuntimeUnderTest,
    roles: Roles,
    five: list[str],
    outside: Outside,
    redrives: RedriveOperators,
    runner: Redriving,
    engine: Engine,
) -> None:
    """A task revives every dead effect, the oldest first, and is completed and recorded when none is left."""
    task = redrives.start("effect", context="ann")
    progress = []
    while runner.step():
        progress.append(look(rt, task))
    roles.settle()

    assert progress[:3] == [("running", 2, 3), ("running", 4, 1), ("running", 5, 0)]
    assert progress[-1] == ("completed", 5, 0)
    assert sorted(outside.ids) == sorted(five)
    assert events(engine)[1:] == [("redrive.finish", "effect", task.id, "ann")]
    assert redrives.find(task.id).finished_at is not None


def test_revived_row(rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, runner: Redriving) -> None:
    """A revived effect is as if it had never been tried, under its id."""
    redrives.start("effect", limit=1)
    finish(runner)

    assert stands(find_effect(rt, five[0])) == ("pending", 0, None)
    assert count(rt, EFFECTS, "status = 'pending' AND completed_at IS NULL") == 1


def test_limit(rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, runner: Redriving) -> None:
    """No more rows are revived than the limit says, and then the task is completed."""
    task = redrives.start("effect", limit=3)
    finish(runner)

    assert (look(rt, task), dead(rt)) == (("completed", 3, 0), five[:2:-1])


def test_actor_type(rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, runner: Redriving) -> None:
    """Only effects of the actor type are revived."""
    (sent,) = rt.ref("Sender", "s").tell(receivers=["r"], entry="e")
    execute(rt, f"UPDATE {EFFECTS} SET status = 'dead' WHERE effect_id = :id", id=sent)
    task = redrives.start("effect", actor_type="Sender")
    finish(runner)

    assert (look(rt, task), dead(rt)) == (("completed", 1, 0), five[::-1])


def test_failed_after(rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, runner: Redriving) -> None:
    """Only what died at or after the time is revived."""
    execute(rt, f"UPDATE {EFFECTS} SET updated_at = '2020-01-01 00:00:00.000000' WHERE effect_id = :id", id=five[1])
    task = redrives.start("effect", failed_after=datetime.now(UTC) - timedelta(hours=1))
    finish(runner)

    assert (look(rt, task), dead(rt)) == (("completed", 4, 0), [five[1]])


def test_broadcasts(rt: RuntimeUnderTest, roles: Roles, redrives: RedriveOperators, runner: Redriving) -> None:
    """A task of broadcasts revives those and leaves effects alone; they are delivered."""
    for actor in FIVE:
        rt.ref("Till", actor).add()
    dead_ones = execute(rt, "UPDATE solid_objects_broadcasts SET status = 'dead'")
    task = redrives.start("broadcast")
    finish(runner)
    roles.settle()

    assert look(rt, task) == ("completed", dead_ones, 0)
    assert rt.runtime.operators.broadcasts.dead() == []
    assert count(rt, "solid_objects_broadcasts", "status = 'pending'") == 0


def test_what_dies_again_stays_dead(
    rt: RuntimeUnderTest,
    roles: Roles,
    five: list[str],
    outside: Outside,
    redrives: RedriveOperators,
    runner: Redriving,
) -> None:
    """An effect that dies again while its task runs is not revived in circles."""
    task = redrives.start("effect")
    outside.answer = _broken
    while runner.step():
        roles.settle()

    assert look(rt, task) == ("completed", 5, 0)
    assert sorted(outside.ids) == sorted(five)
    assert len(dead(rt)) == 5


def _broken(context: object, amount: int) -> str:
    raise RuntimeError("still broken")


def test_oldest_task_first(
    rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, runner: Redriving
) -> None:
    """The task that was started first is run to its end before the next."""
    first, second = redrives.start("effect", limit=2), redrives.start("effect", actor_type="Till")
    runner.step()

    assert (look(rt, first), look(rt, second)) == (("completed", 2, 0), ("running", 0, 3))


def test_late_death_before_the_last_look(
    rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, runner: Redriving
) -> None:
    """A row that had died before the start, and whose transaction ended after the batch passed it, is revived, too."""
    execute(rt, f"UPDATE {EFFECTS} SET status = 'completed' WHERE effect_id = :id", id=five[0])
    task = redrives.start("effect")
    runner.step()
    execute(rt, f"UPDATE {EFFECTS} SET status = 'dead' WHERE effect_id = :id", id=five[0])
    finish(runner)

    assert (look(rt, task), dead(rt)) == (("completed", 5, 0), [])


def test_row_that_was_retried_meanwhile(
    rt: RuntimeUnderTest,
    five: list[str],
    redrives: RedriveOperators,
    runner: Redriving,
    checkpoints: HeldCheckpoints,
) -> None:
    """A row that an operator revives between the look of a batch and its lock is not counted."""
    task = redrives.start("effect")
    with checkpoints.hold("redrive.found") as hold:
        batch = Beside(runner.step)
        hold.wait_reached()
        retry = Beside(lambda: rt.runtime.operators.effects.retry(five[0]))
        single = rt.database.dialect.single_writer
        if not single:
            retry.join()
        hold.release()
        batch.join()
        retry.join()
    finish(runner)

    assert look(rt, task) == ("completed", 5 if single else 4, 0)


def test_two_runners_keep_the_limit(
    rt: RuntimeUnderTest,
    make_runtime: MakeRuntime,
    five: list[str],
    redrives: RedriveOperators,
    runner: Redriving,
    checkpoints: HeldCheckpoints,
) -> None:
    """Two runners that meet in one task take turns, and together revive no more than the limit."""
    other = runner_of(make_runtime(own=ALL, redrive_batch_size=2, redrive_batch_pause=0.0))
    task = redrives.start("effect", limit=3)
    with checkpoints.hold("redrive.locked") as hold:
        first = Beside(runner.step)
        hold.wait_reached()
        second = Beside(other.step)
        hold.release()
        first.join()
        second.join()

    assert (look(rt, task), len(dead(rt))) == (("completed", 3, 0), 2)


@pytest.mark.parametrize(
    ("step", "error"), [("redrive.acknowledging", LOST), ("redrive.committing", CommitUnknown("lost"))]
)
def test_lost_commit_of_a_batch(
    rt: RuntimeUnderTest,
    five: list[str],
    redrives: RedriveOperators,
    runner: Redriving,
    checkpoints: HeldCheckpoints,
    step: str,
    error: Exception,
) -> None:
    """A batch whose commit is lost is counted as it was committed, and the task goes on."""
    task = redrives.start("effect", limit=4)
    checkpoints.fail(step, error)

    assert runner.step() is False
    finish(runner_of(rt))
    assert (look(rt, task), len(dead(rt))) == (("completed", 4, 0), 1)


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


# -- in the maintenance role -------------------------------------------------------------------


def test_maintenance_runs_tasks(rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators) -> None:
    """The maintenance role runs a task beside its other work until it is completed."""
    task, role = redrives.start("effect"), rt.runtime.maintenance()
    thread = threading.Thread(target=role.run)
    thread.start()
    try:
        wait_until(lambda: look(rt, task)[0] == "completed", "the task is completed")
    finally:
        role.stop()
        thread.join()

    assert look(rt, task) == ("completed", 5, 0)


def test_failing_batch_does_not_stop_maintenance(
    rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, checkpoints: HeldCheckpoints
) -> None:
    """A batch that fails is put off, and recovery goes on in the same role."""
    task, role = redrives.start("effect"), rt.runtime.maintenance()
    checkpoints.fail("redrive.locked", RuntimeError("broken"))

    assert [role.run_once(), role.run_once()] == [True, True]
    assert look(rt, task) == ("running", 0, 5)


def test_rest_between_batches(
    make_runtime: MakeRuntime, five: list[str], redrives: RedriveOperators, rt: RuntimeUnderTest
) -> None:
    """After a batch a runner rests as long as the setting says."""
    task = redrives.start("effect")
    slow = runner_of(make_runtime(own=ALL, redrive_batch_size=2, redrive_batch_pause=3600.0))

    assert [slow.step(), slow.step()] == [True, False]
    assert look(rt, task) == ("running", 2, 3)
