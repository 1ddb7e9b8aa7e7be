"""Who listens: told after the commit, in order; what a listener does changes no turn; and it costs nothing else."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL

from flask_solid_objects import Event, Rejected, signals
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.values import ActorKey
from tests.checkpoints import HeldCheckpoints
from tests.telemetry.loud import Lines, LoudApp


def explode(*_: object, **__: object) -> None:
    raise RuntimeError("a listener that fails")


async def later(_sender: object, event: Event) -> None: ...


@pytest.fixture
def broken(app: LoudApp) -> Iterator[LoudApp]:
    """Every outlet of the app has a listener that raises, before and beside those that work."""
    app.solid._exporters.insert(0, explode)
    signals.every.connect(explode, app.app)
    signals.message_completed.connect(explode)
    signals.instrumentation_failed.connect(explode)
    yield app
    for signal in (signals.every, signals.message_completed, signals.instrumentation_failed):
        signal.disconnect(explode)


# -- what fails --------------------------------------------------------------------------------


def test_a_listener_that_fails_changes_no_turn(broken: LoudApp) -> None:
    """Calls, rejections, sends and reads end as they would without it, at every outlet."""
    loud = broken.Loud.ref("a")
    with loud.observe(explode):
        assert loud.say(body="x") == "x"
        assert loud.say.send(body="y").wait(timeout=5) == "y"
        with pytest.raises(Rejected):
            loud.refuse(body="z")
        assert loud.snapshot().bodies == ["x", "y"]
        assert loud.destroy() is True


def test_a_failure_is_told_once_for_each_listener(broken: LoudApp) -> None:
    """The event names the outlet and the class of the error; the failure to hear of a failure is only logged."""
    loud = broken.Loud.ref("a")
    with loud.observe(explode, "snapshot.read"):
        broken.events.clear()
        broken.lines.records.clear()
        loud.snapshot()
    failed = broken.of("instrumentation.failed")

    assert [event.data for event in failed] == [
        {"event": "snapshot.read", "outlet": outlet, "error": "RuntimeError"}
        for outlet in ("signal", "observer", "exporter")
    ]
    logged = [each.getMessage() for each in broken.lines.records]
    again = [line for line in logged if line.startswith("instrumentation.failed event=instrumentation.failed")]
    # Each of the three failed at the listeners of all events, of this one, and of exports.
    assert len(again) == 9


def test_the_text_of_a_listeners_error_is_not_told(broken: LoudApp) -> None:
    """As for all errors."""
    broken.Loud.ref("a").say(body="x")

    assert [line for line in broken.lines.texts if "a listener that fails" in line] == []


@pytest.mark.parametrize("error", [SystemExit(1), ValueError("x")])
def test_ending_the_process_is_not_possible(app: LoudApp, error: BaseException) -> None:
    """A listener that calls ``sys.exit`` fails like any other."""

    def leave(_sender: object, event: Event) -> None:
        raise error

    with signals.message_completed.connected_to(leave):
        assert app.Loud.ref("a").say(body="x") == "x"
    assert [event.data["error"] for event in app.of("instrumentation.failed")] == [type(error).__name__]


def test_an_interruption_goes_through(app: LoudApp) -> None:
    """Control-C during a listener is the user's; what was committed stays."""

    def interrupt(_sender: object, event: Event) -> None:
        raise KeyboardInterrupt

    with signals.message_completed.connected_to(interrupt), pytest.raises(KeyboardInterrupt):
        app.Loud.ref("a").say(body="x")
    assert app.Loud.ref("a").snapshot().bodies == ["x"]


def test_coroutines_are_refused(app: LoudApp) -> None:
    """A receiver that would never be awaited is a failure that is told."""
    with signals.message_completed.connected_to(later):
        app.Loud.ref("a").say(body="x")

    assert [event.data["error"] for event in app.of("instrumentation.failed")] == ["TypeError"]
    with pytest.raises(TypeError, match="plain function"):
        app.Loud.ref("a").observe(later)


def test_a_listener_is_no_actor_code(app: LoudApp) -> None:
    """Also where an event is announced within a turn, a listener may read other actors."""
    seen: list[Any] = []

    def read(_sender: object, event: Event) -> None:
        if event.actor_id == "a":
            seen.append(app.Loud.ref("b").look())

    with signals.message_started.connected_to(read):
        app.Loud.ref("a").say(body="x")

    assert seen == [""]


# -- when --------------------------------------------------------------------------------------


def test_nothing_is_told_before_the_commit(app: LoudApp, checkpoints: HeldCheckpoints) -> None:
    """A commit that fails is told as what it was; none of the events that it would have had."""
    checkpoints.fail("commit.committing", RuntimeError("refused"))
    app.Loud.ref("a").post.send(body="x")
    app.solid.runtime.worker().run_once()

    assert not {"message.completed", "effect.enqueued", "broadcast.enqueued", "state.large"} & set(app.names())
    assert "message.failed" in app.names()


