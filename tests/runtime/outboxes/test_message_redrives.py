"""Redrives of dead messages: what is sent again, what the filters leave out, what a preview counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import Unauthorized
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.runtime.redrive_operators import RedriveOperators
from flask_solid_objects.runtime.redriving import Redriving
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.dead_messages import LETTERS, copies, die, letters, waiting
from tests.runtime.outboxes.looking import Beside
from tests.runtime.outboxes.operating import Denying, events, finish, look, runner_of
from tests.runtime.outboxes.rows import count, execute


@pytest.fixture
def rt(make_runtime: MakeRuntime) -> RuntimeUnderTest:
    return make_runtime(max_attempts=1, redrive_batch_size=3, redrive_batch_pause=0.0)


@pytest.fixture
def redrives(rt: RuntimeUnderTest) -> RedriveOperators:
    return rt.runtime.operators.redrives


@pytest.fixture
def runner(rt: RuntimeUnderTest) -> Redriving:
    return runner_of(rt)


# -- what is sent ------------------------------------------------------------------------------


def test_copies_in_order(rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, engine: Engine) -> None:
    """Every dead message is sent again once, those of one actor in the order in which they died; it is recorded."""
    ids = die(rt, "a", "b", "a", "c", "b", "a", "a")
    task = redrives.start("message", context="ann")
    finish(runner)

    assert copies(engine) == {"a": [ids[0], ids[2], ids[5], ids[6]], "b": [ids[1], ids[4]], "c": [ids[3]]}
    assert (look(rt, task), waiting(rt)) == (("completed", 7, 0), [])
    assert events(engine) == [
        ("redrive.start", "message", task.id, "ann"),
        ("redrive.finish", "message", task.id, "ann"),
    ]


def test_copy_is_that_of_a_retry(
    rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, engine: Engine
) -> None:
    """A copy has the arguments, key, cause and link that a retry by hand gives it; retrying afterwards finds it."""
    (letter_id,) = die(rt, "a")
    redrives.start("message")
    finish(runner)
    (letter,) = letters(rt)

    assert rt.runtime.operators.retry_dead_letter(letter_id).id == letter.retried_message_id
    copy = rt.database.read(lambda tx: rt.store.mailbox.find(tx, letter.retried_message_id or 0))
    assert copy is not None
    assert (copy.idempotency_key, copy.operation, copy.attempts) == (f"dead-letter:{letter_id}", "fail", 0)
    assert copy.arguments == letter.arguments
    assert copies(engine) == {"a": [letter_id]}


def test_message_that_was_retried_by_hand(
    rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, engine: Engine
) -> None:
    """What was sent again already, also with other arguments, is left alone and not counted."""
    first, second, third = die(rt, "a", "a", "b")
    rt.runtime.operators.retry_dead_letter(first, arguments='{"entry": "edited"}')
    task = redrives.start("message")

    assert look(rt, task) == ("running", 0, 2)
    finish(runner)
    assert (look(rt, task), copies(engine)) == (("completed", 2, 0), {"a": [first, second], "b": [third]})


def test_retried_by_hand_meanwhile(
    rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, checkpoints: HeldCheckpoints, engine: Engine
) -> None:
    """A message that an operator sends again between the look of a batch and its locks is not sent twice."""
    (first, second) = die(rt, "a", "b")
    task = redrives.start("message")
    with checkpoints.hold("redrive.found") as hold:
        batch = Beside(runner.step)
        hold.wait_reached()
        retry = Beside(lambda: rt.runtime.operators.retry_dead_letter(first))
        if not rt.database.dialect.single_writer:
            retry.join()
        hold.release()
        batch.join()
        retry.join()
    finish(runner)

    assert copies(engine) == {"a": [first], "b": [second]}
    assert look(rt, task) == ("completed", 2 if rt.database.dialect.single_writer else 1, 0)


def test_what_dies_again_stays_dead(
    rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, engine: Engine
) -> None:
    """A copy that dies while its task runs is a new dead letter, and is not sent in circles."""
    die(rt, "a", "a", "b", "a")
    task = redrives.start("message")
    while runner.step():
        rt.drain()

    assert (look(rt, task), len(waiting(rt)), count(rt, LETTERS)) == (("completed", 4, 0), 4, 8)


def test_destroyed_actor(rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, engine: Engine) -> None:
    """The dead letters of an actor that is destroyed go with it; it is not made again."""
    _, kept = die(rt, "a", "b")
    task = redrives.start("message")
    rt.journal("a").destroy()
    finish(runner)

    assert (look(rt, task), copies(engine)) == (("completed", 1, 0), {"b": [kept]})


def test_paused_actor(rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, engine: Engine) -> None:
    """The copies of a paused actor wait in its mailbox."""
    (letter_id,) = die(rt, "a")
    rt.runtime.operators.pause(letters(rt)[0].key)
    redrives.start("message")
    finish(runner)

    assert (copies(engine), rt.drain()) == ({"a": [letter_id]}, 0)


# -- filters and previews ----------------------------------------------------------------------


def test_filters(rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, engine: Engine) -> None:
    """Only messages of the type, operation, error class and time are sent again; the preview counts the same ones."""
    failed, never, old = die(rt, "a"), die(rt, "b", operation="fail_for_good"), die(rt, "c")
    execute(rt, f"UPDATE {LETTERS} SET last_failed_at = '2020-01-01 00:00:00.000000' WHERE id = {old[0]}")
    recent = datetime.now(UTC) - timedelta(hours=1)
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"actor_type": "Other"}, []),
        ({"exception_class": "NonRetryableErro"}, []),
        ({"operation": "fail_for_good"}, never),
        ({"operation": "fail", "exception_class": letters(rt)[1].exception_class}, []),
        ({"exception_class": "RuntimeError", "failed_after": recent}, failed),
        ({"actor_type": "Journal"}, old),
    ]
    for filters, expected in cases:
        left = waiting(rt)
        assert redrives.preview("message", **filters).count == len(expected), filters
        task = redrives.start("message", **filters)
        finish(runner)
        assert look(rt, task) == ("completed", len(expected), 0), filters
        assert sorted(set(left) - set(waiting(rt))) == expected, filters
        assert {name: getattr(redrives.find(task.id), name) for name in filters} == filters


def test_other_filters_start_another_task(redrives: RedriveOperators) -> None:
    """Another operation or error class is another task, equal ones are one."""
    filters = [{}, {"operation": "fail"}, {"exception_class": "fail"}, {"operation": "fail"}]
    tasks = [redrives.start("message", **each).id for each in filters]  # type: ignore[arg-type]

    assert (len(set(tasks)), tasks[1] == tasks[3]) == (3, True)


def test_preview(rt: RuntimeUnderTest, redrives: RedriveOperators, engine: Engine) -> None:
    """A preview counts up to the limit, says what it was asked, and writes nothing."""
    die(rt, "a", "a", "b")
    found = redrives.preview("message", actor_type="Journal", operation="fail", limit=2)

    assert (found.count, found.is_capped, found.limit) == (2, False, 2)
    assert (found.kind, found.actor_type, found.operation, found.exception_class) == (
        "message",
        "Journal",
        "fail",
        None,
    )
    assert redrives.preview("message").count == 3
    assert [redrives.preview(kind).count for kind in ("effect", "broadcast")] == [0, 0]
    assert (redrives.list(), events(engine)) == ([], [])


def test_capped_preview(
    rt: RuntimeUnderTest, redrives: RedriveOperators, runner: Redriving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preview stops counting at the cap and says so, unless the limit is below it."""
    die(rt, "a", "a", "b")
    monkeypatch.setattr("flask_solid_objects.store.redrives.MOST_COUNTED", 2)

    def preview(limit: int | None = None) -> tuple[int, bool]:
        found = redrives.preview("message", limit=limit)
        return found.count, found.is_capped

    assert [preview(), preview(1), preview(2), preview(3)] == [(2, True), (1, False), (2, False), (2, True)]


