"""What operators see and do: pages and reports, pause and resume, and the ways out of a stuck head."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, timedelta

import pytest
from sqlalchemy import select

from flask_solid_objects.errors import LostActivation
from flask_solid_objects.store.administration import InstanceReport
from flask_solid_objects.values import ActorKey, Claim, MessageStatus
from tests.store.acts import KEY, LEASE, OTHER, Acts

ACCOUNT = ActorKey(actor_type="Account", actor_id="a")


def report(acts: Acts, key: ActorKey = KEY) -> InstanceReport:
    found = acts.db.read(lambda tx: acts.store.administration.report(tx, key))
    assert found is not None
    return found


def page(acts: Acts, *, actor_type: str | None = None, after: int = 0, most: int = 10) -> list[ActorKey]:
    read = acts.store.administration.page
    return [r.key for r in acts.db.read(lambda tx: read(tx, actor_type=actor_type, after=after, most=most))]


# -- reads -------------------------------------------------------------------------------------


def test_actors_are_listed_by_id(acts: Acts) -> None:
    """Pages go upwards from an id, optionally of one type, whose spelling counts."""
    first = acts.send(OTHER)
    acts.send(ACCOUNT)
    acts.send(KEY)

    assert page(acts) == [OTHER, ACCOUNT, KEY]
    assert page(acts, most=2) == [OTHER, ACCOUNT]
    assert page(acts, after=first.instance_id) == [ACCOUNT, KEY]
    assert page(acts, actor_type="Counter") == [OTHER, KEY]
    assert page(acts, actor_type="counter") == []


def test_report_tells_how_an_actor_stands(acts: Acts) -> None:
    """A report has the lease, the hints, the sequence and the state's numbers of the row."""
    acts.finish(acts.run())
    claim = acts.run()
    acts.send()
    seen, row = report(acts), acts.instance()

    assert (KEY, "held", acts.owner, 2, 4, 1, 1, True) == (
        seen.key,
        seen.lease,
        seen.owner,
        seen.generation,
        seen.next_sequence,
        seen.state_version,
        seen.state_revision,
        seen.has_backlog,
    )
    assert claim.now < seen.expires_at if seen.expires_at else False
    assert row.ready_at.replace(tzinfo=UTC) == seen.ready_at
    assert seen.created_at <= (seen.last_used_at or seen.created_at)
    assert acts.db.read(lambda tx: acts.store.administration.report(tx, OTHER)) is None


def test_report_names_the_lease(acts: Acts) -> None:
    """A lease is idle, held, expired, paused or parked; a parking that is over is no more."""
    claim = acts.run()
    labels = [report(acts).lease]
    acts.pass_time(2 * LEASE)
    labels.append(report(acts).lease)
    acts.park(claim, 60)
    labels.append(report(acts).lease)
    acts.pass_time(61)
    labels.append(report(acts).lease)
    acts.pause()
    labels.append(report(acts).lease)

    assert labels == ["held", "expired", "parked", "idle", "paused"]


def test_depth_counts_up_to_a_limit(acts: Acts) -> None:
    """Waiting messages are counted, delayed ones among them, and no further than asked."""
    instance_id = acts.run().lease.instance_id
    for delay in (None, 60.0, None):
        acts.send(delay=delay)

    assert acts.db.read(lambda tx: acts.store.administration.depth(tx, instance_id, 10)) == 3
    assert acts.db.read(lambda tx: acts.store.administration.depth(tx, instance_id, 2)) == 2


def test_acts_are_recorded(acts: Acts) -> None:
    """An act leaves a row of what, on whom and by whom, cut to the column."""
    audit = acts.store.administration.audit
    acts.db.transact(
        "audit", lambda tx: audit(tx, action="actor.pause", kind="actor", subject="Counter/a", operator="o" * 300)
    )
    with acts.engine.connect() as connection:
        event = connection.execute(select(acts.tables.administration_events)).one()

    assert (
        event.action,
        event.kind,
        event.subject_id,
        event.actor,
    ) == ("actor.pause", "actor", "Counter/a", "o" * 255)


# -- pause and resume --------------------------------------------------------------------------