def test_order_of_a_turn(app: LoudApp) -> None:
    """Stored, claimed, loaded, begun, ended, what it has staged, released."""
    app.Loud.ref("a").record(body="x")

    assert [name for name in app.names() if name != "activation.deactivation_failed"] == [
        *("message.enqueued", "activation.claimed", "activation.started", "activation.completed", "message.started"),
        *("commit_action.started", "commit_action.completed", "message.completed", "broadcast.enqueued"),
        "activation.released",
    ]


def test_a_session_is_told_of_after_its_root_transaction(app: LoudApp) -> None:
    """Not at the send, not at a savepoint, and not at all after a rollback."""
    session, loud = app.db.session, app.Loud.ref("a")
    with session.begin_nested():
        loud.say.using(session=session).send(body="x")
    before = app.names()
    session.commit()
    after = app.names()
    loud.say.using(session=session).send(body="y")
    session.rollback()

    assert ("message.enqueued" in before, app.names().count("message.enqueued")) == (False, 1)
    assert app.names()[: len(after)] == after
    told = app.of("message.enqueued")[0].data
    assert (told["sequence"], told["operation"], told["delivery_mode"]) == (1, "say", "async")


def test_a_repeat_is_not_a_message(app: LoudApp) -> None:
    """A send that finds the message of its idempotency key has stored nothing."""
    for _ in range(2):
        app.Loud.ref("a").say.using(idempotency_key="k").send(body="x")

    assert app.names().count("message.enqueued") == 1


# -- outlets -----------------------------------------------------------------------------------


def test_signals_are_of_one_app(app: LoudApp) -> None:
    """Who connects for another app hears nothing; the app is the sender."""
    heard: list[object] = []

    def hear(sender: object, event: Event) -> None:
        heard.append(sender)

    class Other: ...

    other = Other()
    signals.message_completed.connect(hear, other)
    app.Loud.ref("a").say(body="x")
    signals.message_completed.connect(hear, app.app)
    app.Loud.ref("a").say(body="x")

    assert heard == [app.app]


def test_log_lines_follow_the_level(caplog: pytest.LogCaptureFixture) -> None:
    """A line is written when its level is; without listeners nothing else is made of an event."""
    events = Events(adapter="sqlite")
    with caplog.at_level(logging.WARNING, "flask_solid_objects"):
        events.announce("supervisor.started", count=1)
        events.announce("role.failed", role="worker", error="ValueError")

    assert [record.getMessage() for record in caplog.records] == ["role.failed role=worker error=ValueError"]


def test_nothing_is_made_of_an_event_that_nobody_hears(caplog: pytest.LogCaptureFixture) -> None:
    """Without a listener what is announced is not even looked at."""

    class Untouched:
        @property
        def key(self) -> ActorKey:
            raise AssertionError("it was looked at")

    events = Events(adapter="sqlite")
    with caplog.at_level(logging.INFO, "flask_solid_objects"):
        events.announce("message.completed", claim=Untouched(), duration=0.1, revision=1)
        assert events.wants("message.completed") is False
    with caplog.at_level(logging.DEBUG, "flask_solid_objects"), pytest.raises(AssertionError, match="looked at"):
        events.announce("message.completed", claim=Untouched(), duration=0.1, revision=1)


def test_json_lines() -> None:
    """Each line is one object: of an event with its data, of anything else with its text and traceback."""

    lines, logger = Lines(), logging.getLogger("somebody.else")
    logger.addHandler(lines)
    try:
        raise ValueError("theirs")
    except ValueError:
        logger.exception("failed %s", "here")
    logger.removeHandler(lines)
    line = json.loads(lines.jsons[0])

    assert (line["level"], line["logger"], line["message"]) == ("ERROR", "somebody.else", "failed here")
    assert line["exception"].endswith("ValueError: theirs")
    assert "event" not in line


def test_retention_tells_whom_it_deletes(database_url: URL) -> None:
    """Each actor that expires is told of by its identity, and the rows by their number; a preview tells nothing."""
    retention = {"SOLID_OBJECTS_INSTANCE_RETENTION_BY_ACTOR_TYPE": {"Ear": 60}}
    with LoudApp(database_url, **retention).ready(made=True) as app:
        assert isinstance(app, LoudApp)
        app.Ear.ref("old").hear(body="x")
        app.Ear.ref("new").hear(body="x")
        row = app.Ear.ref("old").diagnostics().incarnation
        app.age("instances", "last_used_at", row)
        with app.listening():
            app.solid.processes.prune(["instances"], execute=False)
            assert app.names() == []
            app.solid.processes.prune(["instances"], execute=True)

        assert [(event.name, event.actor_id, dict(event.data)) for _, event in app.events] == [
            ("actor.expired", "old", {"instance_id": row}),
            ("instances.pruned", None, {"count": 1}),
        ]


def test_a_moved_reminder_is_told_with_both_times(app: LoudApp) -> None:
    """Arming one anew moves it; arming one for the first time does not."""
    loud = app.Loud.ref("a")
    loud.arm(body="x", delay=60)
    assert app.of("reminder.replaced") == []
    loud.arm(body="x", delay=120)
    told = app.of("reminder.replaced")[0].data

    assert told["operation"] == "ring"
    assert str(told["previous_run_at"]) < str(told["next_run_at"])
