"""The lease: taken by a claim, kept by renewal, given back uncounted, taken over counted."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, select

from flask_solid_objects.errors import LostActivation
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import Lease, MessageStatus
from tests import requires
from tests.store.acts import CRASHED, KEY, LEASE, OTHER, Acts


def renew(acts: Acts, lease: Lease, *, seconds: float = 50.0, wait: bool = True) -> bool | None:
    return acts.db.transact("renew", lambda tx: acts.store.leases.renew(tx, lease, seconds=seconds, wait=wait))


# -- taking ------------------------------------------------------------------------------------


def test_claim_takes_lease_and_claim_row_together(acts: Acts) -> None:
    """A claim counts the attempt, advances the generation and writes one claim row that agrees with the lease."""
    sent = acts.send(arguments='{"by": 2}')
    claim = acts.take()
    row, claimed = acts.instance(), acts.claims()

    assert (sent.message_id, 1, 1) == (claim.message.id, claim.message.attempt, claim.lease.generation)
    assert (acts.owner, claim.lease.token, 1) == (
        row.activation_owner_id,
        row.activation_token,
        row.activation_generation,
    )
    assert [(sent.message_id, acts.owner, claim.lease.token, 1)] == [
        (c.message_id, c.process_id, c.activation_token, c.activation_generation) for c in claimed
    ]
    assert acts.waiting() == []
    assert acts.record(sent.message_id).attempts == 1
    assert acts.record(sent.message_id).status is MessageStatus.CLAIMED


def test_lease_lasts_from_the_time_of_its_claim(acts: Acts) -> None:
    """The expiry is the database's time of the claim plus the length of the lease."""
    acts.send()
    claim = acts.take()

    assert acts.instance().activation_expires_at.replace(tzinfo=claim.now.tzinfo) == claim.now + timedelta(
        seconds=LEASE
    )


def test_claim_carries_what_the_mailbox_stored(acts: Acts) -> None:
    """The claimed message is the stored one, with its arguments, key and request."""
    sent = acts.send(arguments='{"by": 2}', idempotency_key="k", operation="subtract", max_attempts=7)
    message = acts.take().message

    assert (sent.message_id, sent.sequence, sent.request_id) == (message.id, message.sequence, message.request_id)
    assert (
        message.operation,
        message.delivery_mode,
        message.idempotency_key,
        message.max_attempts,
    ) == ("subtract", "async", "k", 7)
    assert message.arguments.replace(" ", "") == '{"by":2}'


@pytest.mark.parametrize("hindrance", ["paused", "parked", "empty", "not due"])
def test_no_claim_of_what_may_not_run(acts: Acts, hindrance: str) -> None:
    """Paused, parked, without a message or without a due one, an actor is not claimed and its attempts stay."""
    if hindrance == "empty":
        acts.finish(acts.run())
    else:
        acts.send(delay=60 if hindrance == "not due" else None)
    if hindrance == "paused":
        acts.pause()
    if hindrance == "parked":
        acts.park(acts.take(), 60)
    before = acts.instance()

    assert acts.claim() is None
    assert (None, before.activation_generation) == (
        acts.instance().activation_owner_id,
        acts.instance().activation_generation,
    )
    assert acts.claims() == []


def test_every_claimed_turn_advances_the_generation(acts: Acts) -> None:
    """Calls, claims and continued turns each have a generation of their own, one higher than the last."""
    first = acts.run()
    acts.send()
    second = acts.go_on(first)
    assert second is not None
    acts.finish(second)

    assert [first.lease.generation, second.lease.generation, acts.run().lease.generation] == [1, 2, 3]


# -- keeping -----------------------------------------------------------------------------------


def test_renewal_moves_the_expiry_and_nothing_else(acts: Acts) -> None:
    """A renewed lease ends later and keeps its generation."""
    claim = acts.run()
    before = acts.instance()

    assert renew(acts, claim.lease) is True
    after = acts.instance()
    assert timedelta(seconds=19) < after.activation_expires_at - before.activation_expires_at
    assert (before.activation_generation, before.ready_at) == (after.activation_generation, after.ready_at)


def test_expired_lease_that_nobody_took_is_renewed(acts: Acts) -> None:
    """Its holder may renew a lease that ran out, as long as nobody has taken it over."""
    claim = acts.run()
    acts.pass_time(2 * LEASE)

    assert renew(acts, claim.lease) is True
    assert acts.recover(claim.lease.instance_id) is None


