"""The runs of redrives of messages: limits, full mailboxes, cancelling, several runners, lost commits, kills."""

from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy import URL, Engine, text

from flask_solid_objects.errors import CommitUnknown
from flask_solid_objects.runtime.redrive_operators import RedriveOperators
from flask_solid_objects.runtime.redriving import Redriving
from flask_solid_objects.store import revivals
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.crashing import crash
from tests.runtime.outboxes import redrive_child
from tests.runtime.outboxes.dead_messages import copies, die, letters, waiting
from tests.runtime.outboxes.looking import Beside
from tests.runtime.outboxes.operating import LOST, finish, look, runner_of


@pytest.fixture
def rt(make_runtime: MakeRuntime) -> RuntimeUnderTest:
    return make_runtime(max_attempts=1, redrive_batch_size=3, redrive_batch_pause=0.0)


@pytest.fixture
def redrives(rt: RuntimeUnderTest) -> RedriveOperators:
    return rt.runtime.operators.redrives


@pytest.fixture
def runner(rt: RuntimeUnderTest) -> Redriving:
    return runner_of(rt)


# -- limits, full mailboxes, cancelling --------------------------------------------------------


def test_limit(rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving) -> None:
    """No more messages are sent again than the limit says, the oldest first."""
    ids = die(rt, *"aabba")
    task = redrives.start("message", limit=4)
    finish(runner)

    assert (look(rt, task), waiting(rt)) == (("completed", 4, 0), ids[4:])


