"""What is pruned of messages, dead letters and what they left to deliver, and what keeps them."""

from __future__ import annotations

import pytest

from flask_solid_objects.store.tables import Tables
from tests import requires
from tests.checkpoints import HeldCheckpoints
from tests.store.acts import Background
from tests.store.past import DAY, LATELY, Past
from tests.store.past import past as past
from tests.store.past import pruned as pruned

# -- messages ----------------------------------------------------------------------------------


def test_old_finished_message_goes(past: Past, tables: Tables) -> None:
    """A message that finished longer ago than the retention is deleted, a later one stays, and that was all."""
    actor = past.actor(following=3)
    past.finished(actor, 1)
    later = past.finished(actor, 2, at=LATELY)

    assert past.count("messages") == 1
    assert past.prune("messages") == 1
    assert [later] == past.ids(tables.messages)
    assert past.prune("messages") == 0


def test_rejected_and_skipped_messages_go_too(past: Past, tables: Tables) -> None:
    """A message that ended with a rejection or an error but completed is finished like any other."""
    actor = past.actor(following=3)
    past.finished(actor, 1, rejection={"code": "no"})
    past.finished(actor, 2, error={"class": "Skipped"})

    assert past.prune("messages") == 2
    assert past.number(tables.messages) == 0


def test_retention_by_type_replaces_the_general_one(past: Past, tables: Tables) -> None:
    """A listed type has its own age, longer or shorter, and the others have the general one."""
    actor = past.actor(following=4)
    kept = past.finished(actor, 1, actor_type="Account")
    past.finished(actor, 2, at=LATELY, actor_type="Session")
    other = past.finished(actor, 3, at=LATELY)

    assert past.prune("messages", message_retention_by_actor_type={"Account": 50 * DAY, "Session": 10 * DAY}) == 1
    assert [kept, other] == past.ids(tables.messages)


@pytest.mark.parametrize("status", ["pending", "processing", "dead"])
def test_message_with_an_open_effect_stays(past: Past, tables: Tables, status: str) -> None:
    """An effect that is not completed keeps the message that emitted it."""
    actor = past.actor()
    message = past.finished(actor)
    past.effect(message, actor, status=status)

    assert past.count("messages") == 0
    assert past.prune("messages") == 0
    assert [message] == past.ids(tables.messages)


@pytest.mark.parametrize("status", ["pending", "processing", "dead"])
def test_message_with_an_open_broadcast_stays(past: Past, tables: Tables, status: str) -> None:
    """A broadcast that is not delivered keeps the message that made it."""
    actor = past.actor()
    message = past.finished(actor)
    past.broadcast(message, actor, status=status)

    assert past.prune("messages") == 0
    assert [message] == past.ids(tables.messages)


def test_message_takes_along_what_was_delivered(past: Past, tables: Tables) -> None:
    """Completed effects and delivered broadcasts go with their message."""
    actor = past.actor()
    message = past.finished(actor)
    past.effect(message, actor, status="completed")
    past.broadcast(message, actor, status="delivered")

    assert past.prune("messages") == 1
    assert (past.number(tables.effects), past.number(tables.broadcasts)) == (0, 0)


def test_retry_of_a_dead_letter_stays_with_it(past: Past, tables: Tables) -> None:
    """The message that a dead letter was retried as stays as long as the letter, and goes after it."""
    actor = past.actor(following=3)
    retry = past.finished(actor, 2)
    past.dead(actor, 1, retried_as=retry)

    assert past.prune("messages") == 0
    assert past.prune("dead-letters", "messages") == 2
    assert past.number(tables.messages) == 0


@pytest.mark.parametrize("place", ["ready", "claimed"])
def test_message_that_waits_or_runs_stays(past: Past, tables: Tables, place: str) -> None:
    """A message with a row in the mailbox is not deleted even if something marked it completed."""
    with past.rows() as rows:
        held = rows.lease() if place == "claimed" else {"ready_at": rows.now, "has_backlog": True}
        actor = rows.actor("a", following=2, **held)
        message = rows.claimed(actor, 1) if place == "claimed" else rows.ready(actor, 1)
        rows.change(tables.messages, message, completed_at=rows.at(-40 * DAY))
    found = past.prune("messages")
    with past.rows() as rows:
        rows.change(tables.messages, message, completed_at=None)

    assert found == 0
    assert [message] == past.ids(tables.messages)


def test_walk_passes_what_is_needed(past: Past, tables: Tables) -> None:
    """Batches that consist of needed rows do not end the run, nor are they looked at again."""
    actor = past.actor(following=7)
    needed = [past.finished(actor, sequence, at=-50 * DAY) for sequence in (1, 2, 3)]
    for message in needed:
        past.effect(message, actor, status="pending")
    for sequence in (4, 5, 6):
        past.finished(actor, sequence)

    assert past.count("messages", prune_batch_size=1) == 3
    assert past.prune("messages", prune_batch_size=2) == 3
    assert needed == past.ids(tables.messages)


def test_messages_of_one_moment_are_all_walked(past: Past, tables: Tables) -> None:
    """Where many finished in one microsecond, the walk goes on within it by id."""
    actor = past.actor(following=6)
    with past.rows() as rows:
        for sequence in range(1, 6):
            rows.message(actor, sequence, attempt_count=1, completed_at=rows.at(-40 * DAY))

    assert past.prune("messages", prune_batch_size=2) == 5
    assert past.number(tables.messages) == 0


