"""Wake-ups: in this process, across processes, after a broken connection, and what is chosen when."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
import redis
from sqlalchemy import URL, Engine, text

from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.runtime import transport_postgresql
from flask_solid_objects.runtime.transports import Outgoing
from flask_solid_objects.runtime.wakeups import AdaptiveInterval, WakeUps
from flask_solid_objects.seams import Clock
from flask_solid_objects.store.listeners import ListenConnection
from flask_solid_objects.values import WakeUpCapability
from tests.actors import RuntimeUnderTest
from tests.processes import wait_until
from tests.runtime.conftest import MakeRuntime

REDIS = os.environ.get("SOLID_TEST_REDIS_URL", "redis://127.0.0.1:6379")
ALONE = WakeUpCapability(adapter="in_process", crosses_processes=False, floor_ms=1.0, reason="test")


@pytest.fixture
def wake_ups() -> WakeUps:
    return WakeUps(None, Clock(), ALONE)


def test_signal_between_watch_and_wait_is_not_lost(wake_ups: WakeUps) -> None:
    """A watch that is taken before looking remembers a signal that came before waiting."""
    with wake_ups.watch_work() as watch:
        wake_ups.signal(instance_id=1, work=True)

        assert watch.wait(0) is True
        assert watch.wait(0) is False


def test_signal_wakes_only_those_it_concerns(wake_ups: WakeUps) -> None:
    """Only watchers of that actor are woken, and roles only when there may be work."""
    with wake_ups.watch_work() as work, wake_ups.watch_instance(1) as one, wake_ups.watch_instance(2) as two:
        wake_ups.signal(instance_id=1, work=False)

        assert [watch.wait(0) for watch in (work, one, two)] == [False, True, False]


def test_first_in_line_is_woken_and_passes_it_on(wake_ups: WakeUps) -> None:
    """Of several callers of one actor the lowest sequence is woken; when it leaves, the next one is."""
    second = wake_ups.watch_instance(1, 20)
    with wake_ups.watch_instance(1, 10) as first:
        wake_ups.signal(instance_id=1, work=False)

        assert [first.wait(0), second.wait(0)] == [True, False]
    assert second.wait(0) is True
    second.close()
    assert wake_ups.has_watches is False


def test_interrupted_watch_never_waits_again(wake_ups: WakeUps) -> None:
    """Stopping a role lets it go at once, and every later wait too."""
    with wake_ups.watch_work() as watch:
        watch.interrupt()

        assert [watch.wait(30), watch.wait(30)] == [True, True]


def test_interval_doubles_and_resets() -> None:
    """An idle role looks ever less often, down to the idle interval; work makes it fast again."""
    interval = AdaptiveInterval(0.1, 0.5)
    seen = []
    for _ in range(4):
        seen.append(interval.current)
        interval.back_off()
    interval.reset()

    assert [*seen, interval.current] == [0.1, 0.2, 0.4, 0.5, 0.1]


def test_many_signals_become_one() -> None:
    """Signals that wait to be sent are gathered; too many actors become anybody."""
    outgoing = Outgoing()
    for number in range(1000):
        outgoing.add(number % 5, work=number == 7)
    few = outgoing.take()
    for number in range(1000):
        outgoing.add(number, work=False)

    assert few.endswith(",true,[0,1,2,3,4]]")
    assert outgoing.take().endswith(",false,null]")
    assert len(few) < 8000


def redis_answers() -> bool:
    client = redis.Redis.from_url(REDIS, socket_connect_timeout=1)
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
    finally:
        client.close()


@pytest.fixture(params=["own", "redis"])
def pair(request: pytest.FixtureRequest, make_runtime: MakeRuntime) -> tuple[RuntimeUnderTest, RuntimeUnderTest]:
    """Two runtimes, which are two processes to each other, on the database's own way or on Redis."""
    if request.param == "redis" and not redis_answers():
        assert not os.environ.get("SOLID_REQUIRE_DATABASES"), f"Redis is required, and does not answer at {REDIS}"
        pytest.skip("there is no Redis")
    settings: dict[str, Any] = {"redis_url": REDIS} if request.param == "redis" else {}
    one, two = make_runtime(**settings), make_runtime(**settings)
    return one, two


