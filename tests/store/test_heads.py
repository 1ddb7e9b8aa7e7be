"""Order: which message is the head, and what the hints say of the rest; random mailboxes against a reference."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from flask_solid_objects.values import ActorKey
from tests.population import Rows
from tests.store.acts import LEASE, Acts

# -- the rules, one by one ---------------------------------------------------------------------


def test_immediate_messages_run_by_sequence(acts: Acts) -> None:
    """Without delays the order of the mailbox is the order of the sequences."""
    for _ in range(3):
        acts.send()

    ran = []
    for _ in range(3):
        claim = acts.take()
        ran.append(claim.message.sequence)
        acts.finish(claim)
    assert ran == [1, 2, 3]


def test_time_does_not_order_immediate_messages(acts: Acts) -> None:
    """An immediate message is due by its kind: even a time that lies in the future does not hold it back."""
    acts.send()
    r = acts.tables.ready_messages
    with acts.engine.begin() as connection:
        connection.execute(r.update().values(available_at=datetime(2100, 1, 1)))

    assert acts.take().message.sequence == 1


def test_delayed_message_that_is_not_due_is_overtaken(acts: Acts) -> None:
    """Others run before a delayed message whose time has not come, and then nothing is due."""
    acts.send(delay=60)
    acts.send()
    claim = acts.take()
    acts.finish(claim)

    assert claim.message.sequence == 2
    assert acts.claim() is None


def test_due_delayed_message_takes_the_place_of_its_sequence(acts: Acts) -> None:
    """Once due it comes before later messages and after earlier ones, whichever fell due first."""
    acts.send(delay=50)
    acts.send()
    acts.send(delay=20)
    acts.send()
    acts.pass_time(61)

    claim = acts.take()
    ran = [claim.message.sequence]
    while (following := acts.go_on(claim)) is not None:
        ran.append(following.message.sequence)
        claim = following
    assert ran == [1, 2, 3, 4]


def test_failed_message_blocks_what_follows(acts: Acts) -> None:
    """While the back-off of a message lasts, no later one is eligible, and afterwards it is the head."""
    acts.fail(acts.run(), retry=60)
    acts.send()
    assert acts.claim() is None
    acts.pass_time(61)

    assert acts.take().message.sequence == 1


def test_failed_delayed_message_blocks_like_any_other(acts: Acts) -> None:
    """A delayed message that has failed holds back what follows until its retry."""
    acts.send(delay=60)
    acts.send()
    acts.pass_time(61)
    acts.fail(acts.take(), retry=60)

    assert [(r.sequence, r.delayed, r.blocking) for r in acts.waiting()] == [(1, True, True), (2, False, False)]
    assert acts.claim() is None
    acts.pass_time(61)
    assert acts.take().message.sequence == 1


def test_earlier_delayed_message_runs_while_a_later_one_blocks(acts: Acts) -> None:
    """Below the blocking sequence a delayed message that falls due is eligible; above it is not."""
    acts.send(delay=30)
    acts.fail(acts.run(), retry=90)
    acts.send(delay=10)
    acts.pass_time(40)

    claim = acts.take()
    assert claim.message.sequence == 1
    acts.finish(claim)
    assert acts.claim() is None


# -- hints -------------------------------------------------------------------------------------


def test_claim_leaves_no_hint_when_nothing_remains(acts: Acts) -> None:
    """A claim counts its own message as finished; the commit leaves that alone, and the next call is claimed."""
    acts.send()
    claim = acts.take()
    assert acts.hints() == (None, False)
    acts.finish(claim)

    assert acts.hints() == (None, False)
    acts.run()


def test_claim_leaves_now_for_an_immediate_rest(acts: Acts) -> None:
    """The hint for what remains is the time of the claim, never the older time of the message."""
    acts.send()
    acts.send()
    acts.pass_time(60)
    claim = acts.take()

    assert (claim.now, True) == (acts.hints()[0].replace(tzinfo=UTC), acts.hints()[1])
    acts.finish(claim)
    assert (claim.now, True) == (acts.hints()[0].replace(tzinfo=UTC), acts.hints()[1])


def test_claim_leaves_the_due_time_of_a_delayed_rest(acts: Acts) -> None:
    """Of delayed messages that are not due the earliest time is the hint, and there is no backlog."""
    acts.send()
    acts.send(delay=90)
    acts.send(delay=60)
    acts.take()

    assert acts.hints() == (acts.waiting()[1].available_at, False)


def test_claim_that_finds_nothing_due_corrects_the_hints(acts: Acts) -> None:
    """A hint that was too early is replaced by what is true, without a new generation."""
    acts.send(delay=60)
    due = acts.instance().ready_at
    acts.change(ready_at=due - timedelta(seconds=120), has_backlog=True)

    assert acts.claim() is None
    assert acts.hints() == (due, False)
    assert acts.instance().activation_generation == 0


def test_claim_that_finds_a_paused_or_parked_actor_hides_it(acts: Acts) -> None:
    """An early hint of a parked actor is raised to the end of the parking, that of a paused one is removed."""
    acts.park(acts.run(), 60)
    until = acts.instance().parked_until
    acts.change(ready_at=until - timedelta(seconds=100))
    assert acts.claim() is None
    assert acts.hints() == (until, True)
    acts.pause()
    acts.change(ready_at=until)
    assert acts.claim() is None

    assert acts.hints() == (None, True)


def test_failure_lowers_the_hint_to_the_retry(acts: Acts) -> None:
    """A failing message is found at its retry, or earlier when another hint is earlier."""
    acts.fail(acts.run(), retry=60)
    retry = acts.waiting()[0].available_at
    assert acts.hints() == (retry, True)
    acts.send()

    assert acts.hints()[0] < retry


@pytest.mark.parametrize("waits", [0, 1])
def test_blocker_is_what_runs_or_waits_before_a_message(acts: Acts, waits: int) -> None:
    """Who waits for a message can learn which one runs before it, or else which one stands before it in order."""
    claim = acts.run(operation="slow")
    acts.send(operation="next")
    if waits:
        acts.fail(claim, retry=60)
    instance_id, heads = acts.instance().id, acts.store.heads
    blocker = acts.db.read(lambda tx: heads.blocker(tx, instance_id, 2))

    assert {"message_id": claim.message.id, "sequence": 1, "operation": "slow"} == {
        name: value for name, value in (blocker or {}).items() if name != "status"
    }
    assert blocker is not None
    assert blocker["status"] == ("ready" if waits else "claimed")
    assert acts.db.read(lambda tx: heads.blocker(tx, instance_id, 1)) is None


# -- against a reference -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A waiting message; ``due`` in seconds from now."""

    sequence: int
    due: float
    delayed: bool
    blocking: bool

    @property
    def runs_now(self) -> bool:
        return self.due <= 0 or not (self.delayed or self.blocking)


