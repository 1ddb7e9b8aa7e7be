"""Calls, queries, reads and snapshots through references, on every database."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.errors import (
    CallTimeout,
    IdempotencyConflict,
    MailboxFull,
    MessageFailed,
    MessagePruned,
    Rejected,
)
from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime


def test_call_returns_the_committed_result(rt: RuntimeUnderTest) -> None:
    """A call runs in the caller's thread, without a worker, and returns what it committed."""
    journal = rt.journal("a")

    assert journal.add(entry="one") == 1
    assert journal.add(entry="two", amount=5) == 2
    assert journal.count() == 2
    assert journal.entries == ["one", "two"]
    assert journal.snapshot().total == 6


def test_actor_that_was_never_used_has_defaults(rt: RuntimeUnderTest) -> None:
    """A snapshot of an unknown actor gives defaults and makes no row."""
    journal = rt.journal("never")

    assert journal.snapshot().entries == []
    assert rt.runtime.operators.actors() == []


def test_results_are_fresh_copies(rt: RuntimeUnderTest) -> None:
    """Changing what a read returned changes neither the actor nor a later read."""
    journal = rt.journal("a")
    journal.add(entry="one")
    journal.entries.append("mine")
    snapshot = journal.snapshot()
    snapshot.entries.append("mine")

    assert journal.entries == ["one"]
    assert snapshot.entries == ["one"]


def test_rejection_rolls_back_and_reaches_the_caller(rt: RuntimeUnderTest) -> None:
    """A rejection is the caller's exception, changes nothing, and is not retried."""
    journal = rt.journal("a")
    with pytest.raises(Rejected) as raised:
        journal.refuse(entry="no")

    assert (raised.value.code, raised.value.details) == ("refused", {"entry": "no"})
    assert journal.entries == []
    assert journal.find_message(idempotency_key="none") is None


def test_failing_operation_is_retried_by_its_caller(rt: RuntimeUnderTest) -> None:
    """A caller whose operation raised runs the retry itself when it is due."""
    assert rt.journal("a").fail_until(attempt=3) == 3


def test_last_attempt_makes_a_dead_letter(make_runtime: MakeRuntime) -> None:
    """After the last attempt the caller gets the stored error, and an operator finds a dead letter."""
    rt = make_runtime(max_attempts=2)
    with pytest.raises(MessageFailed) as raised:
        rt.journal("a").fail(entry="x")
    letters = rt.runtime.operators.dead_letters()

    assert raised.value.details["class"] == "RuntimeError"
    assert [(letter.operation, letter.attempts) for letter in letters] == [("fail", 2)]
    assert rt.journal("a").entries == []


def test_non_retryable_error_dies_at_once(rt: RuntimeUnderTest) -> None:
    """NonRetryableError goes to the dead letters on the first attempt."""
    with pytest.raises(MessageFailed):
        rt.journal("a").fail_for_good()

    assert [letter.attempts for letter in rt.runtime.operators.dead_letters()] == [1]


def test_query_that_changes_state_dies_at_once(rt: RuntimeUnderTest) -> None:
    """A query must not change the state; it fails on the first attempt and changes nothing."""
    journal = rt.journal("a")
    with pytest.raises(MessageFailed) as raised:
        journal.spoil()

    assert raised.value.details["class"] == "QueryMutatedState"
    assert journal.total == 0


def test_sends_run_in_order_before_a_later_call(rt: RuntimeUnderTest) -> None:
    """A caller runs the earlier messages of its actor before its own."""
    journal = rt.journal("a")
    for number in range(5):
        journal.add.send(entry=str(number))

    assert journal.add(entry="last") == 6
    assert journal.entries == ["0", "1", "2", "3", "4", "last"]


def test_idempotency_key_returns_the_first_result(rt: RuntimeUnderTest) -> None:
    """The same key with the same request gives the first result; with another request it is refused."""
    journal = rt.journal("a")
    first = journal.add.using(idempotency_key="k")(entry="one")
    again = journal.add.using(idempotency_key="k")(entry="one")

    assert (first, again) == (1, 1)
    assert journal.entries == ["one"]
    with pytest.raises(IdempotencyConflict):
        journal.add.using(idempotency_key="k")(entry="two")
    with pytest.raises(IdempotencyConflict):
        journal.add.using(idempotency_key="k").send(entry="one")


