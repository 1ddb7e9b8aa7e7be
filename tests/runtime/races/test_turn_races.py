"""Interleavings of turns, calls and operators: hold A at a step, let B finish, release A, look at what is stored.

The protocol names them in its sections 2 to 5 and 7. SQLite has one writer, so there a B that has to write waits for A
where A holds the write lock; none of these tests holds it inside a transaction of ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.errors import ActorDestroyed, MessageFailed
from flask_solid_objects.values import ActorKey, MessageStatus
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime

KEY = ActorKey(actor_type="Journal", actor_id="a")


class Background:
    """A function in a thread, whose result or error is looked at after it has ended."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(function,))
        self._thread.start()

    def join(self) -> Background:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self.value = function()
        except BaseException as error:
            self.error = error


@pytest.fixture
def expire(engine: Engine) -> Callable[[], None]:
    """Let every lease run out, by moving rows instead of clocks."""

    def expire() -> None:
        with engine.begin() as connection:
            connection.execute(
                text(
                    "UPDATE solid_objects_instances SET activation_expires_at = '2020-01-01 00:00:00.000000' "
                    "WHERE activation_owner_id IS NOT NULL"
                )
            )

    return expire


def test_lease_lost_in_the_handler_commits_nothing(
    make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, expire: Callable[[], None]
) -> None:
    """A's lease is taken over while its handler runs; B runs the message again, and only B's commit counts."""
    one, two = make_runtime(), make_runtime()
    journal = one.journal("a")
    message = journal.add.send(entry="x")
    with checkpoints.hold("turn.handled") as hold:
        first = Background(lambda: one.runtime.worker().run_once())
        hold.wait_reached()
        expire()

        assert two.drain() >= 1
        hold.release()
        first.join()

    assert first.error is None
    assert message.outcome().attempts == 2
    assert journal.entries == ["x"]


def test_expired_lease_that_nobody_took_still_commits(
    make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, expire: Callable[[], None]
) -> None:
    """The fence has no time in it: a finished turn whose lease ran out untaken commits."""
    rt = make_runtime()
    journal = rt.journal("a")
    with checkpoints.hold("turn.handled") as hold:
        call = Background(lambda: journal.add(entry="x"))
        hold.wait_reached()
        expire()
        hold.release()
        call.join()

    assert call.value == 1
    assert journal.entries == ["x"]


