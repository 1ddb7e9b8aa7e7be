"""No argument, state, result or text of an error leaves by an event (promise 11)."""

from __future__ import annotations

import json

from sqlalchemy import text

from flask_solid_objects.telemetry.catalog import CATALOG
from tests.telemetry.loud import MARKER, LoudApp

# What only a browser, a lost connection or a process of its own makes happen; each has its own tests.
ELSEWHERE = {
    *("commit.unknown", "turn.handed_back", "activation.renewed", "activation.lost", "lease.renewal_failed"),
    *("effect.callback_waits", "delivery.failed", "delivery.postponed", "delivery.repeated"),
    *("broadcast.failed", "broadcast.dead", "broadcast.listener_failed", "reminder.failed", "reminder.dead"),
    *("realtime.connected", "realtime.disconnected", "subscription.rejected", "payload.failed"),
    *("component.refreshed", "component.batch_refreshed", "relay.paused", "relay.failed", "relay.watcher_failed"),
    *("socket.refused", "socket.closed", "socket.failed", "socket.gone", "view.failed"),
    *("send.unobserved", "actor.expired", "instrumentation.failed"),
    *("messages.pruned", "instances.pruned", "processes.pruned", "retention.pruned", "retention.failed"),
    *("redrive.finished", "redrive.failed", "process.heartbeat_failed", "process.registered_again"),
    *("polling.interval_changed", "polling.only_cross_process_wake_up", "wake_up.failed", "wake_up.foreign"),
    *("wake_up.pooled_session", "role.paused", "role.failed", "role.handed_back", "supervisor.started"),
    *("supervisor.stopped", "supervisor.role_replaced", "call.enqueue_timeout", "call.transaction_rejected"),
}


def test_nothing_private_leaves(app: LoudApp) -> None:
    """The marker is in arguments, states, results, details and errors, and in nothing that is told of them."""
    app.everything()
    with app.solid.runtime.core.database.engine.connect() as connection:
        stored = str(connection.execute(text("SELECT arguments, result, error FROM solid_objects_messages")).all())
    heard = repr([event for _, event in app.events])

    assert MARKER in stored
    assert MARKER not in heard
    assert MARKER not in json.dumps(app.envelopes)
    assert [line for line in app.lines.texts if MARKER in line] == []
    assert [line for line in app.lines.jsons if MARKER in line] == []
    assert sorted(set(CATALOG) - set(app.names()) - ELSEWHERE) == []


def test_outlets_agree(app: LoudApp) -> None:
    """Each event goes once to each outlet, in one order, from the app; its data are plain values."""
    app.everything()
    names = app.names()

    assert [each["name"] for each in app.envelopes] == [f"solid_objects.{_portable(name)}" for name in names]
    ours = [record for record in app.lines.records if hasattr(record, "solid_event")]
    assert [vars(record)["solid_event"] for record in ours] == names
    assert {type(sender) for sender, _ in app.events} == {type(app.app)}
    values = {type(value) for _, event in app.events for value in event.data.values()}
    assert values <= {str, int, float, bool, type(None)}


def _portable(name: str) -> str:
    return CATALOG[name].portable or name
