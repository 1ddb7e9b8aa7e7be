"""Two processes at one actor: A is held at a step, B goes or waits for A's lock, A is let go, and the rows are judged.

Where a file has one writer, B simply waits for A. The invariants are checked after each test.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flask_solid_objects.errors import LostActivation
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim, MessageStatus
from tests import requires
from tests.checkpoints import HeldCheckpoints
from tests.store.acts import KEY, LEASE, Acts, Background, claim_of
from tests.store.conftest import Race

# -- creating ----------------------------------------------------------------------------------


def test_two_creators_of_one_actor(acts: Acts, race: Race) -> None:
    """A has made the row and not committed; B waits for it and queues behind A: one row, one claim."""
    a, b = race(acts.call, "admit.committing", acts.call)

    assert (a.sequence, b.sequence) == (1, 2)
    assert a.instance_id == b.instance_id
    assert b.claim is None
    assert acts.instance().has_backlog is True
    assert claim_of(a).lease.token == acts.instance().activation_token


@requires.concurrent_writers
def test_creator_that_comes_too_late(acts: Acts, checkpoints: HeldCheckpoints) -> None:
    """A saw no row; B makes it and claims; A makes none and queues behind B."""
    with checkpoints.hold("instance.absent") as hold:
        a = Background(acts.call)
        hold.wait_reached()
        claim = acts.run()
        hold.release()

    late = a.result()
    assert (claim.message.sequence, late.sequence) == (1, 2)
    assert (claim.lease.instance_id, None) == (late.instance_id, late.claim)


def test_many_creators_of_one_actor(acts: Acts) -> None:
    """Of many that come at once exactly one claims, and the sequences are those of all of them."""
    enqueued = [call.result() for call in [Background(acts.call) for _ in range(6)]]

    assert sorted(each.sequence for each in enqueued) == [1, 2, 3, 4, 5, 6]
    assert len({each.instance_id for each in enqueued}) == 1
    assert [each.sequence for each in enqueued if each.claim is not None] == [1]


# -- enqueue against release -------------------------------------------------------------------


@pytest.mark.parametrize("delay", [None, 60.0])
def test_message_that_arrives_during_a_commit_is_findable(acts: Acts, race: Race, delay: float | None) -> None:
    """A commits; B's message waits for A's lock and finds a free actor: the hints lead to it."""
    claim = acts.run()
    _, sent = race(lambda: acts.finish(claim), "finish.committing", lambda: acts.send(delay=delay))

    waiting = acts.waiting()
    assert [sent.message_id] == [row.message_id for row in waiting]
    assert acts.hints() == ((waiting[0].available_at, False) if delay else (acts.hints()[0], True))
    assert (acts.claim() is None) is (delay is not None)


def test_call_that_arrives_during_a_commit_runs_at_once(acts: Acts, race: Race) -> None:
    """A commits; B's call waits for the lock, judges the row as it then is, and is claimed at once."""
    claim = acts.run()
    _, called = race(lambda: acts.finish(claim), "finish.committing", acts.call)

    assert (claim_of(called).lease.generation, claim_of(called).state.revision) == (2, 1)
    acts.finish(claim_of(called))


def test_release_after_a_message_that_arrived(acts: Acts, race: Race) -> None:
    """A's message is about to be there; B's commit waits for it and leaves it findable."""
    claim = acts.run()
    sent, _ = race(acts.send, "admit.committing", lambda: acts.finish(claim))

    assert acts.hints()[0] is not None
    assert sent.message_id == acts.take().message.id


def test_worker_goes_on_with_a_message_that_arrived(acts: Acts, race: Race) -> None:
    """A's message is about to be there; B's commit locks first and looks afterwards, and takes the message with it."""
    claim = acts.run()
    sent, moved = race(acts.send, "admit.committing", lambda: acts.go_on(claim))

    assert sent.message_id == moved.message.id
    assert acts.hints() == (None, False)


