"""When an actor of a listed type is deleted because nobody uses it, and everything that keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flask_solid_objects.store.tables import Tables
from tests import requires
from tests.checkpoints import HeldCheckpoints
from tests.store.acts import KEY, Acts, Background
from tests.store.past import DAY, LATELY, LONG_AGO, Past
from tests.store.past import past as past
from tests.store.past import pruned as pruned


def test_unused_actor_goes_with_all_that_belongs_to_it(past: Past, tables: Tables) -> None:
    """An actor that was not used for the retention of its type is deleted with messages, outboxes and reminders."""
    actor = past.actor()
    message = past.finished(actor, at=LATELY)
    past.effect(message, actor, status="completed")
    past.broadcast(message, actor, status="delivered")
    past.reminder(actor, status="completed", at=LATELY)

    assert past.count("instances") == 1
    assert past.prune("instances") == 1
    left = (tables.instances, tables.messages, tables.effects, tables.broadcasts, tables.reminders)
    assert [past.number(table) for table in left] == [0] * 5
    assert past.prune("instances") == 0


def test_only_listed_types_go(past: Past, tables: Tables) -> None:
    """Without its type in the setting an actor is kept for ever."""
    actor = past.actor(actor_type="Account")

    assert past.prune("instances") == 0
    assert past.prune("instances", instance_retention_by_actor_type={}) == 0
    assert [actor] == past.ids(tables.instances)


def test_each_type_has_its_own_age(past: Past, tables: Tables) -> None:
    """The walk ends at the shortest retention, and judges each actor by its own."""
    kept = past.actor("old", actor_type="Account")
    past.actor("new", actor_type="Session", used=LATELY)
    ages = {"Account": 50 * DAY, "Session": 10 * DAY}

    assert past.prune("instances", instance_retention_by_actor_type=ages) == 1
    assert [kept] == past.ids(tables.instances)


def test_actor_that_was_used_later_stays(past: Past) -> None:
    """The age counts from the last use."""
    past.actor(used=LATELY)

    assert past.prune("instances") == 0


def test_actor_that_was_never_used_counts_from_its_making(past: Past, tables: Tables) -> None:
    """Where there is no last use, the time at which the row was made counts."""
    past.actor("old", used=None, following=1)
    with past.rows() as rows:
        young = rows.actor("young", following=1, created_at=rows.at(LATELY))

    assert past.count("instances") == 1
    assert past.prune("instances", prune_batch_size=1) == 1
    assert [young] == past.ids(tables.instances)


def test_actor_at_the_cutoff_stays(past: Past) -> None:
    """Only what is strictly older goes."""
    past.actor(used=-30 * DAY + 60)

    assert past.prune("instances") == 0


# -- what keeps an actor -----------------------------------------------------------------------


def leased(past: Past) -> None:
    with past.rows() as rows:
        rows.claimed(rows.actor("a", following=2, last_used_at=rows.at(LONG_AGO), **rows.lease()), 1)


def owned(past: Past) -> None:
    """A lease without its claim, as it is between two statements."""
    with past.rows() as rows:
        rows.actor("a", following=1, last_used_at=rows.at(LONG_AGO), **rows.lease())


def waiting(past: Past) -> None:
    with past.rows() as rows:
        hints = {"last_used_at": rows.at(LONG_AGO), "ready_at": rows.at(-60), "has_backlog": True}
        rows.ready(rows.actor("a", following=2, **hints), 1)


def paused(past: Past) -> None:
    with past.rows() as rows:
        rows.actor("a", following=1, last_used_at=rows.at(LONG_AGO), paused_at=rows.at(LONG_AGO))


def dead_letter(past: Past) -> None:
    past.dead(past.actor())


def of_reminder(status: str) -> Callable[[Past], None]:
    def of_reminder(past: Past) -> None:
        past.reminder(past.actor(following=1), status=status)

    return of_reminder


def of_effect(status: str) -> Callable[[Past], None]:
    def of_effect(past: Past) -> None:
        actor = past.actor()
        past.effect(past.finished(actor), actor, status=status)

    return of_effect


def of_broadcast(status: str) -> Callable[[Past], None]:
    def of_broadcast(past: Past) -> None:
        actor = past.actor()
        past.broadcast(past.finished(actor), actor, status=status)

    return of_broadcast


@pytest.mark.parametrize(
    "arrange",
    [
        leased,
        waiting,
        paused,
        dead_letter,
        *[pytest.param(of_reminder(status), id=f"reminder {status}") for status in ("scheduled", "paused")],
        *[pytest.param(of_effect(status), id=f"effect {status}") for status in ("pending", "processing", "dead")],
        *[pytest.param(of_broadcast(status), id=f"broadcast {status}") for status in ("pending", "processing", "dead")],
    ],
)
def test_actor_with_anything_open_stays(past: Past, tables: Tables, arrange: Any) -> None:
    """A lease, a waiting message, a pause, a dead letter, a coming reminder or something to deliver keeps an actor."""
    arrange(past)

    assert past.count("instances") == 0
    assert past.prune("instances") == 0
    assert past.number(tables.instances) == 1


def test_leased_actor_without_a_claim_stays(past: Past, tables: Tables) -> None:
    """An owner alone is enough to keep an actor."""
    owned(past)
    pruned = past.prune("instances")
    past.acts.change(activation_owner_id=None, activation_token=None, activation_expires_at=None)

    assert pruned == 0
    assert past.number(tables.instances) == 1


# -- concurrent use ----------------------------------------------------------------------------


@pytest.mark.parametrize("use", ["call", "send"])
def test_use_between_selection_and_deletion_keeps_the_actor(
    past: Past, tables: Tables, checkpoints: HeldCheckpoints, use: str
) -> None:
    """An actor that is used after it was found is looked at again under its lock, and stays."""
    actor = past.actor(KEY.actor_id, following=1)
    with checkpoints.hold("retention.candidate") as hold:
        pruning = Background(lambda: past.prune("instances"))
        hold.wait_reached()
        if use == "call":
            past.acts.finish(past.acts.run())
        else:
            past.acts.send()
        hold.release()

    assert pruning.result() == 0
    assert [actor] == past.ids(tables.instances)


def test_use_during_deletion_meets_a_new_actor(
    past: Past, tables: Tables, checkpoints: HeldCheckpoints, wait_blocked: Callable[[], None]
) -> None:
    """A message that arrives while the actor is deleted waits for that, and makes the actor anew."""
    actor = past.actor(KEY.actor_id, following=1)
    with checkpoints.hold("retention.locked") as hold:
        pruning = Background(lambda: past.prune("instances"))
        hold.wait_reached()
        sending = Background(past.acts.send)
        wait_blocked()
        hold.release()

    assert pruning.result() == 1
    assert sending.result().instance_id != actor
    assert [sending.result().instance_id] == past.ids(tables.instances)


@requires.skip_locked
def test_actor_that_somebody_locks_is_passed_over(past: Past, acts: Acts, checkpoints: HeldCheckpoints) -> None:
    """Whoever holds the row is about to use it; pruning does not wait for them, and goes on with the others."""
    past.actor(KEY.actor_id, following=1)
    past.actor("other", following=1)
    with checkpoints.hold("instance.locked") as hold:
        pausing = Background(acts.pause)
        hold.wait_reached()

        assert past.prune("instances") == 1
        hold.release()
        pausing.join()
