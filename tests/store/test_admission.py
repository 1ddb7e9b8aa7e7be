"""Admission: a sequence for every message, and the right to run it only where nothing runs, waits or forbids."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from flask_solid_objects.errors import ActorDestroyed, CommitUnknown, IdempotencyConflict, MailboxFull
from flask_solid_objects.values import ActorKey, MessageStatus
from tests.checkpoints import HeldCheckpoints
from tests.store.acts import KEY, LEASE, MAILBOX, OTHER, Acts

# -- sequences ---------------------------------------------------------------------------------


def test_sequences_have_no_gaps(acts: Acts) -> None:
    """Calls, sends, delayed sends and keyed sends are numbered from one, and each actor has numbers of its own."""
    given = [acts.call().sequence, acts.send().sequence, acts.send(delay=60).sequence]
    given += [acts.send(idempotency_key="k").sequence, acts.call().sequence]

    assert given == [1, 2, 3, 4, 5]
    assert acts.send(OTHER).sequence == 1


def test_unit_that_fails_gives_its_sequence_back(acts: Acts) -> None:
    """A message that was not committed leaves no hole behind it."""
    acts.send()

    def fail_after(tx: object) -> None:
        acts.store.admission.admit(tx, acts.new(), None)  # type: ignore[arg-type]
        raise RuntimeError("after the admission")

    with pytest.raises(RuntimeError):
        acts.db.transact("admit", fail_after)
    assert acts.send().sequence == 2


# -- who may run at once -----------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [False, True], ids=["one statement", "general form"])
def test_call_of_a_free_actor_is_claimed(acts: Acts, keyed: bool) -> None:
    """A new actor and an idle one are claimed in the admission itself, on the first attempt."""
    first = acts.run(idempotency_key="k" if keyed else None)
    acts.finish(first)
    second = acts.run(idempotency_key="l" if keyed else None)

    assert [(claim.message.sequence, claim.message.attempt, claim.lease.generation) for claim in (first, second)] == [
        (1, 1, 1),
        (2, 1, 2),
    ]
    assert (first.state.text, first.state.revision) == ("{}", 0)
    assert (second.state.revision, second.state.version) == (1, 1)
    assert [(second.message.id, second.lease.token)] == [(c.message_id, c.activation_token) for c in acts.claims()]
    assert (
        timedelta(0)
        < acts.instance().activation_expires_at.replace(tzinfo=UTC) - second.now
        <= timedelta(seconds=LEASE + 1)
    )


@pytest.mark.parametrize("keyed", [False, True], ids=["one statement", "general form"])
@pytest.mark.parametrize("why", ["held", "expired", "paused", "parked", "backlog", "due delayed", "back-off"])
def test_call_of_an_actor_that_is_not_free_waits(acts: Acts, why: str, keyed: bool) -> None:
    """Nothing is claimed while somebody holds the lease, an operator or a failed activation forbids, or others wait."""
    if why == "due delayed":
        acts.send(delay=60)
        acts.pass_time(61)
    elif why == "backlog":
        acts.send()
    else:
        claim = acts.run()
        if why == "paused":
            acts.finish(claim)
            acts.pause()
        elif why == "back-off":
            acts.fail(claim, retry=60)
        elif why == "parked":
            acts.park(claim, 60)
        elif why == "expired":
            acts.pass_time(2 * LEASE)
    before = acts.instance()
    enqueued = acts.call(idempotency_key="k" if keyed else None)
    after = acts.instance()

    assert enqueued.claim is None
    assert enqueued.message_id == acts.waiting()[-1].message_id
    assert MessageStatus.READY is acts.record(enqueued.message_id).status
    assert acts.record(enqueued.message_id).attempts == 0
    assert (before.activation_owner_id, before.activation_generation) == (
        after.activation_owner_id,
        after.activation_generation,
    )
    assert after.has_backlog is True
    if why == "paused":
        assert after.ready_at is None
    elif why == "parked":
        assert before.parked_until == after.ready_at


@pytest.mark.parametrize("keyed", [False, True], ids=["one statement", "general form"])
def test_parking_alone_keeps_callers_off(acts: Acts, keyed: bool) -> None:
    """A parked actor whose message is a delayed one has no backlog and no hint before the end: it is not free."""
    acts.send(delay=60)
    acts.pass_time(61)
    acts.park(acts.take(), 60)
    until = acts.instance().parked_until
    assert acts.hints() == (until, False)

    assert acts.call(idempotency_key="k" if keyed else None).claim is None
    assert acts.hints() == (until, True)


@pytest.mark.parametrize("keyed", [False, True], ids=["one statement", "general form"])
def test_delayed_message_that_is_not_due_stops_no_call(acts: Acts, keyed: bool) -> None:
    """A call overtakes a delayed message whose time has not come, and leaves the hint for it."""
    acts.send(delay=60)
    due = acts.instance().ready_at
    claim = acts.run(idempotency_key="k" if keyed else None)

    assert claim.message.sequence == 2
    assert acts.hints() == (due, False)
    acts.finish(claim)
    assert acts.hints() == (due, False)


def test_claim_after_the_parking_is_over(acts: Acts) -> None:
    """A parking whose time has passed keeps no caller off once nothing waits."""
    acts.finish(acts.run())
    acts.change(parked_until=datetime(2020, 1, 1), parked_count=1)

    claim = acts.run()
    assert claim.parked_count == 1


# -- sends and their hints ---------------------------------------------------------------------


def test_send_never_claims_and_is_found_at_once(acts: Acts) -> None:
    """A send waits even where the actor is free; the hints say that there is work now."""
    enqueued = acts.send()
    ready_at, has_backlog = acts.hints()

    assert enqueued.claim is None
    assert acts.claims() == []
    assert has_backlog is True
    assert acts.waiting()[0].available_at >= ready_at


def test_delayed_send_only_lowers_the_hint(acts: Acts) -> None:
    """A delay sets the due time as the hint, a later one leaves it, an earlier one lowers it; there is no backlog."""
    hints = []
    for delay in (60.0, 90.0, 30.0):
        acts.send(delay=delay)
        hints.append(acts.hints())
    dues = [row.available_at for row in acts.waiting()]

    assert [(dues[0], False), (dues[0], False), (dues[2], False)] == hints
    assert [row.delayed for row in acts.waiting()] == [True, True, True]


def test_moment_in_the_past_is_no_delay(acts: Acts) -> None:
    """A message for a moment that has passed is immediate, and one for the future is due exactly then."""
    acts.send(at=datetime(2020, 1, 1, tzinfo=UTC))
    later = datetime(2100, 1, 1, 12, 30, 15, 250000, tzinfo=UTC)
    sent = acts.send(at=later)

    assert [row.delayed for row in acts.waiting()] == [False, True]
    assert later == acts.record(sent.message_id).available_at


@pytest.mark.parametrize("delay", [None, 60.0])
def test_send_to_a_paused_actor_stays_hidden(acts: Acts, delay: float | None) -> None:
    """While paused, only the backlog is noted; resuming finds the message at its time."""
    acts.finish(acts.run())
    acts.pause()
    acts.send(delay=delay)

    assert acts.hints() == (None, delay is None)
    acts.resume()
    due = acts.waiting()[0].available_at
    ready_at, has_backlog = acts.hints()
    assert has_backlog is (delay is None)
    assert ready_at == due if delay else ready_at >= due


# -- the limit of a mailbox --------------------------------------------------------------------


def test_full_mailbox_takes_nothing(acts: Acts) -> None:
    """At the limit sends, calls and delayed sends are refused, and nothing of them is stored."""
    for _ in range(MAILBOX):
        acts.send()
    before = acts.everything()

    for values in ({}, {"delay": 5.0}, {"idempotency_key": "k"}):
        with pytest.raises(MailboxFull):
            acts.send(**values)
    with pytest.raises(MailboxFull):
        acts.call()
    assert before == acts.everything()
    acts.take()
    assert acts.send().sequence == MAILBOX + 1


def test_limit_counts_waiting_messages_only(acts: Acts) -> None:
    """A wide span of sequences is counted, and what has ended or runs does not count."""
    acts.send(delay=60)
    for _ in range(MAILBOX + 2):
        acts.finish(acts.run())
    for _ in range(MAILBOX - 1):
        acts.send()

    with pytest.raises(MailboxFull):
        acts.send()


def test_known_key_is_answered_by_a_full_mailbox(acts: Acts) -> None:
    """The look-up of an idempotency key comes before the limit."""
    sent = acts.send(idempotency_key="k")
    for _ in range(MAILBOX - 1):
        acts.send()

    assert sent.message_id == acts.send(idempotency_key="k").message_id


# -- idempotency -------------------------------------------------------------------------------


def test_same_key_gives_the_same_message(acts: Acts) -> None:
    """A second request with the key is answered with the first message, whatever the spelling of its arguments."""
    first = acts.send(idempotency_key="k", arguments='{"a": 1, "b": [2]}')
    second = acts.send(idempotency_key="k", arguments='{"b":[2],"a":1}')

    assert (first.message_id, first.sequence, first.request_id, True) == (
        second.message_id,
        second.sequence,
        second.request_id,
        second.existing,
    )
    assert acts.instance().next_message_sequence == 2
    assert first.existing is False


@pytest.mark.parametrize("values", [{"arguments": '{"a": 2}'}, {"operation": "drop"}, {"delivery_mode": "internal"}])
def test_key_of_another_request_is_a_conflict(acts: Acts, values: dict[str, Any]) -> None:
    """A key that stands for another request is refused, with the message that it stands for."""
    first = acts.send(idempotency_key="k", arguments='{"a": 1}')
    before = acts.everything()

    with pytest.raises(IdempotencyConflict) as conflict:
        acts.send(**({"idempotency_key": "k", "arguments": '{"a": 1}'} | values))
    assert first.message_id == conflict.value.message_id
    assert before == acts.everything()


@pytest.mark.parametrize("end", ["completed", "dead", "claimed"])
def test_key_of_a_finished_message_runs_nothing(acts: Acts, end: str) -> None:
    """A message that has ended, or that somebody runs, is given back as it is; a caller gets no claim."""
    claim = acts.run(idempotency_key="k")
    if end == "completed":
        acts.finish(claim)
    if end == "dead":
        acts.fail(claim)
    again = acts.call(idempotency_key="k")

    assert (claim.message.id, True, None) == (again.message_id, again.existing, again.claim)
    assert MessageStatus(end) is acts.record(again.message_id).status


# -- names -------------------------------------------------------------------------------------

SPELLINGS = ["a", "A", "á", "a ", " a", "a\u0301", "ａ", "\U0001f600", "ß", "ss"]


def test_actor_ids_compare_byte_for_byte(acts: Acts) -> None:
    """Ids that differ in case, accent, width, normal form or spaces are different actors."""
    made = {spelling: acts.send(ActorKey(actor_type="Counter", actor_id=spelling)) for spelling in SPELLINGS}

    assert len(SPELLINGS) == len({enqueued.instance_id for enqueued in made.values()})
    for spelling, enqueued in made.items():
        assert spelling == acts.record(enqueued.message_id).key.actor_id
        assert enqueued.sequence == 1


def test_idempotency_keys_compare_byte_for_byte(acts: Acts) -> None:
    """Keys that differ in case, accent, width, normal form or spaces are different requests."""
    made = [acts.send(idempotency_key=spelling) for spelling in SPELLINGS]

    assert len(SPELLINGS) == len({enqueued.message_id for enqueued in made})
    assert [acts.record(enqueued.message_id).idempotency_key for enqueued in made] == SPELLINGS


def test_key_belongs_to_its_actor(acts: Acts) -> None:
    """Another actor may use the same key, and so may a type that differs in case."""
    keys = [KEY, OTHER, replace(KEY, actor_type="counter")]

    assert len({acts.send(key, idempotency_key="k").message_id for key in keys}) == 3


# -- repeats and incarnations ------------------------------------------------------------------


@pytest.mark.parametrize("values", [{}, {"idempotency_key": "k"}])
def test_repeat_after_an_unknown_commit_gets_its_claim(
    acts: Acts, checkpoints: HeldCheckpoints, values: dict[str, Any]
) -> None:
    """The commit was done and its answer lost: the same request and token give the claim, and no second message."""
    acts.finish(acts.run())
    new, claimant = acts.new(**values), acts.claimant()
    checkpoints.fail("admit.acknowledging", ConnectionError)
    with pytest.raises(CommitUnknown):
        acts.admit(new, claimant)
    again = acts.admit(new, claimant, repeated=True)

    assert again.existing is True
    assert again.claim is not None
    assert (again.sequence, again.claim.lease.generation, again.claim.message.attempt) == (2, 2, 1)
    acts.finish(again.claim)
    assert MessageStatus.COMPLETED is acts.record(again.message_id).status
    assert acts.instance().next_message_sequence == 3


def test_repeat_of_what_was_not_stored_stores_it(acts: Acts) -> None:
    """A repeat whose first try left nothing is an admission like any other."""
    enqueued = acts.admit(acts.new(), acts.claimant(), repeated=True)

    assert enqueued.existing is False
    assert enqueued.claim is not None


@pytest.mark.parametrize("lost", ["taken over", "finished", "other token"])
def test_repeat_claims_nothing_that_is_not_ours(acts: Acts, lost: str) -> None:
    """When the first try's claim has gone, or was made under another token, the repeat only knows the message."""
    new, claimant = acts.new(), acts.claimant()
    claim = acts.admit(new, claimant).claim
    assert claim is not None
    if lost == "taken over":
        acts.pass_time(2 * LEASE)
        acts.recover(claim.lease.instance_id)
    if lost == "finished":
        acts.finish(claim)
    again = acts.admit(new, acts.claimant() if lost == "other token" else claimant, repeated=True)

    assert (claim.message.id, None) == (again.message_id, again.claim)