def test_signal_reaches_the_other_process(pair: tuple[RuntimeUnderTest, RuntimeUnderTest]) -> None:
    """A send wakes a role of the other process, where there is a way; without one it says so."""
    one, two = pair
    if not one.runtime.wake_ups.capability.crosses_processes:
        assert one.runtime.wake_ups.capability.adapter == "polling"
        return
    two.runtime.wake_ups.start()
    two.runtime.wake_ups.wait_probed(5)
    with two.runtime.wake_ups.watch_work() as watch:
        wait_until(lambda: not watch.wait(0.05), "the wake-up of the start to be over")
        one.journal("a").add.send(entry="x")

        assert watch.wait(5) is True


def test_broken_listener_comes_back(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A listening connection that the server ends is replaced, and everybody is woken after it."""
    rt = make_runtime()
    if rt.runtime.wake_ups.capability.adapter != "postgresql":
        return
    rt.runtime.wake_ups.start()
    assert rt.runtime.wake_ups.wait_probed(5) is True
    find = text("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")

    def listeners() -> list[int]:
        with engine.connect() as connection:
            return list(connection.execute(find).scalars())

    wait_until(lambda: len(listeners()) == 1, "the listener")
    with rt.runtime.wake_ups.watch_work() as watch:
        watch.wait(0)
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": listeners()[0]})

        assert watch.wait(10) is True
        wait_until(lambda: len(listeners()) == 1, "another listener")
    other = make_runtime()
    with rt.runtime.wake_ups.watch_work() as watch:
        watch.wait(0)
        other.journal("a").add.send(entry="x")

        assert watch.wait(5) is True


def test_probe_finds_a_transaction_pooler(make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """When notifications do not arrive, the process polls, and says why."""
    rt = make_runtime()
    wake_ups = rt.runtime.wake_ups
    if wake_ups.capability.adapter != "postgresql":
        return
    monkeypatch.setattr(transport_postgresql, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(ListenConnection, "receive", lambda _self, _timeout: [])
    wake_ups.start()

    assert wake_ups.wait_probed(5) is True
    assert (wake_ups.capability.adapter, wake_ups.capability.crosses_processes) == ("polling", False)
    assert "pooler" in wake_ups.capability.reason


def test_choice_by_database(make_runtime: MakeRuntime, database_url: URL) -> None:
    """Automatically the best way of the database, Redis where its URL is given, and none on request."""
    own = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "polling"}[database_url.get_backend_name()]

    def adapter(**settings: Any) -> str:
        return str(make_runtime(**settings).runtime.wake_ups.capability.adapter)

    assert adapter() == own
    assert adapter(redis_url=REDIS) == "redis"
    assert adapter(wake_up_adapter="in_process") == "in_process"
    assert adapter(wake_up_adapter="polling") == "polling"
    if own != "postgresql":
        with pytest.raises(InvalidSettings, match="needs PostgreSQL"):
            adapter(wake_up_adapter="postgresql")


class OwnAdapter:
    """An adapter of an application."""

    def __init__(self) -> None:
        self.signals = 0
        self.event = threading.Event()

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


def test_adapter_of_the_application(make_runtime: MakeRuntime) -> None:
    """An object with signal and watch is used, and its failures reach nobody."""
    adapter = OwnAdapter()
    rt = make_runtime(wake_up_adapter=adapter)
    rt.runtime.wake_ups.start()
    with rt.runtime.wake_ups.watch_work() as watch:
        watch.wait(0)
        rt.journal("a").add.send(entry="x")

        assert watch.wait(5) is True
    assert adapter.signals == 1
    assert rt.runtime.wake_ups.capability.adapter == "configured"


def test_start_and_stop_leave_nothing(make_runtime: MakeRuntime) -> None:
    """Starting from many threads starts once; stopping, twice, ends every thread."""
    rt = make_runtime()
    wake_ups = rt.runtime.wake_ups
    threads = [threading.Thread(target=wake_ups.start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wake_ups.signal(instance_id=1, work=True)
    wake_ups.stop()
    wake_ups.stop()

    assert [t.name for t in threading.enumerate() if t.name.startswith("solid-")] == []