def test_renewal_does_not_look_at_the_generation(acts: Acts) -> None:
    """A keeper that knows an older turn of the same lease renews it all the same."""
    claim = acts.run()
    acts.send()
    assert acts.go_on(claim) is not None

    assert renew(acts, claim.lease) is True


@pytest.mark.parametrize("wrong", ["owner", "token"])
def test_renewal_of_a_lease_that_is_not_ours(acts: Acts, wrong: str) -> None:
    """With another owner or token nothing is renewed."""
    lease, unknown = acts.run().lease, str(uuid.uuid4())
    false_lease = replace(lease, owner=unknown) if wrong == "owner" else replace(lease, token=unknown)
    before = acts.everything()

    assert renew(acts, false_lease) is False
    assert before == acts.everything()


def test_renewal_of_a_destroyed_actor(acts: Acts) -> None:
    """A lease goes with its actor."""
    claim = acts.run()
    acts.destroy()

    assert renew(acts, claim.lease) is False


@requires.skip_locked
def test_renewal_passes_over_a_locked_actor(acts: Acts, engine: Engine, tables: Tables) -> None:
    """Who does not wait is told that somebody else has the row, and may come back with waiting."""
    claim = acts.run()
    with engine.begin() as connection:
        connection.execute(select(tables.instances.c.id).with_for_update())

        assert renew(acts, claim.lease, wait=False) is None
    assert renew(acts, claim.lease, wait=True) is True


# -- giving back -------------------------------------------------------------------------------


def test_hand_back_is_uncounted_and_keeps_the_place(acts: Acts) -> None:
    """A message that is handed back has its attempt back and is the head again."""
    claim = acts.run()
    later = acts.send()
    acts.hand_back(claim)

    assert acts.record(claim.message.id).attempts == 0
    assert [(r.sequence, r.delayed, r.blocking) for r in acts.waiting()] == [(1, False, False), (2, False, False)]
    assert acts.instance().activation_owner_id is None
    assert acts.claims() == []
    again = acts.take()
    assert (claim.message.id, 1) == (again.message.id, again.message.attempt)
    acts.finish(again)
    assert later.message_id == acts.take().message.id


def test_hand_back_sets_the_hints(acts: Acts) -> None:
    """The actor is found at once, and no call passes the message by."""
    claim = acts.run()
    acts.hand_back(claim)

    ready_at, has_backlog = acts.hints()
    assert has_backlog is True
    assert ready_at is not None
    assert acts.call().claim is None


def test_hand_back_keeps_the_delayed_flag(acts: Acts) -> None:
    """A delayed message that is handed back is still one, due as before, and is no backlog."""
    acts.send(delay=60)
    due = acts.waiting()[0].available_at
    acts.pass_time(60)
    acts.hand_back(acts.take())

    waiting = acts.waiting()
    assert [(1, True, False, due - timedelta(seconds=60))] == [
        (r.sequence, r.delayed, r.blocking, r.available_at) for r in waiting
    ]
    assert acts.instance().has_backlog is False
    assert acts.take().message.attempt == 1


def test_hand_back_of_a_paused_actor_stays_hidden(acts: Acts) -> None:
    """While paused, a hand-back sets the backlog and leaves the actor out of the search."""
    claim = acts.run()
    acts.pause()
    acts.hand_back(claim)

    assert acts.hints() == (None, True)


# -- taking over -------------------------------------------------------------------------------


def test_take_over_counts_the_attempt(acts: Acts) -> None:
    """An expired lease is taken over: the message waits again, its attempt counted, under a new generation."""
    claim = acts.run()
    acts.pass_time(2 * LEASE)

    assert acts.recover(claim.lease.instance_id) == claim.message.id
    row = acts.instance()
    assert (
        row.activation_owner_id,
        row.activation_token,
        row.activation_expires_at,
        row.activation_generation,
    ) == (None, None, None, 2)
    assert row.has_backlog is True
    assert row.ready_at is not None
    assert acts.record(claim.message.id).attempts == 1
    assert acts.claims() == []
    assert acts.take().message.attempt == 2


def test_live_lease_is_not_taken_over(acts: Acts) -> None:
    """Before its end a lease belongs to its holder."""
    claim = acts.run()

    assert acts.recover(claim.lease.instance_id) is None
    acts.finish(claim)