def test_short_batches(make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the batches of outboxes are, one of messages stays short."""
    monkeypatch.setattr(revivals, "_MOST_LETTERS", 2)
    rt = make_runtime(max_attempts=1, redrive_batch_size=1000, redrive_batch_pause=0.0)
    die(rt, *"abcde")
    task = rt.runtime.operators.redrives.start("message")
    runner, progress = runner_of(rt), list[int]()
    while runner.step():
        progress.append(look(rt, task)[1])

    assert progress[:3] == [2, 4, 5]


def test_full_mailbox(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A full mailbox leaves its letters; those of others are sent, and the task ends by itself."""
    rt = make_runtime(max_attempts=1, redrive_batch_size=2, redrive_batch_pause=0.0, max_mailbox_length=2)
    ids = die(rt, *"aabaab")
    task, runner = rt.runtime.operators.redrives.start("message"), runner_of(rt)
    finish(runner)

    assert copies(engine) == {"a": ids[:2], "b": [ids[2], ids[5]]}
    assert (look(rt, task), waiting(rt)) == (("completed", 4, 0), ids[3:5])


def test_nothing_can_be_moved(make_runtime: MakeRuntime) -> None:
    """A task that can move nothing ends after one pass, and does not look again and again."""
    rt = make_runtime(max_attempts=1, redrive_batch_size=2, redrive_batch_pause=0.0, max_mailbox_length=2)
    die(rt, *"aaaaa")
    for _ in range(2):
        rt.journal("a").add.send(entry="x")
    task, runner = rt.runtime.operators.redrives.start("message"), runner_of(rt)

    assert finish(runner) == 4  # three batches of letters, and the end
    assert look(rt, task) == ("completed", 0, 0)


def test_order_is_kept_when_room_appears(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A mailbox that gets room between two batches gets its oldest letter next, not the one that the batch is at."""
    rt = make_runtime(max_attempts=1, redrive_batch_size=2, redrive_batch_pause=0.0, max_mailbox_length=2)
    ids = die(rt, *"aaaaaaa")
    task, runner = rt.runtime.operators.redrives.start("message"), runner_of(rt)
    progress = []
    for has_room_after in (False, True, False):
        runner.step()
        progress.append(look(rt, task)[1])
        if has_room_after:
            rt.drain()
    while runner.step():
        rt.drain()

    assert progress == [2, 2, 2]
    assert (look(rt, task), copies(engine)) == (("completed", 7, 0), {"a": ids})


def test_busy_actor(rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, engine: Engine) -> None:
    """An actor whose row somebody holds stalls no other one; the task waits for it, and keeps its order."""
    ids = die(rt, *"abaab")
    task, single = redrives.start("message"), rt.database.dialect.single_writer
    instance_id = next(letter.instance_id for letter in letters(rt) if letter.id == ids[0])
    with engine.begin() as connection:
        # On SQLite a writer holds the whole database, so that no runner could start at all.
        lock = "" if single else " FOR UPDATE"
        connection.execute(text(f"SELECT id FROM solid_objects_instances WHERE id = {instance_id}{lock}"))
        finish(runner)
        stood = look(rt, task)
    finish(runner_of(rt))

    assert stood == (("completed", 5, 0) if single else ("running", 2, 3))
    assert look(rt, task) == ("completed", 5, 0)
    assert copies(engine) == {"a": [ids[0], ids[2], ids[3]], "b": [ids[1], ids[4]]}


def test_cancelled_midway(rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving) -> None:
    """A task that is cancelled while its batch runs keeps what the batch sent, and sends nothing more."""
    ids = die(rt, *"ababa")
    task = redrives.start("message")
    checkpoints = rt.database.seams.checkpoints
    assert isinstance(checkpoints, HeldCheckpoints)
    with checkpoints.hold("redrive.locked") as hold:
        batch = Beside(runner.step)
        hold.wait_reached()
        cancel = Beside(lambda: redrives.cancel(task.id))
        hold.release()
        batch.join()
        cancel.join()
    finish(runner)

    assert (look(rt, task), waiting(rt)) == (("cancelled", 3, 0), ids[3:])


# -- several runners, lost commits, kills ------------------------------------------------------


def test_two_runners(
    rt: RuntimeUnderTest, make_runtime: MakeRuntime, redrives: RedriveOperators, engine: Engine
) -> None:
    """Two runners that work on one task at the same time send every message once, each actor's in order."""
    ids = die(rt, *"abcab" * 6)
    other = make_runtime(max_attempts=1, redrive_batch_size=2, redrive_batch_pause=0.0)
    task = redrives.start("message")
    both = [Beside(partial(finish, runner_of(each))) for each in (rt, other)]
    for each in both:
        each.join()

    expected = {name: [id_ for id_, actor in zip(ids, "abcab" * 6, strict=True) if actor == name] for name in "abc"}
    assert (look(rt, task), copies(engine)) == (("completed", 30, 0), expected)


def test_two_runners_in_one_batch(
    rt: RuntimeUnderTest,
    make_runtime: MakeRuntime,
    redrives: RedriveOperators,
    runner: Redriving,
    checkpoints: HeldCheckpoints,
    engine: Engine,
) -> None:
    """A runner that comes while another one's batch is open waits for it, and sends what comes after it."""
    ids = die(rt, *"aaaaa")
    other = runner_of(make_runtime(max_attempts=1, redrive_batch_size=3, redrive_batch_pause=0.0))
    task = redrives.start("message", limit=4)
    with checkpoints.hold("redrive.found") as hold:
        first = Beside(runner.step)
        hold.wait_reached()
        second = Beside(other.step)
        hold.release()
        first.join()
        second.join()

    assert (look(rt, task), copies(engine)) == (("completed", 4, 0), {"a": ids[:4]})


@pytest.mark.parametrize(
    ("step", "error"), [("redrive.acknowledging", LOST), ("redrive.committing", CommitUnknown("lost"))]
)
def test_lost_commit_of_a_batch(
    rt: RuntimeUnderTest,
    redrives: RedriveOperators,
    runner: Redriving,
    checkpoints: HeldCheckpoints,
    engine: Engine,
    step: str,
    error: Exception,
) -> None:
    """A batch whose commit is lost is counted as it was committed, and nothing is sent twice."""
    ids = die(rt, *"abaab")
    task = redrives.start("message")
    checkpoints.fail(step, error)

    assert runner.step() is False
    finish(runner_of(rt))
    assert look(rt, task) == ("completed", 5, 0)
    assert copies(engine) == {"a": [ids[0], ids[2], ids[3]], "b": [ids[1], ids[4]]}


@pytest.mark.parametrize(
    ("step", "moved"),
    [
        ("redrive.locked", 3),
        ("redrive.found", 3),
        ("admit.locked", 3),
        ("redrive.committing", 3),
        ("redrive.committed", 6),
    ],
)
def test_killed_runner(
    rt: RuntimeUnderTest, redrives: RedriveOperators, database_url: URL, engine: Engine, step: str, moved: int
) -> None:
    """A process that is killed in its second batch leaves what it committed; another goes on from there, in order."""
    ids = die(rt, *"ababaab")
    task = redrives.start("message")
    crash(database_url, "redriver", step, main=redrive_child.main)

    assert look(rt, task) == ("running", moved, 7 - moved)
    finish(runner_of(rt))
    assert look(rt, task) == ("completed", 7, 0)
    assert copies(engine) == {"a": [ids[0], ids[2], ids[4], ids[5]], "b": [ids[1], ids[3], ids[6]]}