def test_destroy_in_the_handler_ends_the_call(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """Destroyed while its handler runs: the commit finds no row, and the caller gets ActorDestroyed."""
    rt = make_runtime()
    journal = rt.journal("a")
    journal.add(entry="before")
    with checkpoints.hold("turn.handled") as hold:
        call = Background(lambda: journal.add(entry="lost"))
        hold.wait_reached()

        assert journal.destroy() is True
        hold.release()
        call.join()

    assert isinstance(call.error, ActorDestroyed)
    assert journal.entries == []


def test_recreated_while_the_handler_runs_is_another_incarnation(
    make_runtime: MakeRuntime, checkpoints: HeldCheckpoints
) -> None:
    """Destroyed and made anew while a handler runs: the late commit does not touch the new incarnation."""
    rt = make_runtime()
    journal = rt.journal("a")
    journal.add(entry="old")
    with checkpoints.hold("turn.handled") as hold:
        call = Background(lambda: journal.add(entry="late"))
        hold.wait_reached()
        journal.destroy()

        assert journal.add(entry="new") == 1
        hold.release()
        call.join()

    assert isinstance(call.error, ActorDestroyed)
    assert journal.entries == ["new"]


def test_two_creators_of_one_actor(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """Two callers make one actor at once: one row, both operations in sequence order."""
    one, two = make_runtime(), make_runtime()
    with checkpoints.hold("call.admitted") as hold:
        first = Background(lambda: one.journal("a").add(entry="one"))
        hold.wait_reached()
        second = Background(lambda: two.journal("a").add(entry="two"))
        checkpoints.wait_count("call.admitted", 2)
        hold.release()
        first.join()
        second.join()

    assert (first.value, second.value) == (1, 2)
    assert len(one.runtime.operators.actors()) == 1
    assert one.journal("a").entries == ["one", "two"]


def test_enqueue_against_release(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """A message that arrives while a turn commits is found afterwards, without any wake-up."""
    rt = make_runtime()
    journal = rt.journal("a")
    with checkpoints.hold("turn.handled") as hold:
        call = Background(lambda: journal.add(entry="one"))
        hold.wait_reached()
        message = journal.add.send(entry="two")
        hold.release()
        call.join()

    assert call.value == 1
    assert rt.drain() == 1
    assert message.result() == 2


def test_pause_lets_the_running_turn_finish(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """Paused while a turn runs: that turn commits, and the next message is not claimed with it."""
    rt = make_runtime()
    journal = rt.journal("a")
    first, second = journal.add.send(entry="one"), journal.add.send(entry="two")
    with checkpoints.hold("turn.handled") as hold:
        worker = Background(lambda: rt.runtime.worker().run_once())
        hold.wait_reached()

        assert rt.runtime.operators.pause(KEY) is True
        hold.release()
        worker.join()

    assert first.status() is MessageStatus.COMPLETED
    assert second.status() is MessageStatus.READY
    assert rt.drain() == 0
    rt.runtime.operators.resume(KEY)
    assert rt.drain() == 1


def test_caller_and_worker_after_one_message(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """A caller that waits and a worker that looks run one message once."""
    rt = make_runtime()
    journal = rt.journal("a")
    message = journal.add.send(entry="x")
    with checkpoints.hold("turn.claimed") as hold:
        worker = Background(lambda: rt.runtime.worker().run_once())
        hold.wait_reached()
        waiter = Background(lambda: message.wait(timeout=10))
        hold.release()
        worker.join()
        waiter.join()

    assert waiter.value == 1
    assert message.outcome().attempts == 1
    assert journal.entries == ["x"]


def test_recovery_against_a_late_commit(
    make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, expire: Callable[[], None]
) -> None:
    """Recovery takes an expired lease over just before its holder commits: the commit is refused, the message waits."""
    one, two = make_runtime(), make_runtime()
    journal = one.journal("a")
    message = journal.add.send(entry="x")
    with checkpoints.hold("turn.handled") as hold:
        holder = Background(lambda: one.runtime.worker().run_once())
        hold.wait_reached()
        expire()
        recovered = two.recover()
        hold.release()
        holder.join()

    assert recovered == 1
    assert message.status() is MessageStatus.READY
    assert two.drain() == 1
    assert journal.entries == ["x"]


def test_skip_takes_a_running_head_from_its_holder(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """An operator skips a head whose handler hangs: its late commit is refused, the next message runs."""
    rt = make_runtime()
    journal = rt.journal("a")
    stuck, following = journal.add.send(entry="stuck"), journal.add.send(entry="next")
    with checkpoints.hold("turn.handled") as hold:
        worker = Background(lambda: rt.runtime.worker().run_once())
        hold.wait_reached()

        assert rt.runtime.operators.skip(KEY) == stuck.id
        assert rt.drain() == 1
        hold.release()
        worker.join()

    assert stuck.status() is MessageStatus.SKIPPED
    with pytest.raises(MessageFailed):
        stuck.result()
    assert following.result() == 1
    assert journal.entries == ["next"]


def test_fail_buries_a_running_head(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """An operator fails a head whose handler hangs: it is a dead letter, whatever the handler does later."""
    rt = make_runtime()
    journal = rt.journal("a")
    stuck = journal.add.send(entry="stuck")
    with checkpoints.hold("turn.handled") as hold:
        worker = Background(lambda: rt.runtime.worker().run_once())
        hold.wait_reached()

        assert rt.runtime.operators.fail(KEY) == stuck.id
        hold.release()
        worker.join()

    assert stuck.status() is MessageStatus.DEAD
    assert [letter.exception_class for letter in rt.runtime.operators.dead_letters()] == ["FailedByOperator"]
    assert journal.entries == []


def test_delayed_send_against_a_ready_one(rt: RuntimeUnderTest, engine: Engine) -> None:
    """A delayed message that falls due takes the place of its sequence before later ones that still wait."""
    journal = rt.journal("a")
    journal.add.using(delay=3600).send(entry="delayed")
    journal.add.send(entry="prompt")
    with engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE solid_objects_ready_messages SET available_at = '2020-01-01 00:00:00.000000' WHERE sequence = 1"
            )
        )
    rt.drain()

    assert journal.entries == ["delayed", "prompt"]


def test_call_that_meets_a_full_stop_is_handed_back(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """A caller whose deadline passes between admit and run hands its claim back, uncounted, at once."""
    rt = make_runtime()
    journal = rt.journal("a")
    journal.add(entry="first")
    with checkpoints.hold("call.admitted") as hold:
        call = Background(lambda: journal.add.using(timeout=0.05)(entry="late"))
        hold.wait_reached()
        threading.Event().wait(0.1)
        hold.release()
        call.join()
    message = call.error.message  # type: ignore[union-attr]

    assert message.status() is MessageStatus.READY
    assert message.outcome().attempts == 0
    assert rt.drain() == 1
    assert journal.entries == ["first", "late"]