@pytest.mark.parametrize("act", ["finish", "go_on", "fail", "renew"])
def test_holder_can_do_nothing_after_a_take_over(acts: Acts, act: str) -> None:
    """Whatever the former holder does, it changes nothing."""
    claim = acts.run()
    acts.pass_time(2 * LEASE)
    acts.recover(claim.lease.instance_id)
    before = acts.everything()
    late: dict[str, Callable[[], Any]] = {
        "finish": lambda: acts.finish(claim),
        "go_on": lambda: acts.go_on(claim),
        "fail": lambda: acts.fail(claim, retry=1),
    }

    if act == "renew":
        assert renew(acts, claim.lease) is False
    else:
        with pytest.raises(LostActivation):
            late[act]()
    assert before == acts.everything()


def test_crash_on_the_last_attempt_is_a_dead_letter(acts: Acts) -> None:
    """A message whose every attempt crashed dies as crashed, and the next one runs."""
    crashing = acts.run(max_attempts=2)
    following = acts.send()
    for _ in range(2):
        acts.pass_time(2 * LEASE)
        acts.recover(crashing.lease.instance_id)
        claim = acts.take()

    record = acts.record(crashing.message.id)
    assert (record.status, record.attempts) == (MessageStatus.DEAD, 2)
    letter = acts.db.read(lambda tx: acts.store.dead_letters.page(tx, actor_type=None, before=None, most=9))[0]
    assert (letter.exception_class, letter.attempts) == ("Crashed", 2)
    assert following.message_id == claim.message.id


def test_taken_over_delayed_message_is_immediate(acts: Acts) -> None:
    """After a crash a delayed message has been started: it is in order like any other."""
    acts.send(delay=60)
    acts.pass_time(60)
    claim = acts.take()
    acts.pass_time(2 * LEASE)
    acts.recover(claim.lease.instance_id)

    assert [(r.sequence, r.delayed, r.blocking) for r in acts.waiting()] == [(1, False, False)]
    assert acts.instance().has_backlog is True


def test_take_over_of_a_paused_actor_stays_hidden(acts: Acts) -> None:
    """A crash while paused frees the message, and nobody finds it before the actor is resumed."""
    claim = acts.run()
    acts.pause()
    acts.pass_time(2 * LEASE)
    acts.recover(claim.lease.instance_id)

    assert acts.hints() == (None, True)
    assert acts.claim() is None
    acts.resume()
    assert acts.take().message.attempt == 2


# -- after an unknown commit -------------------------------------------------------------------


def test_claim_is_found_by_its_token(acts: Acts) -> None:
    """Message and generation of a claim are read by its token, and by no other."""
    claim = acts.run()
    find, lease = acts.store.leases.claim_of_token, claim.lease

    assert (claim.message.id, 1) == acts.db.read(lambda tx: find(tx, lease.instance_id, lease.token))
    assert acts.db.read(lambda tx: find(tx, lease.instance_id, str(uuid.uuid4()))) is None


def test_advanced_lease_shuts_the_first_commit_out(acts: Acts) -> None:
    """After the generation of our own claim moved on, only a commit under the new one applies."""
    claim = acts.run()
    advanced = acts.under_lock("advance", KEY, lambda tx, _: acts.store.leases.advance(tx, claim.lease))

    assert (advanced.generation, acts.claims()[0].activation_generation) == (2, 2)
    with pytest.raises(LostActivation):
        acts.finish(claim)
    acts.finish(replace(claim, lease=advanced))
    assert acts.record(claim.message.id).status is MessageStatus.COMPLETED


def test_actors_of_a_process_in_lock_order(acts: Acts, other: Acts) -> None:
    """What a process holds is listed by the id of the actor, and nobody else's."""
    held = [acts.run(key).lease.instance_id for key in (OTHER, KEY)]
    other.run(replace(KEY, actor_id="c"))

    assert sorted(held) == acts.db.read(lambda tx: acts.store.leases.instances_of(tx, acts.owner))


def test_lease_without_a_claim_row_is_cleared(acts: Acts) -> None:
    """A take-over that finds a lease and no claim only frees the actor."""
    claim = acts.run()

    def break_and_take_over(tx: Any, instance: Any) -> int | None:
        acts.store.leases.end_claim(tx, claim.lease, claim.message.id)
        taken = acts.store.leases.take_over(tx, instance, error=CRASHED)
        # The message would be nowhere now.
        acts.store.instances.destroy(tx, KEY)
        return taken

    assert acts.under_lock("break", KEY, break_and_take_over) is None