def test_message_that_arrives_while_a_worker_frees_the_actor(acts: Acts, race: Race) -> None:
    """A found nothing to go on with; B's message comes after its decision and is found by the search."""
    claim = acts.run()
    moved, sent = race(lambda: acts.go_on(claim), "go_on.committing", acts.send)

    assert moved is None
    found = acts.db.transact("search", lambda tx: acts.store.candidates.lock_first(tx, KEY.actor_type))
    assert found is not None
    assert sent.message_id == acts.take().message.id


# -- recovery ----------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["finish", "go_on", "fail", "hand_back"])
def test_late_end_against_a_recovery(acts: Acts, race: Race, act: str) -> None:
    """A takes an expired lease over; B, its holder, waits for the lock and changes nothing."""
    claim = acts.run()
    acts.pass_time(2 * LEASE)
    recovered, ended = race(
        lambda: acts.recover(claim.lease.instance_id),
        "takeover.locked",
        lambda: acts.end(act, claim),
    )

    assert claim.message.id == recovered
    assert ended is None if act == "hand_back" else isinstance(ended, LostActivation)
    assert acts.record(claim.message.id).attempts == 1
    assert acts.take().message.attempt == 2


@pytest.mark.parametrize("act", ["finish", "go_on", "fail", "hand_back"])
def test_recovery_against_a_late_end(acts: Acts, race: Race, act: str) -> None:
    """A ends its turn although its lease ran out; B, who had seen that, waits and finds nothing to take over."""
    claim = acts.run()
    acts.send()
    acts.pass_time(2 * LEASE)
    _, recovered = race(
        lambda: acts.end(act, claim),
        f"{act}.committing",
        lambda: acts.recover(claim.lease.instance_id),
    )

    assert recovered is None
    assert (2 if act == "go_on" else 1) == acts.instance().activation_generation


def test_two_recoveries_of_one_lease(acts: Acts, race: Race) -> None:
    """A takes the lease over; B had found it too, and comes second to a free actor."""
    claim = acts.run()
    acts.pass_time(2 * LEASE)
    recover = [lambda: acts.recover(claim.lease.instance_id)] * 2
    a, b = race(recover[0], "takeover.locked", recover[1])

    assert (claim.message.id, None) == (a, b)
    assert acts.instance().activation_generation == 2


def test_renewal_against_a_recovery(acts: Acts, race: Race) -> None:
    """A takes the lease over; B's renewal waits and learns that it is lost."""
    claim = acts.run()
    acts.pass_time(2 * LEASE)

    def renew() -> bool | None:
        return acts.db.transact("renew", lambda tx: acts.store.leases.renew(tx, claim.lease, seconds=LEASE, wait=True))

    assert (claim.message.id, False) == race(lambda: acts.recover(claim.lease.instance_id), "takeover.locked", renew)


def test_recovery_against_a_renewal(acts: Acts, race: Race) -> None:
    """A renews a lease that had run out; B's recovery waits and finds it alive."""
    claim = acts.run()
    acts.pass_time(2 * LEASE)

    def renew() -> bool | None:
        return acts.db.transact("renew", lambda tx: acts.store.leases.renew(tx, claim.lease, seconds=LEASE, wait=True))

    assert race(renew, "renew.committing", lambda: acts.recover(claim.lease.instance_id)) == (True, None)
    acts.finish(claim)


# -- delays ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(60.0, None), (None, 60.0)])
def test_delayed_send_against_an_immediate_one(
    acts: Acts, race: Race, first: float | None, second: float | None
) -> None:
    """A and B send, one with a delay: in either order the actor is found now, and the immediate message is its head."""
    acts.finish(acts.run())
    a, b = race(lambda: acts.send(delay=first), "admit.committing", lambda: acts.send(delay=second))

    assert (a.sequence, b.sequence) == (2, 3)
    assert acts.hints()[1] is True
    claim = acts.take()
    assert (b if first else a).message_id == claim.message.id
    assert acts.hints() == (acts.waiting()[0].available_at, False)


