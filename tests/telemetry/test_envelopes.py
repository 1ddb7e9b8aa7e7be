"""The portable envelope: what other implementations share, down to the names of attributes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from flask_solid_objects import Event
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.wakeups import AdaptiveInterval
from flask_solid_objects.values import ActorKey
from tests.telemetry.golden import ATTRIBUTES, ENTRIES, WAITING_ON, Entry
from tests.telemetry.loud import LoudApp
from tests.web.live.conftest import config as config
from tests.web.live.conftest import open_page as open_page
from tests.web.live.conftest import site as site
from tests.web.live.site import Page, Site

BROWSER = {"payload_broadcast.failed", "realtime.connected", "realtime.disconnected"}
KEYS = [
    *("schemaVersion", "name", "occurredAt", "adapter", "actorType", "actorId", "incarnation", "revision"),
    *("messageId", "attempt", "attributes", "metrics"),
]


def assert_golden(envelopes: list[dict[str, Any]], entries: list[Entry]) -> None:
    """Each entry was told of, and always with its attributes and no other."""
    found = {str(entry): [each["attributes"] for each in envelopes if entry.fits(each)] for entry in entries}

    assert [name for name, given in found.items() if not given] == []
    wrong = [(str(entry), given) for entry in entries for given in found[str(entry)] if set(given) != entry.attributes]
    assert wrong == []


def test_golden_events_of_actors(app: LoudApp) -> None:
    """Every event of the golden data, also those that are told apart by an attribute, has exactly its attributes."""
    app.everything()
    app.solid.runtime.core.events.announce(
        "call.enqueue_timeout", actor=ActorKey(actor_type="Loud", actor_id="a"), operation="say", timeout=1.5
    )
    role = app.solid.runtime.scheduler()
    idle(role)

    assert_golden(app.envelopes, [entry for entry in ENTRIES if entry.name not in BROWSER])


def idle(role: Role) -> None:
    """Let a role find nothing until it looks less often."""
    with role._wake_ups.watch_work() as watch:
        interval = AdaptiveInterval(0.001, 0.1)
        while interval.current < 0.1:
            role._pass(watch, interval)
    role.stop()
    role._leave()
    role._keeper.stop()


def test_golden_events_of_browsers(site: Site, open_page: Callable[[str], Page]) -> None:
    """The same for pages that come, are told, and go."""
    envelopes: list[dict[str, Any]] = []
    site.solid.export_events(envelopes.append)
    site.Room.ref("lobby").say(text="x")
    page = open_page("ann")
    # The broken projection comes after the one that works.
    page.subscribe(2)
    page.receive("ev")
    page.subscribe(0, k="Room:lobby~forged")
    page.send({"t": "unsub", "s": [page.pairs[2][0].rpartition("~")[0]]})
    page.subscribe(0)
    page.client.get(page.url)

    assert_golden(envelopes, [entry for entry in ENTRIES if entry.name in BROWSER])
    names = [each["name"].removeprefix("solid_objects.") for each in envelopes]
    assert {"subscription.rejected", "component.refreshed", "realtime.disconnected"} <= set(names)


def test_shape(app: LoudApp) -> None:
    """All keys are always there, in their types; ids are text and attributes are allowed ones with plain values."""
    app.everything()

    for each in app.envelopes:
        assert list(each) == KEYS
        assert (each["schemaVersion"], each["adapter"]) == (1, app.solid.runtime.core.database.dialect.name)
        datetime.strptime(each["occurredAt"], "%Y-%m-%dT%H:%M:%S.%fZ")
        ids = [each[key] for key in ("actorType", "actorId", "incarnation", "revision", "messageId")]
        assert {type(value) for value in ids} <= {str, type(None)}
        assert isinstance(each["attempt"], int)
        assert set(each["attributes"]) <= set(ATTRIBUTES)
        assert json.loads(json.dumps(each)) == each


def event(name: str, **data: Any) -> Event:
    """One event of an actor, as the runtime makes it."""
    got: list[Event] = []
    events = Events(adapter="sqlite")
    key = ActorKey(actor_type="Cart", actor_id="a")
    events.observe(key, got.append, ())
    events.announce(name, actor=key, **data)
    return got[0]


@pytest.mark.parametrize(("native", "portable"), list(WAITING_ON.items()))
def test_golden_reasons(native: str, portable: str) -> None:
    """What a call waits for is in camel case."""
    told = event("call.timeout", operation="add", timeout=2.0, waiting_on=native).envelope()

    assert (told["name"], told["attributes"]["waitingOn"]) == ("solid_objects.sync.timeout", portable)
    assert told["attributes"]["timeoutMilliseconds"] == 2000


@pytest.mark.parametrize(
    ("name", "data", "metric"),
    [
        ("message.completed", {"duration": 0.0126}, ("solid_objects.duration", "histogram", "ms", 13)),
        ("reminder.enqueued", {"lateness": -3.0}, ("solid_objects.reminder.lateness", "histogram", "ms", 0)),
        ("outbox.age", {"age": 61.5}, ("solid_objects.outbox.age", "histogram", "ms", 61500)),
        ("mailbox.depth", {"depth": 7}, ("solid_objects.mailbox.depth", "gauge", "1", 7)),
    ],
)
def test_metrics(name: str, data: dict[str, Any], metric: tuple[Any, ...]) -> None:
    """A measured value is a sample beside the count of the event; values are whole and not below 0."""
    samples = event(name, **data).envelope()["metrics"]
    labels = {"event": f"solid_objects.{name}", "adapter": "sqlite", "actorType": "Cart"}

    assert [tuple(each[key] for key in ("name", "kind", "unit", "value")) for each in samples] == [
        ("solid_objects.events", "counter", "1", 1),
        metric,
    ]
    assert [each["labels"] for each in samples] == [labels, labels]


def test_unknown_depth_is_no_sample() -> None:
    """A mailbox whose count was cut has no depth."""
    told = event("mailbox.depth", count=100, depth=None, truncated=True).envelope()

    assert [each["name"] for each in told["metrics"]] == ["solid_objects.events"]
    assert told["attributes"]["depth"] is None


def test_an_event_cannot_be_changed() -> None:
    """Who listens cannot change what the next one gets."""
    told = event("actor.destroyed", instance_id=1)

    with pytest.raises(AttributeError):
        told.name = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        told.data["instance_id"] = 2  # type: ignore[index]
    told.envelope()["attributes"]["instanceId"] = "2"
    assert told.envelope()["attributes"]["instanceId"] == "1"
    assert told.occurred_at.tzinfo is UTC
