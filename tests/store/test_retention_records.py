"""What is pruned of the records that are kept for people: stopped processes, operators' acts, redrives."""

from __future__ import annotations

import uuid

import pytest

from flask_solid_objects.store.tables import Tables
from tests import requires
from tests.store.acts import KEY
from tests.store.past import DAY, LONG_AGO, Past
from tests.store.past import past as past
from tests.store.past import pruned as pruned


def test_stopped_process_goes(past: Past, tables: Tables) -> None:
    """A process that stopped longer ago than the retention is deleted; one that lives or stopped later stays."""
    with past.rows() as rows:
        stopped = {"shutdown_state": "stopped", "last_heartbeat_at": rows.at(LONG_AGO)}
        rows.process(stopped_at=rows.at(-8 * DAY), **stopped)
        kept = [
            rows.process(stopped_at=rows.at(-6 * DAY), **stopped),
            rows.process(last_heartbeat_at=rows.at(LONG_AGO)),
            past.acts.owner,
        ]

    assert past.count("processes") == 1
    assert past.prune("processes", prune_batch_size=1) == 1
    assert sorted(kept) == past.ids(tables.processes)
    assert past.prune("processes") == 0


@pytest.mark.parametrize("name", ["instance", "claim", "reminder", "effect", "broadcast"])
def test_process_that_something_names_stays(past: Past, tables: Tables, name: str) -> None:
    """A stopped process that still owns a lease, a claim or something to deliver is kept until that is freed."""
    with past.rows() as rows:
        ends = {"last_heartbeat_at": rows.at(LONG_AGO), "stopped_at": rows.at(LONG_AGO)}
        stopped = rows.process(shutdown_state="stopped", **ends)
        hints = {"ready_at": None, **rows.lease()} if name in ("instance", "claim") else {}
        actor = rows.actor("a", following=2, **hints)
        message = rows.claimed(actor, 1) if hints else rows.completed(actor, 1)
        if name == "instance":
            rows.change(tables.instances, actor, activation_owner_id=stopped)
        elif name == "claim":
            claim = tables.claimed_messages
            rows.connection.execute(claim.update().where(claim.c.message_id == message).values(process_id=stopped))
    if name == "reminder":
        row, table = past.reminder(actor, status="scheduled"), tables.reminders
    elif name == "effect":
        row, table = past.effect(message, actor, status="pending"), tables.effects
    elif name == "broadcast":
        row, table = past.broadcast(message, actor, status="pending"), tables.broadcasts
    else:
        row, table = 0, tables.instances
    if row:
        with past.rows() as rows:
            rows.change(table, row, claimed_by=stopped)
    pruned = past.prune("processes")
    past.acts.destroy(KEY)

    assert pruned == 0
    assert past.prune("processes") == 1


def test_old_audit_events_go(past: Past, tables: Tables) -> None:
    """The record of operators' acts is kept for its own, longer time."""
    with past.rows() as rows:
        for days in (400, 370, 300):
            rows.add(tables.administration_events, action="actor.pause", kind="actor", occurred_at=rows.at(-days * DAY))

    assert past.count("audit") == 2
    assert past.prune("audit", prune_batch_size=1) == 2
    assert past.number(tables.administration_events) == 1


def test_finished_redrives_go(past: Past, tables: Tables) -> None:
    """A redrive that was completed or cancelled goes by the time of its end, and one that runs stays."""
    with past.rows() as rows:
        for status, started, finished in (
            ("completed", -50, -40),
            ("cancelled", -50, -40),
            ("completed", -50, -20),
            ("running", -50, None),
        ):
            end = None if finished is None else rows.at(finished * DAY)
            rows.add(
                tables.redrives,
                id=str(uuid.uuid4()),
                kind="dead_letters",
                filters={},
                status=status,
                started_at=rows.at(started * DAY),
                finished_at=end,
            )

    assert past.count("redrives") == 2
    assert past.prune("redrives") == 2
    assert past.number(tables.redrives) == 2


@requires.concurrent_writers
def test_process_that_is_about_to_own_an_actor_stays(past: Past, tables: Tables) -> None:
    """A lease that is being written, which nobody else can see yet, keeps the process that it names."""
    with past.rows() as rows:
        ends = {"last_heartbeat_at": rows.at(LONG_AGO), "stopped_at": rows.at(LONG_AGO)}
        stopped = rows.process(shutdown_state="stopped", **ends)
    with past.rows() as rows:
        rows.owner = stopped
        rows.claimed(rows.actor("a", following=2, **rows.lease()), 1)

        assert past.prune("processes") == 0
    assert past.prune("processes") == 0
    assert stopped in past.ids(tables.processes)