def test_delayed_send_against_a_claim(acts: Acts, race: Race) -> None:
    """A claims the last message and clears the hints; B's delayed send waits and lowers the hint to its time."""
    acts.send()
    race(acts.claim, "claim.committing", lambda: acts.send(delay=60))

    assert acts.hints() == (acts.waiting()[0].available_at, False)


def test_claim_against_a_delayed_send(acts: Acts, race: Race) -> None:
    """A's delayed message is about to be stored; B's claim waits for the lock and counts it into the hints."""
    acts.send()
    _, claim = race(lambda: acts.send(delay=60), "admit.locked", acts.claim)

    assert claim.message.sequence == 1
    assert acts.hints() == (acts.waiting()[0].available_at, False)


# -- claimants ---------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["claim.committing", "instance.locked"])
def test_two_claimants_of_one_actor(acts: Acts, other: Acts, race: Race, step: str) -> None:
    """A claims; B waits for the lock and finds the lease taken."""
    acts.send()
    acts.send()
    a, b = race(acts.claim, step, other.claim)

    assert b is None
    assert (acts.owner, 1, 1) == (a.lease.owner, a.message.sequence, a.message.attempt)
    assert len(acts.claims()) == 1


def test_call_against_a_claim(acts: Acts, race: Race) -> None:
    """A claims the only message, after which nothing waits; B's call waits for the lock and finds the lease taken."""
    acts.send()
    claim, called = race(acts.claim, "claim.committing", acts.call)

    assert called.claim is None
    assert called.message_id == acts.go_on(claim).message.id  # type: ignore[union-attr]


def test_claim_against_a_call(acts: Acts, other: Acts, race: Race) -> None:
    """A's call is admitted to run; B, who had a stale hint, waits and finds the lease taken."""
    acts.finish(acts.run())
    called, claim = race(acts.call, "admit.committing", other.claim)

    assert claim is None
    acts.finish(claim_of(called))


def test_same_key_twice_at_once(acts: Acts, race: Race) -> None:
    """A and B send under one key: B waits for the actor and is answered with A's message."""
    a, b = race(lambda: acts.send(idempotency_key="k"), "admit.committing", lambda: acts.send(idempotency_key="k"))

    assert (a.message_id, True) == (b.message_id, b.existing)
    assert acts.instance().next_message_sequence == 2


# -- unknown commits ---------------------------------------------------------------------------


def resolving(acts: Acts, claim: Claim) -> Callable[[], MessageStatus]:
    """What follows an unknown commit: lock, read, and take the next generation if the claim is still ours."""

    def resolve(tx: Transaction) -> MessageStatus:
        acts.store.instances.lock_by_id(tx, claim.lease.instance_id)
        record = acts.store.mailbox.find(tx, claim.message.id)
        assert record is not None
        if record.status is MessageStatus.CLAIMED:
            acts.store.leases.advance(tx, claim.lease)
        return record.status

    return lambda: acts.db.transact("resolve", resolve)


def test_commit_on_its_way_is_waited_for(acts: Acts, race: Race) -> None:
    """A's commit is still on its way when B resolves it: B waits for the lock and reads the outcome."""
    claim = acts.run()
    _, status = race(lambda: acts.finish(claim), "finish.committing", resolving(acts, claim))

    assert status is MessageStatus.COMPLETED


def test_commit_that_comes_after_its_resolution(acts: Acts, race: Race) -> None:
    """B resolves first and takes the next generation; the first commit arrives afterwards and is refused."""
    claim = acts.run()
    status, late = race(resolving(acts, claim), "resolve.committing", lambda: acts.finish(claim))

    assert status is MessageStatus.CLAIMED
    assert isinstance(late, LostActivation)
    assert acts.instance().activation_generation == 2