def test_wrong_filters(redrives: RedriveOperators, engine: Engine) -> None:
    """Filters of messages are refused for other kinds, wrong arguments also by a preview."""
    for act in (redrives.start, redrives.preview):
        with pytest.raises(ValueError, match="filters of messages, not of effects"):
            act("effect", operation="fail")
        with pytest.raises(ValueError, match="filters of messages, not of broadcasts"):
            act("broadcast", exception_class="RuntimeError")
        with pytest.raises(ValueError, match="effect, broadcast, message"):
            act("reminder")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="time zone"):
            act("message", failed_after=datetime(2020, 1, 1))
        with pytest.raises(ValueError, match="limit"):
            act("message", limit=0)

    assert (redrives.list(), events(engine)) == ([], [])


@pytest.mark.parametrize(
    ("action", "act"),
    [
        ("preview", lambda redrives: redrives.preview("message")),
        ("redrive", lambda redrives: redrives.start("message")),
    ],
)
def test_policy_is_asked_once(
    make_runtime: MakeRuntime, action: str, act: Callable[[RedriveOperators], object]
) -> None:
    """Each asks once, with the dead letters as the resource; what is denied writes nothing."""
    policy = Denying(action)
    rt = make_runtime(policies=Policies(registered={"administration": policy}))
    with pytest.raises(Unauthorized):
        act(rt.runtime.operators.redrives)

    assert (policy.asked, count(rt, "solid_objects_redrives")) == ([(action, "dead_letters", None)], 0)
