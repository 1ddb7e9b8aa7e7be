"""The runner of redrives: batches in order, limits, several runners, lost commits, the maintenance role."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import CommitUnknown
from flask_solid_objects.runtime.redrive_operators import RedriveOperators
from flask_solid_objects.runtime.redriving import Redriving
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.processes import wait_until
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Outside, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.answers import raises
from tests.runtime.outboxes.looking import Beside
from tests.runtime.outboxes.operating import (
    LOST,
    dead,
    events,
    finish,
    kill_effects,
    look,
    runner_of,
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
    """A revived effect has all its attempts before it, under its id; it is known that it had ended."""
    redrives.start("effect", limit=1)
    finish(runner)

    assert stands(find_effect(rt, five[0])) == ("pending", 0, None)
    assert count(rt, EFFECTS, "status = 'pending' AND completed_at IS NOT NULL") == 1


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
    outside.answer = raises(RuntimeError("still broken"))
    while runner.step():
        roles.settle()

    assert look(rt, task) == ("completed", 5, 0)
    assert sorted(outside.ids) == sorted(five)
    assert len(dead(rt)) == 5


def test_oldest_task_first(
    rt: RuntimeUnderTest, five: list[str], redrives: RedriveOperators, runner: Redriving
) -> None:
    """The task that was started first is run to its end before the next."""
    first, second = redrives.start("effect", limit=2), redrives.start("effect", actor_type="Till")
    # Both may have started in one millisecond, which is all that SQLite tells apart.
    later = rt.database.dialect.encode_time(datetime.now(UTC) + timedelta(hours=1))
    execute(rt, "UPDATE solid_objects_redrives SET started_at = :later WHERE id = :id", later=later, id=second.id)
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