def test_pause_and_resume_leave_the_generation(acts: Acts) -> None:
    """A pause hides the actor and a resume shows it again; each says whether it changed anything."""
    acts.send()

    assert [acts.pause(), acts.pause()] == [True, False]
    assert acts.hints() == (None, True)
    assert acts.claim() is None
    assert [acts.resume(), acts.resume()] == [True, False]
    row = acts.instance()
    assert (row.paused_at, row.activation_generation, row.has_backlog) == (None, 0, True)
    assert row.ready_at is not None
    acts.take()


def test_resume_recomputes_the_hints(acts: Acts) -> None:
    """After a resume the hints are those of what waits: a due time without a backlog, or nothing."""
    acts.send(delay=60)
    acts.pause()
    acts.change(has_backlog=True)
    acts.resume()
    assert acts.hints() == (acts.waiting()[0].available_at, False)
    acts.pass_time(61)
    acts.pause()
    acts.finish(resumed(acts))

    assert acts.hints() == (None, False)


def resumed(acts: Acts) -> Claim:
    acts.resume()
    return acts.take()


def test_resume_is_not_below_the_parking(acts: Acts) -> None:
    """A parked actor that is paused and resumed stays alone until its time."""
    acts.park(acts.run(), 60)
    acts.pause()
    acts.send()
    acts.resume()

    assert acts.instance().parked_until == acts.instance().ready_at
    assert acts.claim() is None


def test_pause_does_not_end_the_turn_that_runs(acts: Acts) -> None:
    """The holder of a paused actor commits, renews and is recovered like any other."""
    claim = acts.run()
    acts.pause()
    acts.resume()
    acts.pause()
    acts.finish(claim)

    assert MessageStatus.COMPLETED is acts.record(claim.message.id).status


# -- retry now ---------------------------------------------------------------------------------


def test_retry_now_ends_a_back_off(acts: Acts) -> None:
    """A head that waits for its retry is due at once, in its place, with its attempts."""
    acts.fail(acts.run(), retry=600)
    acts.send()

    assert acts.retry_now() is True
    claim = acts.take()
    assert (claim.message.sequence, claim.message.attempt, claim.lease.generation) == (1, 2, 2)
    assert acts.retry_now() is False


def test_retry_now_leaves_delays(acts: Acts) -> None:
    """A message that was sent with a delay is in no back-off: it waits for its time."""
    acts.send(delay=60)
    before = acts.hints()

    assert acts.retry_now() is False
    assert before == acts.hints()


def test_retry_now_lifts_a_parking(acts: Acts) -> None:
    """An actor whose activation failed may be tried at once, and its count begins anew."""
    acts.park(acts.run(), 600)

    assert acts.retry_now() is True
    row = acts.instance()
    assert (row.parked_until, row.parked_count, row.parked_error) == (None, 0, None)
    assert acts.take().parked_count == 0


def test_retry_now_of_a_paused_actor_waits_for_the_resume(acts: Acts) -> None:
    """The back-off ends, and the pause does not."""
    acts.fail(acts.run(), retry=600)
    acts.pause()

    assert acts.retry_now() is True
    assert acts.hints() == (None, True)
    acts.resume()
    acts.take()


# -- skip and fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["skip", "fail"])
@pytest.mark.parametrize("where", ["ready", "back-off", "parked", "claimed", "paused"])
def test_head_is_taken_out_of_the_way(acts: Acts, where: str, act: str) -> None:
    """Wherever the head is, it ends, and the next message can be claimed."""
    claim = acts.run()
    following = acts.send()
    if where in ("ready", "paused"):
        acts.hand_back(claim)
    elif where == "back-off":
        acts.fail(claim, retry=600)
    elif where == "parked":
        acts.park(claim, 600)
    if where == "paused":
        acts.pause()
    ended = acts.skip() if act == "skip" else acts.fail_head()
    record = acts.record(claim.message.id)

    assert claim.message.id == ended
    error = json.loads(str(record.error))
    expected = (MessageStatus.SKIPPED, "Skipped") if act == "skip" else (MessageStatus.DEAD, "FailedByOperator")
    assert expected == (record.status, error["class"])
    assert record.result is None
    assert (acts.instance().parked_until, acts.instance().parked_count) == (None, 0)
    if where == "paused":
        assert acts.hints() == (None, True)
        acts.resume()
    assert following.message_id == acts.take().message.id