def head_of(rows: list[Row]) -> Row | None:
    """The rule as it is written: the lowest that is immediate or due, up to the lowest that blocks."""
    blocked_at = min((row.sequence for row in rows if row.blocking), default=len(rows) + 99)
    return min((r for r in rows if r.sequence <= blocked_at and r.runs_now), key=lambda r: r.sequence, default=None)


def next_due(rows: list[Row]) -> float | None:
    """When a head will be due, seconds from now: 0 when one is."""
    if head_of(rows) is not None:
        return 0
    blocked_at = min((row.sequence for row in rows if row.blocking), default=len(rows) + 99)
    return min((row.due for row in rows if row.sequence <= blocked_at), default=None)


@pytest.mark.parametrize("seed", range(3))
def test_random_mailboxes_agree_with_the_rule(acts: Acts, seed: int) -> None:
    """Head, hint and backlog of twenty random mailboxes are those of the rule."""
    chance = random.Random(seed)
    for number in range(20):
        rows = [random_row(chance, sequence) for sequence in range(1, chance.randint(1, 7))]
        key = ActorKey(actor_type="Counter", actor_id=str(number))
        lay_out(acts, key.actor_id, rows)
        claim = acts.claim(key)

        head = head_of(rows)
        rest = [row for row in rows if row is not head]
        assert (head and head.sequence) == (claim and claim.message.sequence), rows
        ready_at, has_backlog = acts.hints(key)
        assert any(not row.delayed or row.blocking for row in rest) is has_backlog, rows
        due = next_due(rest)
        if due is None:
            assert ready_at is None, rows
        else:
            assert abs(seconds_from(acts, ready_at) - due) < 20, rows


def random_row(chance: random.Random, sequence: int) -> Row:
    delayed, blocking = chance.random() < 0.6, chance.random() < 0.25
    return Row(sequence, chance.choice([-100, -200, 100, 200, 300]), delayed, blocking)


def seconds_from(acts: Acts, moment: datetime) -> float:
    return (moment.replace(tzinfo=UTC) - acts.db.read(lambda tx: tx.now())).total_seconds()


def lay_out(acts: Acts, actor_id: str, rows: list[Row]) -> None:
    """Write the rows as they are, under hints that are too early."""
    now = acts.db.read(lambda tx: tx.now())
    # Two of the servers keep times without a zone.
    naive = acts.engine.dialect.name != "postgresql"
    with acts.engine.begin() as connection:
        raw = Rows(connection, acts.tables, acts.db.dialect, now.replace(tzinfo=None) if naive else now, acts.owner)
        early = {"ready_at": raw.at(-LEASE), "has_backlog": True}
        instance_id = raw.actor(actor_id, following=len(rows) + 1, **early)
        for row in rows:
            raw.ready(instance_id, row.sequence, due=row.due, delayed=row.delayed, blocking=row.blocking)