def test_repeat_follows_the_claim_to_its_generation(acts: Acts) -> None:
    """The generation is the one that is read, not the one that the first try would have had."""
    new, claimant = acts.new(), acts.claimant()
    claim = acts.admit(new, claimant).claim
    assert claim is not None
    acts.under_lock("advance", KEY, lambda tx, _: acts.store.leases.advance(tx, claim.lease))
    again = acts.admit(new, claimant, repeated=True).claim

    assert again is not None
    assert again.lease.generation == 2
    acts.finish(again)


def test_request_is_looked_up_before_the_key(acts: Acts) -> None:
    """A repeat finds its own request even where its key would now be a conflict."""
    new = acts.new(idempotency_key="k")
    sent = acts.admit(new)

    assert sent.message_id == acts.admit(replace(new, arguments='{"a": 1}'), repeated=True).message_id


@pytest.mark.parametrize("repeated", [False, True])
def test_named_incarnation_is_never_made_anew(acts: Acts, repeated: bool) -> None:
    """A request for an incarnation that is gone makes no other one, and does not reach the one that followed."""
    first = acts.send()
    acts.destroy()
    with pytest.raises(ActorDestroyed):
        acts.admit(acts.new(instance_id=first.instance_id), acts.claimant(), repeated=repeated)
    second = acts.send()

    assert second.instance_id > first.instance_id
    assert second.sequence == 1
    with pytest.raises(ActorDestroyed):
        acts.admit(acts.new(instance_id=first.instance_id), acts.claimant(), repeated=repeated)
    named = acts.admit(acts.new(instance_id=second.instance_id))
    assert (second.instance_id, 2) == (named.instance_id, named.sequence)


def test_message_of_a_retry_says_where_it_came_from(acts: Acts) -> None:
    """The cause of a message is stored with it, in the one statement and in the general form."""
    first = acts.send()
    sent = [acts.send(caused_by=first.message_id, idempotency_key=key) for key in (None, "k")]
    m = acts.tables.messages
    with acts.engine.connect() as connection:
        rows = connection.execute(select(m.c.id, m.c.caused_by)).all()

    assert {enqueued.message_id: first.message_id for enqueued in sent} == {
        r.id: r.caused_by for r in rows if r.caused_by
    }
