"""The ends of a turn: commit, commit and go on, reject, fail; each under the fence, or nothing at all."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from flask_solid_objects.errors import ActorDestroyed, LostActivation
from flask_solid_objects.store.completion import Completion
from flask_solid_objects.values import Claim, InstanceState, MessageStatus
from tests.store.acts import LEASE, Acts, document, state_after

# -- commit ------------------------------------------------------------------------------------


def test_commit_stores_the_state_and_frees_the_actor(acts: Acts) -> None:
    """A finished turn leaves state, version, revision and result, and neither lease nor claim."""
    claim = acts.run()
    state = InstanceState(text='{"value": 7}', version=3, revision=5)
    acts.finish(claim, Completion(state=state, result='{"total": 7}'))
    row, record = acts.instance(), acts.record(claim.message.id)

    assert (document(row.state), row.state_version, row.state_revision) == ({"value": 7}, 3, 5)
    assert (
        row.activation_owner_id,
        row.activation_token,
        row.activation_expires_at,
        row.activation_generation,
    ) == (None, None, None, 1)
    assert (record.status, json.loads(str(record.result))) == (MessageStatus.COMPLETED, {"total": 7})
    assert record.completed_at is not None
    assert acts.claims() == []
    assert (row.last_used_at is None, row.touched_at is None) == (False, False)


def test_query_leaves_state_and_revision(acts: Acts) -> None:
    """A turn without a new state ends its message and leaves the rest of the row."""
    acts.finish(acts.run())
    before = acts.instance()
    claim = acts.run()
    acts.finish(claim, Completion(state=None, result="2"))
    after = acts.instance()

    assert (before.state, before.state_revision) == (after.state, after.state_revision)
    assert acts.record(claim.message.id).result == "2"


@pytest.mark.parametrize("go_on", [False, True])
@pytest.mark.parametrize("changes", [False, True])
def test_remembered_keys_are_replaced_only_when_given(acts: Acts, changes: bool, go_on: bool) -> None:
    """The memory of finished keys is written with and without a state, and stays when nothing is given."""
    for keys in ('{"k": 1}', None):
        claim = acts.run()
        assert claim.state.remembered_keys is None or json.loads(claim.state.remembered_keys) == {"k": 1}
        completion = Completion(state=state_after(claim) if changes else None, result="1", remembered_keys=keys)
        _ = acts.go_on(claim, completion) if go_on else acts.finish(claim, completion)  # type: ignore[func-returns-value]

    assert document(acts.instance().completed_idempotency_keys) == {"k": 1}


@pytest.mark.parametrize("go_on", [False, True])
def test_rejection_is_stored_and_changes_no_state(acts: Acts, go_on: bool) -> None:
    """A turn that says no ends its message as rejected, with its reason and without a result."""
    acts.finish(acts.run())
    before = acts.instance()
    claim = acts.run()
    rejection = Completion(state=None, rejection='{"code": "closed", "message": "It is closed."}')
    _ = acts.go_on(claim, rejection) if go_on else acts.finish(claim, rejection)  # type: ignore[func-returns-value]
    record = acts.record(claim.message.id)

    assert (record.status, record.result) == (MessageStatus.REJECTED, None)
    assert json.loads(str(record.rejection))["code"] == "closed"
    assert (before.state, before.state_revision) == (acts.instance().state, acts.instance().state_revision)


RESULTS = [
    None,
    "null",
    "true",
    "0",
    "-1",
    "9223372036854775807",
    "9007199254740993",
    "0.1",
    "1.0",
    "2.5e-7",
    '"12"',
    '""',
]
RESULTS += ['"é\\n\\"\U0001f600"', "[1, [2, {}]]", '{"a": {"b": null}}']


@pytest.mark.parametrize("result", RESULTS)
def test_results_come_back_as_they_were(acts: Acts, result: str | None) -> None:
    """Every kind of JSON is read as what was stored, whatever the column does with numbers."""
    claim = acts.run()
    acts.finish(claim, Completion(state=None, result=result))
    stored = acts.record(claim.message.id).result

    if result is None:
        assert stored is None
    else:
        assert isinstance(stored, str)
        assert json.loads(result) == json.loads(stored)


def test_expired_lease_that_nobody_took_still_commits(acts: Acts) -> None:
    """The fence has no time in it."""
    claim = acts.run()
    acts.pass_time(3 * LEASE)
    acts.finish(claim)

    assert MessageStatus.COMPLETED is acts.record(claim.message.id).status


def test_running_turn_of_a_paused_actor_finishes(acts: Acts) -> None:
    """A pause lets the turn that runs commit, and leaves the actor out of the search."""
    claim = acts.run()
    acts.send()
    acts.pause()
    acts.finish(claim)

    assert MessageStatus.COMPLETED is acts.record(claim.message.id).status
    assert acts.hints() == (None, True)


# -- the fence ---------------------------------------------------------------------------------


def _ends(acts: Acts) -> dict[str, Callable[[Claim], object]]:
    """Every way to end a turn, among them each form of the one statement."""
    rejection = Completion(state=None, rejection='{"code": "no", "message": "no"}')
    return {
        "state": acts.finish,
        "query": lambda claim: acts.finish(claim, Completion(state=None, result="1")),
        "keys": lambda claim: acts.finish(claim, Completion(state=None, remembered_keys="{}")),
        "state and keys": lambda claim: acts.finish(claim, Completion(state=state_after(claim), remembered_keys="{}")),
        "rejection": lambda claim: acts.finish(claim, rejection),
        "go on": acts.go_on,
        "yield": lambda claim: acts.go_on(claim, go_on=False),
        "retry": lambda claim: acts.fail(claim, retry=5),
        "dead": acts.fail,
    }


ENDS = ["state", "query", "keys", "state and keys", "rejection", "go on", "yield", "retry", "dead"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("wrong", ["owner", "token", "generation", "later generation", "message"])
def test_fence_lets_nothing_through(acts: Acts, wrong: str, end: str) -> None:
    """With a wrong owner, token, generation or message an end is refused, and no row of any table changes."""
    acts.finish(acts.run())
    claim = acts.run()
    stranger = acts.send()
    lease = claim.lease
    false_claim = {
        "owner": replace(claim, lease=replace(lease, owner=str(uuid.uuid4()))),
        "token": replace(claim, lease=replace(lease, token=str(uuid.uuid4()))),
        "generation": replace(claim, lease=replace(lease, generation=lease.generation - 1)),
        "later generation": replace(claim, lease=replace(lease, generation=lease.generation + 1)),
        "message": replace(claim, message=replace(claim.message, id=stranger.message_id)),
    }[wrong]
    before = acts.everything()

    with pytest.raises(LostActivation):
        _ends(acts)[end](false_claim)
    assert before == acts.everything()
    acts.finish(claim)


@pytest.mark.parametrize("end", ENDS)
def test_turn_ends_once(acts: Acts, end: str) -> None:
    """A second end of the same claim is refused and changes nothing."""
    claim = acts.run()
    acts.send()
    _ends(acts)[end](claim)
    before = acts.everything()

    for each in ENDS:
        with pytest.raises(LostActivation):
            _ends(acts)[each](claim)
    assert before == acts.everything()


@pytest.mark.parametrize("end", ENDS)
def test_turn_of_a_destroyed_actor_writes_nothing(acts: Acts, end: str) -> None:
    """The end of a turn does not reach the incarnation that followed."""
    claim = acts.run()
    acts.destroy()
    acts.run()
    before = acts.everything()

    with pytest.raises((LostActivation, ActorDestroyed)):
        _ends(acts)[end](claim)
    assert before == acts.everything()


# -- commit and go on --------------------------------------------------------------------------


def test_claim_row_is_updated_in_place(acts: Acts) -> None:
    """Going on moves the one claim row to the next message, under the same token and the next generation."""
    claim = acts.run()
    following = acts.send()
    before = acts.claims()[0]
    moved = acts.go_on(claim)
    after = acts.claims()[0]

    assert moved is not None
    assert (before.id, following.message_id, claim.lease.token, 2) == (
        after.id,
        after.message_id,
        after.activation_token,
        after.activation_generation,
    )
    assert (claim.lease.token, 2, 1) == (moved.lease.token, moved.lease.generation, moved.message.attempt)
    assert MessageStatus.COMPLETED is acts.record(claim.message.id).status
    assert acts.waiting() == []


@pytest.mark.parametrize("changes", [False, True])
def test_next_turn_sees_what_was_stored(acts: Acts, changes: bool) -> None:
    """The state that comes with the next claim is the one that the row holds."""
    acts.finish(acts.run())
    claim = acts.run()
    acts.send()
    moved = acts.go_on(claim, Completion(state=state_after(claim, '{"value": 9}') if changes else None, result="1"))
    row = acts.instance()

    assert moved is not None
    assert (document(row.state), row.state_version, row.state_revision) == (
        json.loads(moved.state.text),
        moved.state.version,
        moved.state.revision,
    )


def test_going_on_renews_the_lease(acts: Acts) -> None:
    """The next turn has a whole lease, from the time of its claim."""
    claim = acts.run()
    acts.send()
    acts.pass_time(LEASE - 1)
    before = acts.instance().activation_expires_at
    acts.go_on(claim)

    assert (acts.instance().activation_expires_at - before).total_seconds() > LEASE - 2


def test_going_on_takes_the_due_head_and_leaves_hints_of_the_rest(acts: Acts) -> None:
    """The next message is the head by the rule, and the hints are those of what then remains."""
    acts.send(delay=60)
    acts.send()
    acts.send(delay=90)
    acts.pass_time(61)
    first = acts.take()
    assert first.message.sequence == 1
    second = acts.go_on(first)

    assert second is not None
    assert second.message.sequence == 2
    assert acts.hints() == (acts.waiting()[0].available_at, False)


@pytest.mark.parametrize("why", ["nothing waits", "not due", "paused", "yield"])
def test_nothing_to_go_on_with_frees_the_actor(acts: Acts, why: str) -> None:
    """Where nothing may follow, the turn is committed and the lease goes; what waits can be found."""
    claim = acts.run()
    if why != "nothing waits":
        acts.send(delay=60 if why == "not due" else None)
    if why == "paused":
        acts.pause()
    assert acts.go_on(claim, go_on=why != "yield") is None

    assert MessageStatus.COMPLETED is acts.record(claim.message.id).status
    assert acts.instance().activation_owner_id is None
    assert acts.claims() == []
    due = acts.waiting()[0].available_at if why == "not due" else None
    if why == "yield":
        assert acts.hints()[1] is True
    else:
        assert acts.hints() == (due, why == "paused")


def test_yielding_actor_goes_to_the_end_of_the_line(acts: Acts) -> None:
    """A yield moves a hint that has passed to now, so that those who waited meanwhile come first."""
    claim = acts.run()
    acts.send()
    acts.pass_time(60)
    before = acts.db.read(lambda tx: tx.now())
    acts.go_on(claim, go_on=False)

    ready_at = acts.hints()[0].replace(tzinfo=UTC)
    assert before <= ready_at <= acts.db.read(lambda tx: tx.now())


# -- failure -----------------------------------------------------------------------------------


def test_failed_turn_waits_for_its_retry(acts: Acts) -> None:
    """A failure stores the error and the time of the retry, keeps attempts and state, and frees the actor."""
    claim = acts.run()
    before = acts.instance()
    acts.fail(claim, retry=60, remembered_keys='{"k": 1}')
    row, record, waiting = acts.instance(), acts.record(claim.message.id), acts.waiting()

    assert (record.status, record.attempts) == (MessageStatus.READY, 1)
    assert json.loads(str(record.error))["class"] == "ValueError"
    assert [(r.sequence, r.delayed, r.blocking) for r in waiting] == [(1, False, True)]
    assert 59 < (waiting[0].available_at.replace(tzinfo=UTC) - claim.now).total_seconds() < 90
    assert (before.state, 0, None) == (row.state, row.state_revision, row.activation_owner_id)
    # The key of a message that will be tried again is not finished.
    assert row.completed_idempotency_keys is None
    acts.pass_time(90)
    assert acts.take().message.attempt == 2


def test_retried_message_that_succeeds_shows_no_error(acts: Acts) -> None:
    """The error of an earlier attempt does not make a completed message look skipped."""
    claim = acts.run()
    acts.fail(claim, retry=1)
    acts.pass_time(2)
    acts.finish(acts.take())

    assert (
        acts.record(claim.message.id).status,
        acts.record(claim.message.id).error,
    ) == (MessageStatus.COMPLETED, None)


def test_rejection_after_a_failed_attempt_shows_no_error(acts: Acts) -> None:
    """A message that failed once and was then rejected is rejected."""
    claim = acts.run()
    acts.fail(claim, retry=1)
    acts.pass_time(2)
    acts.finish(acts.take(), Completion(state=None, rejection='{"code": "no", "message": "no"}'))

    assert (acts.record(claim.message.id).status, acts.record(claim.message.id).error) == (MessageStatus.REJECTED, None)


def test_last_failure_makes_way_for_the_next_message(acts: Acts) -> None:
    """Without a retry the message is dead, its key remembered, and the next one is the head at once."""
    claim = acts.run()
    following = acts.send()
    acts.fail(claim, remembered_keys='{"k": 1}')

    assert MessageStatus.DEAD is acts.record(claim.message.id).status
    assert document(acts.instance().completed_idempotency_keys) == {"k": 1}
    assert following.message_id == acts.take().message.id


def test_failure_while_paused_stays_hidden(acts: Acts) -> None:
    """A paused actor's failing message waits unseen, and blocks after the resume."""
    claim = acts.run()
    acts.pause()
    acts.fail(claim, retry=60)
    assert acts.hints() == (None, True)
    acts.resume()

    assert acts.hints() == (acts.waiting()[0].available_at, True)


def test_commit_leaves_hints_that_others_wrote(acts: Acts) -> None:
    """What arrived while the turn ran stays findable through its commit and its failure."""
    for end in ("state", "dead"):
        claim = acts.run()
        sent = acts.send()
        before = acts.hints()
        _ends(acts)[end](claim)
        assert before == acts.hints()
        last = acts.take()
        assert sent.message_id == last.message.id
        acts.finish(last)


def test_hint_of_a_delayed_message_survives_a_failure(acts: Acts) -> None:
    """A retry later than another hint does not raise it."""
    claim = acts.run()
    acts.send(delay=30)
    early: datetime = acts.instance().ready_at
    acts.fail(claim, retry=60)
    hints: tuple[Any, bool] = acts.hints()

    assert hints == (early, True)