def test_long_lists_are_split(past: Past, tables: Tables) -> None:
    """A batch that is longer than a statement may be is deleted by several, in one transaction."""
    actor = past.actor(following=602)
    with past.rows() as rows:
        for sequence in range(1, 602):
            rows.message(actor, sequence, attempt_count=1, completed_at=rows.at(-40 * DAY))

    assert past.prune("messages") == 601
    assert past.number(tables.messages) == 0


@requires.concurrent_writers
def test_effect_that_reopens_between_look_and_lock_keeps_its_message(
    past: Past, tables: Tables, checkpoints: HeldCheckpoints
) -> None:
    """What is needed when the rows are locked is not deleted, whatever it was when they were found."""
    actor = past.actor(following=3)
    message, _ = past.finished(actor, 1), past.finished(actor, 2)
    with checkpoints.hold("retention.selected") as hold:
        pruning = Background(lambda: past.prune("messages"))
        hold.wait_reached()
        past.effect(message, actor, status="pending")
        hold.release()

    assert pruning.result() == 1
    assert [message] == past.ids(tables.messages)


# -- dead letters ------------------------------------------------------------------------------


def test_dead_letter_goes_with_its_message(past: Past, tables: Tables) -> None:
    """An old dead letter is deleted together with the message, which could not be told from a lost one otherwise."""
    actor = past.actor(following=3)
    past.dead(actor, 1)
    later = past.dead(actor, 2, at=LATELY)

    assert past.count("dead-letters") == 1
    assert past.prune("dead-letters") == 1
    assert [later] == past.ids(tables.dead_letters)
    assert past.number(tables.messages) == 1
    assert past.prune("dead-letters") == 0


def test_dead_letters_are_kept_by_default(past: Past) -> None:
    """Without a retention they are kept for ever."""
    past.dead(past.actor())

    assert past.prune("dead-letters", dead_letter_retention=None) == 0


def test_dead_letter_that_is_being_retried_stays(past: Past, tables: Tables) -> None:
    """As long as the message that it was retried as is not finished, the letter is kept, and after that it goes."""
    with past.rows() as rows:
        actor = rows.actor("a", following=3, ready_at=rows.now, has_backlog=True)
        retry = rows.ready(actor, 2)
    past.dead(actor, 1, retried_as=retry)

    assert past.prune("dead-letters") == 0
    past.acts.skip()
    assert past.prune("dead-letters") == 1
    assert [retry] == past.ids(tables.messages)


def test_old_dead_effects_and_broadcasts_go(past: Past, tables: Tables) -> None:
    """What could not be delivered is deleted with the dead letters; what is alive or younger stays."""
    actor = past.actor()
    message = past.finished(actor, at=LATELY)
    past.effect(message, actor, status="dead")
    kept = [past.effect(message, actor, status="dead", at=LATELY), past.effect(message, actor, status="pending")]
    past.broadcast(message, actor, status="dead")

    assert past.count("dead-letters") == 2
    assert past.prune("dead-letters", prune_batch_size=1) == 2
    assert kept == past.ids(tables.effects)
    assert past.number(tables.broadcasts) == 0


# -- reminders and recoveries ------------------------------------------------------------------


@pytest.mark.parametrize(("status", "gone"), [("completed", 1), ("dead", 1), ("scheduled", 0), ("paused", 0)])
def test_only_ended_reminders_go(past: Past, status: str, gone: int) -> None:
    """A reminder that will ring again stays, however old it is."""
    past.reminder(past.actor(following=1), status=status)

    assert past.count("reminders") == gone
    assert past.prune("reminders") == gone
    assert past.prune("reminders") == 0


def test_young_reminder_stays(past: Past) -> None:
    """The age of an ended reminder is counted from its end, not from when it was due."""
    past.reminder(past.actor(following=1), status="completed", at=LATELY)

    assert past.prune("reminders") == 0


@pytest.mark.parametrize("place", ["ready", "claimed"])
def test_reminder_whose_message_is_under_way_stays(past: Past, tables: Tables, place: str) -> None:
    """A message that the reminder made and that has not ended keeps it."""
    with past.rows() as rows:
        held = rows.lease() if place == "claimed" else {"ready_at": rows.now, "has_backlog": True}
        actor = rows.actor("a", following=2, **held)
        message = rows.claimed(actor, 1) if place == "claimed" else rows.ready(actor, 1)
    reminder = past.reminder(actor, status="completed")
    with past.rows() as rows:
        ringing = {"reminder_generation": 0, "reminder_due_at": rows.now, "missed_count": 0}
        rows.change(tables.messages, message, reminder_id=reminder, **ringing)

    assert past.prune("reminders") == 0
    past.acts.skip()
    assert past.prune("reminders") == 1


def test_recovery_goes_after_its_effect(past: Past, tables: Tables) -> None:
    """What became of an effect is kept while the effect is, and as long again as the message."""
    actor = past.actor()
    message = past.finished(actor)
    effect = past.effect(message, actor, status="completed", effect_id="e" * 36)
    with past.rows() as rows:
        for letter, age in (("e", 70), ("f", 50), ("g", 70)):
            rows.add(tables.effect_recoveries, effect_id=letter * 36, instance_id=actor, updated_at=rows.at(-age * DAY))

    assert past.prune("recoveries") == 1
    assert past.ids(tables.effect_recoveries) == ["e" * 36, "f" * 36]
    assert [effect] == past.ids(tables.effects)
