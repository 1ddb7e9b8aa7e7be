"""Observing one actor, and counting what it has waiting; both ask the administration policy once."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from flask_solid_objects import (
    Access,
    ActorCallCycle,
    ActorDiagnostics,
    DiagnosticSample,
    Event,
    TooManyObservers,
    Unauthorized,
)
from flask_solid_objects.intents import CurrentTurn, current_turn
from flask_solid_objects.runtime.events import MOST_OBSERVERS
from flask_solid_objects.values import ActorKey
from tests.counting import StatementCounter
from tests.telemetry.loud import LoudApp

NOTHING = DiagnosticSample(sampled=0, truncated=False, oldest_age_milliseconds=None)


# -- observers ---------------------------------------------------------------------------------


def test_an_observer_hears_of_its_actor_only(app: LoudApp) -> None:
    """All events of the actor, or those of the names that were given, until its block ends."""
    every: list[Event] = []
    some: list[Event] = []
    loud, other = app.Loud.ref("a"), app.Loud.ref("b")
    stop = loud.observe(every.append)
    with loud.observe(some.append, "message.completed", "snapshot.read"):
        loud.say(body="x")
        other.say(body="x")
        loud.snapshot()
    stop()
    stop()
    before = len(every)
    loud.say(body="y")

    assert [event.name for event in some] == ["message.completed", "snapshot.read"]
    assert {(event.actor_type, event.actor_id) for event in every} == {("Loud", "a")}
    assert (len(every), "activation.claimed" in [event.name for event in every]) == (before, True)


def test_too_many_observers(app: LoudApp) -> None:
    """There is a limit for a process; who is disposed of makes room."""
    stops = [app.Loud.ref(str(number)).observe(print) for number in range(MOST_OBSERVERS)]

    with pytest.raises(TooManyObservers, match="1000 observers"):
        app.Loud.ref("a").observe(print)
    stops[0]()
    app.Loud.ref("a").observe(print)


def test_an_observer_is_authorised_once(app: LoudApp) -> None:
    """The administration policy is asked at the registration, with the identity as JSON; never at an event."""
    asked: list[Access] = []
    allowed = [True]

    @app.solid.authorize_administration
    def administer(access: Access) -> bool:
        asked.append(access)
        return allowed[0]

    heard: list[Event] = []
    with app.Loud.ref('a"').using(context="operator").observe(heard.append):
        allowed[0] = False
        app.Loud.ref('a"').say(body="x")
    with pytest.raises(Unauthorized):
        app.Loud.ref("a").observe(heard.append, context="other")
    with pytest.raises(Unauthorized):
        app.Loud.ref("a").diagnostics()

    assert heard
    found = [(each.action, each.resource, each.resource_id, each.context) for each in asked]
    assert found == [
        ("observe", "actor_diagnostics", '["Loud","a\\""]', "operator"),
        ("observe", "actor_diagnostics", '["Loud","a"]', "other"),
        ("inspect", "actor_diagnostics", '["Loud","a"]', None),
    ]


def test_wrong_arguments(app: LoudApp) -> None:
    """Each is one clear error."""
    loud = app.Loud.ref("a")

    with pytest.raises(ValueError, match=r"'message\.complete'"):
        loud.observe(print, "message.complete")
    with pytest.raises(TypeError, match="function"):
        loud.observe("message.completed")
    for limit in (0, 101, True, "5"):
        with pytest.raises(ValueError, match="from 1 to 100"):
            loud.diagnostics(limit=limit)


def test_not_in_actor_code(app: LoudApp) -> None:
    """An actor observes and diagnoses nobody."""
    token = current_turn.set(CurrentTurn(key=ActorKey(actor_type="Loud", actor_id="a"), operation="say"))
    with pytest.raises(ActorCallCycle):
        app.Loud.ref("b").observe(print)
    with pytest.raises(ActorCallCycle):
        app.Loud.ref("b").diagnostics()
    current_turn.reset(token)


# -- diagnostics -------------------------------------------------------------------------------


def test_an_actor_that_was_never_used(app: LoudApp) -> None:
    """It has no incarnation and nothing waiting; looking makes none."""
    found = app.Loud.ref("a").diagnostics(limit=7)

    assert dataclasses.astuple(found)[:4] == ("Loud", "a", None, None)
    assert {found.mailbox, found.outbox, found.reminders, found.retries, found.recovery_failures} == {NOTHING}
    assert (found.limit, found.adapter) == (7, app.solid.runtime.core.database.dialect.name)
    assert found.occurred_at.utcoffset() == timedelta(0)
    assert app.Loud.ref("a").diagnostics().incarnation is None


def test_what_waits_is_counted(app: LoudApp) -> None:
    """Messages, effects and broadcasts, reminders, retries, and what could not be told; each up to the limit."""
    loud = app.Loud.ref("a")
    loud.post_once(body="fail it")
    role = app.solid.runtime.effect_worker()
    assert role._claim() is not None
    app.age("processes", "last_heartbeat_at", role.registration.id)
    app.solid.processes.clean_up()
    role._recovering.retire_abandoned()
    app.settle()
    loud.post(body="x")
    loud.arm(body="x", delay=600)
    for _ in range(3):
        loud.say.using(delay=60).send(body="x")
    app.age("ready_messages", "available_at", app_ready(app))
    found: ActorDiagnostics = loud.diagnostics(limit=3)
    cut: ActorDiagnostics = loud.diagnostics(limit=2)

    assert (found.mailbox.sampled, found.mailbox.truncated) == (3, False)
    assert 3_600_000 <= (found.mailbox.oldest_age_milliseconds or 0) < 3_700_000
    assert (cut.mailbox.sampled, cut.mailbox.truncated) == (2, True)
    # One effect and one broadcast: the limit is that of both together.
    assert (cut.outbox.sampled, cut.outbox.truncated) == (2, False)
    tight = loud.diagnostics(limit=1).outbox
    assert (tight.sampled, tight.truncated) == (1, True)
    assert (found.reminders.sampled, found.reminders.oldest_age_milliseconds) == (1, 0)
    assert found.recovery_failures.sampled == 1
    assert found.revision == loud.diagnostics().revision
    depths = [event.data for event in app.of("mailbox.depth")][:2]
    assert [(each["count"], each["depth"], each["truncated"]) for each in depths] == [(3, 3, False), (2, None, True)]


def app_ready(app: LoudApp) -> int:
    """The first row that waits."""
    tables = app.solid.runtime.core.store.tables
    with app.solid.runtime.core.database.engine.connect() as connection:
        row = connection.execute(tables.ready_messages.select().order_by(tables.ready_messages.c.id)).first()
    assert row is not None
    return int(row.id)


def test_a_retry_is_counted(app: LoudApp) -> None:
    """A message that failed and waits is in the mailbox, and a retry."""
    message = app.Loud.ref("a").fail.send(body="x")
    app.solid.runtime.worker().run_once()
    app.Loud.ref("a").say.using(delay=60).send(body="x")
    found = app.Loud.ref("a").diagnostics()

    assert message.status().value == "ready"
    assert (found.retries.sampled, found.mailbox.sampled) == (1, 2)


def test_the_look_is_bounded(app: LoudApp) -> None:
    """However much waits, the statements are the same, and each gives one row more than the limit at most."""
    for number in range(30):
        app.Loud.ref("a").say.using(delay=60 + number).send(body="x")
    counter = StatementCounter(app.solid.runtime.core.database.engine)
    app.solid.runtime.core.database.dispose()
    with counter.measure() as few:
        app.Loud.ref("a").diagnostics(limit=1)
    with counter.measure() as many:
        app.Loud.ref("a").diagnostics(limit=100)
    counter.close()

    reads = [statement for statement in many.log if "LIMIT" in statement.upper()]
    assert len(few.log) - few.rollbacks == len(many.log) - many.rollbacks <= 11
    assert len(reads) >= 7
