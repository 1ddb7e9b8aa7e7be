"""Which wake-ups are chosen when, what they say of themselves, an application's own adapter, and those that fail."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import URL

from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.runtime import transport_postgresql
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.seams import Clock
from flask_solid_objects.store.listeners import ListenConnection
from flask_solid_objects.values import WakeUpCapability
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.processes import wait_until
from tests.runtime.conftest import MakeRuntime

# No test here connects to it.
REDIS = "redis://127.0.0.1:6379"


def test_choice_by_database(make_runtime: MakeRuntime, database_url: URL) -> None:
    """Automatically the best way of the database, Redis where its URL is given, and none on request."""
    own = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "polling"}[database_url.get_backend_name()]

    def adapter(**settings: Any) -> str:
        return str(make_runtime(**settings).runtime.wake_ups.capability.adapter)

    assert own == adapter()
    assert adapter(redis_url=REDIS) == "redis"
    assert adapter(wake_up_adapter="in_process") == "in_process"
    assert adapter(wake_up_adapter="polling") == "polling"
    if own != "postgresql":
        with pytest.raises(InvalidSettings, match="needs PostgreSQL"):
            adapter(wake_up_adapter="postgresql")


def test_in_memory_database_is_alone() -> None:
    """Nobody else can see it, so nothing listens and nothing polls."""
    rt = RuntimeUnderTest(sqlalchemy.make_url("sqlite://"))
    rt.runtime.wake_ups.start()
    capability = rt.runtime.wake_ups.capability
    rt.close()

    assert (capability.adapter, capability.crosses_processes) == ("in_process", False)
    assert "in memory" in capability.reason


def test_polling_says_how_slow_it_is() -> None:
    """Without a way between processes the floor is the idle interval, and the reason names the remedy."""
    url = sqlalchemy.make_url("mysql+pymysql://nobody@127.0.0.1:1/nothing")
    rt = RuntimeUnderTest(url, idle_polling_interval=0.7)
    capability = rt.runtime.wake_ups.capability

    assert (capability.adapter, capability.crosses_processes, capability.floor_ms) == ("polling", False, 700.0)
    assert "SOLID_OBJECTS_REDIS_URL" in capability.reason


def test_named_redis_must_be_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its URL, or without its driver, the error names what to set or install."""
    url = sqlalchemy.make_url("sqlite://")
    with pytest.raises(InvalidSettings, match="SOLID_OBJECTS_REDIS_URL"):
        _ = RuntimeUnderTest(url, wake_up_adapter="redis").runtime.wake_ups
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(InvalidSettings, match="pip install"):
        _ = RuntimeUnderTest(url, redis_url=REDIS).runtime.wake_ups


@requires.notifications
def test_probe_finds_a_transaction_pooler(make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """When notifications do not arrive, the process polls, and says why."""
    wake_ups = make_runtime().runtime.wake_ups
    monkeypatch.setattr(transport_postgresql, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(ListenConnection, "receive", lambda _self, _timeout: [])
    wake_ups.start()

    assert wake_ups.wait_probed(5) is True
    assert (wake_ups.capability.adapter, wake_ups.capability.crosses_processes) == ("polling", False)
    assert "pooler" in wake_ups.capability.reason


class OwnAdapter:
    """An adapter of an application, which fails wherever it is asked to signal or stop."""

    def __init__(self) -> None:
        self.signals = 0
        self.event = threading.Event()
        self.stopped = self.closed = 0

    def signal(self) -> None:
        self.signals += 1
        self.event.set()
        raise OSError("must not reach the sender")

    def watch(self) -> OwnAdapter:
        return self

    def wait(self, timeout: float) -> bool:
        woken = self.event.wait(timeout)
        self.event.clear()
        return woken

    def close(self) -> None:
        self.closed += 1

    def stop(self) -> None:
        self.stopped += 1
        raise OSError("must not reach those who close")


def test_adapter_of_the_application(make_runtime: MakeRuntime) -> None:
    """An object with signal and watch is used, its watch is closed, and its failures reach nobody."""
    adapter = OwnAdapter()
    rt = make_runtime(wake_up_adapter=adapter)
    rt.runtime.wake_ups.start()
    with rt.runtime.wake_ups.watch_work() as watch:
        watch.wait(0)
        rt.journal("a").add.send(entry="x")

        assert watch.wait(5) is True
    assert adapter.signals == 1
    assert rt.runtime.wake_ups.capability.adapter == "configured"
    rt.close()
    assert (adapter.closed, adapter.stopped) == (1, 1)


class HastyAdapter(OwnAdapter):
    """Its wait says at once that something happened, always."""

    capability = WakeUpCapability(adapter="hasty", crosses_processes=True, floor_ms=1.0, reason="it said so")

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    def wait(self, timeout: float) -> bool:
        self.waits += 1
        return True


def test_hasty_adapter_does_not_spin(make_runtime: MakeRuntime) -> None:
    """An object whose wait never blocks is paced, and keeps the capability that it gives."""
    adapter = HastyAdapter()
    rt = make_runtime(wake_up_adapter=adapter)
    rt.runtime.wake_ups.start()
    started_at = rt.runtime.core.seams.clock.monotonic()
    wait_until(lambda: adapter.waits >= 20, "twenty waits")
    waits, took = adapter.waits, rt.runtime.core.seams.clock.monotonic() - started_at

    assert rt.runtime.wake_ups.capability.adapter == "hasty"
    assert waits <= took / 0.005 + 2


class BrokenTransport:
    """Fails at everything, as when no thread can start."""

    capability = WakeUpCapability(adapter="broken", crosses_processes=True, floor_ms=1.0, reason="test")

    def __init__(self) -> None:
        self.asked: list[str] = []

    def start(self, wake_ups: WakeUps) -> None:
        self._fail("start")

    def publish(self, instance_id: int | None, work: bool) -> None:
        self._fail("publish")

    def wait_probed(self, timeout: float) -> bool:
        return True

    def stop(self) -> None:
        self._fail("stop")

    def _fail(self, what: str) -> None:
        self.asked.append(what)
        raise RuntimeError("can't start new thread")


def test_failures_of_a_transport_reach_nobody() -> None:
    """Those who signal, wait and close go on, those of this process are woken, and a start is tried again."""
    transport = BrokenTransport()
    wake_ups = WakeUps(transport, Clock(), transport.capability, Events(adapter="sqlite"))
    with wake_ups.watch_work() as watch:
        wake_ups.start()
        wake_ups.start()
        wake_ups.signal(instance_id=1, work=True)

        assert watch.wait(0) is True
        wake_ups.stop()
        assert watch.wait(0) is True
    assert transport.asked == ["start", "start", "publish", "stop"]