@pytest.mark.parametrize("act", ["skip", "fail"])
def test_running_head_is_taken_from_its_holder(acts: Acts, act: str) -> None:
    """Its holder can no longer commit, fail, or go on, and the generation has moved."""
    claim = acts.run()
    _ = acts.skip() if act == "skip" else acts.fail_head()
    before = acts.everything()

    for late in (acts.finish, acts.fail, acts.go_on):
        with pytest.raises(LostActivation):
            late(claim)
    assert before == acts.everything()
    assert acts.instance().activation_generation == 2
    acts.run()


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("act", ["skip", "fail"])
def test_only_the_message_that_is_meant(acts: Acts, act: str, running: bool) -> None:
    """Whoever names a message ends that one or nothing: a holder keeps its claim, and the mailbox stays as it is."""
    end = acts.skip if act == "skip" else acts.fail_head
    first, second = acts.send(), acts.send()
    claim = acts.take() if running else None
    before = acts.everything()

    assert end(expected=second.message_id) is end(expected=first.message_id + 1000) is None
    assert before == acts.everything()
    assert end(expected=first.message_id) == first.message_id
    assert end(expected=first.message_id) is None
    assert end(expected=second.message_id) == second.message_id
    if claim is not None:
        with pytest.raises(LostActivation):
            acts.finish(claim)


@pytest.mark.parametrize("act", ["skip", "fail"])
def test_nothing_to_take_out(acts: Acts, act: str) -> None:
    """An empty mailbox has no head, and a delayed message that is not due is none either."""
    acts.finish(acts.run())
    for delay in (None, 60.0):
        if delay:
            acts.send(delay=delay)
        assert (acts.skip() if act == "skip" else acts.fail_head()) is None

    assert acts.hints() == (acts.waiting()[0].available_at, False)


def test_skip_takes_the_head_by_the_rule(acts: Acts) -> None:
    """A due delayed message in its place is skipped before later ones, and one that is not due is passed over."""
    acts.send(delay=600)
    delayed = acts.send(delay=60)
    acts.send()
    acts.pass_time(61)

    assert delayed.message_id == acts.skip()
    assert acts.take().message.sequence == 3


def test_failed_head_can_be_looked_at(acts: Acts) -> None:
    """A head that never ran is a dead letter all the same."""
    acts.send(operation="stuck")
    message_id = acts.fail_head()
    letter = acts.db.read(lambda tx: acts.store.dead_letters.page(tx, actor_type=None, before=None, most=1))[0]

    assert (message_id, "stuck", "FailedByOperator") == (letter.message_id, letter.operation, letter.exception_class)
    assert timedelta(0) == letter.last_failed_at - letter.first_failed_at


# -- destroy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["idle", "claimed", "waiting", "paused"])
def test_destroyed_actor_leaves_nothing(acts: Acts, where: str) -> None:
    """All rows of an incarnation go with it, those of others stay, and the next one has a larger id."""
    acts.send(OTHER)
    claim = acts.run()
    if where != "claimed":
        acts.finish(claim)
    if where != "idle":
        acts.send()
        acts.send(delay=60)
    if where == "paused":
        acts.pause()

    assert claim.lease.instance_id == acts.destroy()
    assert acts.destroy() is None
    left = {name: len(rows) for name, rows in acts.everything().items() if rows}
    assert {t.name: 1 for t in (acts.tables.instances, acts.tables.messages, acts.tables.ready_messages)} | {
        acts.tables.processes.name: 1
    } == left
    again = acts.run()
    assert (again.message.sequence, again.lease.generation) == (1, 1)
    assert claim.lease.instance_id < again.lease.instance_id


def test_ids_are_not_given_twice(acts: Acts) -> None:
    """The id of the last incarnation is not used again, even where it was the largest of the table."""
    ids = []
    for number in range(3):
        ids.append(acts.send(replace(KEY, actor_id=str(number % 2))).instance_id)
        acts.destroy(replace(KEY, actor_id=str(number % 2)))

    assert sorted(set(ids)) == ids