def test_full_mailbox_refuses_but_repeats_still_answer(make_runtime: MakeRuntime) -> None:
    """The cap refuses a new message, and answers a repeated key."""
    rt = make_runtime(max_mailbox_length=3)
    journal = rt.journal("a")
    for number in range(3):
        journal.add.using(idempotency_key=str(number)).send(entry=str(number))
    with pytest.raises(MailboxFull):
        journal.add.send(entry="more")

    assert journal.add.using(idempotency_key="2").send(entry="2").sequence == 3


def test_timeout_tells_who_holds_the_actor(make_runtime: MakeRuntime, checkpoints: Any) -> None:
    """A call behind a running turn ends with its holder and blocker named, and its message goes on."""
    rt = make_runtime()
    journal = rt.journal("a")
    journal.add(entry="make")
    with checkpoints.hold("turn.claimed") as hold:
        thread = threading.Thread(target=lambda: journal.add(entry="slow"))
        thread.start()
        hold.wait_reached()
        with pytest.raises(CallTimeout) as raised:
            journal.add.using(timeout=0.1)(entry="late")
        hold.release()
        thread.join()
    error = raised.value

    assert (error.status, error.waiting_on) == ("ready", "activation_held")
    assert error.blocker is not None
    assert (error.blocker["operation"], error.blocker["status"]) == ("add", "claimed")
    assert error.activation is not None
    assert error.activation["process"]["kind"] == "caller"
    assert error.message.wait() == 3
    assert error.message.status() is MessageStatus.COMPLETED


def test_pause_stops_calls_and_resume_lets_them_go(rt: RuntimeUnderTest) -> None:
    """A paused actor accepts messages and runs none; resume makes the head findable again."""
    journal = rt.journal("a")
    journal.add(entry="one")
    key = rt.runtime.operators.actors()[0].key

    assert rt.runtime.operators.pause(key) is True
    with pytest.raises(CallTimeout) as raised:
        journal.add.using(timeout=0.1)(entry="two")
    assert raised.value.waiting_on == "actor_paused"
    assert rt.drain() == 0
    assert rt.runtime.operators.resume(key) is True
    assert rt.drain() == 1
    assert raised.value.message.result() == 2


def test_destroy_begins_a_new_incarnation(rt: RuntimeUnderTest) -> None:
    """Destroy removes everything; the next use begins anew under a larger id."""
    journal = rt.journal("a")
    journal.add(entry="one")
    first = rt.runtime.operators.actors()[0].id

    assert journal.destroy() is True
    assert journal.destroy() is False
    assert journal.add(entry="new") == 1
    assert rt.runtime.operators.actors()[0].id > first


def test_delayed_send_does_not_hold_up_others(rt: RuntimeUnderTest) -> None:
    """A message for later is outside the order until it is due."""
    journal = rt.journal("a")
    later = journal.add.using(delay=3600).send(entry="later")

    assert journal.add(entry="now") == 1
    assert rt.drain() == 0
    assert later.status() is MessageStatus.READY


def test_dead_letter_is_retried_as_a_linked_message(make_runtime: MakeRuntime) -> None:
    """Retrying a dead letter sends a copy at the end of the mailbox; pressing twice gives the same message."""
    rt = make_runtime(max_attempts=1)
    journal = rt.journal("a")
    with pytest.raises(MessageFailed):
        journal.fail_until(attempt=1_000)
    letter = rt.runtime.operators.dead_letters()[0]
    message = rt.runtime.operators.retry_dead_letter(letter.id)

    assert rt.runtime.operators.retry_dead_letter(letter.id).id == message.id
    assert rt.runtime.operators.dead_letter(letter.id).retried_message_id == message.id
    assert message.sequence == 2


def test_key_of_a_pruned_message_does_not_run_again(rt: RuntimeUnderTest, engine: Engine) -> None:
    """The actor remembers its last keys, so that a repeat after pruning is answered and not run."""
    journal = rt.journal("a")
    journal.add.using(idempotency_key="k")(entry="one")
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM solid_objects_messages"))
        connection.execute(text("UPDATE solid_objects_instances SET next_message_sequence = 1"))

    for act in (
        lambda: journal.add.using(idempotency_key="k")(entry="one"),
        lambda: journal.find_message(idempotency_key="k"),
    ):
        with pytest.raises(MessagePruned):
            act()
    with pytest.raises(IdempotencyConflict):
        journal.add.using(idempotency_key="k")(entry="two")
    assert journal.snapshot().entries == ["one"]
