"""Wake-ups: in this process, across processes, and after a broken connection."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
import redis
from sqlalchemy import URL, Engine, text

from flask_solid_objects.runtime import transport_postgresql, transport_redis
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.transports import Outgoing
from flask_solid_objects.runtime.wakeup_selection import select_wake_ups
from flask_solid_objects.runtime.wakeups import AdaptiveInterval, WakeUps
from flask_solid_objects.seams import Clock
from flask_solid_objects.values import WakeUpCapability
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.processes import Child, wait_until
from tests.runtime.conftest import MakeRuntime

REDIS = os.environ.get("SOLID_TEST_REDIS_URL", "redis://127.0.0.1:6379")
ALONE = WakeUpCapability(adapter="in_process", crosses_processes=False, floor_ms=1.0, reason="test")


@pytest.fixture
def wake_ups() -> WakeUps:
    return WakeUps(None, Clock(), ALONE, Events(adapter="sqlite"))


def test_signal_between_watch_and_wait_is_not_lost(wake_ups: WakeUps) -> None:
    """A watch that is taken before looking remembers a signal that came before waiting."""
    with wake_ups.watch_work() as watch:
        wake_ups.signal(instance_id=1, work=True)

        assert watch.wait(0) is True
        assert watch.wait(0) is False


class LateClock(Clock):
    """A clock on which a wait that is over is followed by a signal, before the waiter can do anything."""

    def __init__(self) -> None:
        self.wake_ups: WakeUps | None = None

    def wait(self, event: threading.Event, seconds: float) -> bool:
        woken = event.wait(0)
        if self.wake_ups is not None:
            self.wake_ups.signal(instance_id=1, work=True)
        return woken


def test_signal_right_after_a_time_out_is_not_lost() -> None:
    """A signal between the time-out of one wait and its return is for the next wait."""
    clock = LateClock()
    wake_ups = clock.wake_ups = WakeUps(None, clock, ALONE, Events(adapter="sqlite"))
    with wake_ups.watch_work() as watch:
        first = watch.wait(0)
        clock.wake_ups = None

        assert [first, watch.wait(0), watch.wait(0)] == [False, True, False]


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


def test_lost_signals_wake_the_first_in_line_of_each(wake_ups: WakeUps) -> None:
    """A signal for anybody wakes roles and who can go on, not all callers; those without a place go together."""
    orders = [(1, 10), (1, 20), (2, 5), (3, 0), (3, 0)]
    watches = [wake_ups.watch_work(), *(wake_ups.watch_instance(number, order) for number, order in orders)]
    wake_ups.deliver_all()

    assert [watch.wait(0) for watch in watches] == [True, True, False, True, True, True]


def test_stop_lets_everybody_go(wake_ups: WakeUps) -> None:
    """Not only who is first in line: nobody would pass it on."""
    watches = [wake_ups.watch_work(), wake_ups.watch_instance(1, 10), wake_ups.watch_instance(1, 20)]
    wake_ups.stop()

    assert [watch.wait(0) for watch in watches] == [True, True, True]


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


def need_redis(url: str | None) -> str | None:
    """Return the URL, or skip the test when it is given and nobody answers."""
    if url is not None and not redis_answers(url):
        assert not os.environ.get("SOLID_REQUIRE_DATABASES"), f"Redis is required, and does not answer at {url}"
        pytest.skip("there is no Redis")
    return url


def redis_answers(url: str) -> bool:
    client = redis.Redis.from_url(url, socket_connect_timeout=1)
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
    finally:
        client.close()


@pytest.fixture(params=["own", "redis"])
def pair(request: pytest.FixtureRequest, make_runtime: MakeRuntime) -> tuple[RuntimeUnderTest, RuntimeUnderTest]:
    """Two runtimes, which are two processes to each other, on the database's own way or on Redis."""
    redis_url = need_redis(REDIS if request.param == "redis" else None)
    one, two = make_runtime(redis_url=redis_url), make_runtime(redis_url=redis_url)
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


@pytest.mark.parametrize("redis_url", [None, REDIS])
def test_signal_reaches_a_real_process(make_runtime: MakeRuntime, database_url: URL, redis_url: str | None) -> None:
    """A send wakes a process of its own, where there is a way."""
    rt = make_runtime(redis_url=need_redis(redis_url))
    if not rt.runtime.wake_ups.capability.crosses_processes:
        assert rt.runtime.wake_ups.capability.adapter == "polling"
        return
    url, took = database_url.render_as_string(hide_password=False), []
    with Child("-m", "tests.runtime.wakeup_child", url, redis_url or "-", "listen") as child:
        child.expect("ready")
        for number in range(5):
            sent_at = time.time()
            rt.journal("a").add.send(entry=str(number))
            woken_at = float(child.expect("woken").split()[1])
            while woken_at < sent_at:
                woken_at = float(child.expect("woken").split()[1])
            took.append(woken_at - sent_at)
    print("milliseconds from send to wake-up:", [round(seconds * 1000, 1) for seconds in took])

    assert max(took) < 1.0


@requires.notifications
def test_broken_listener_comes_back(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A listening connection that the server ends is replaced, and everybody is woken after it."""
    rt = make_runtime()
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


@pytest.mark.parametrize("redis_url", [None, REDIS])
def test_start_and_stop_at_any_moment(
    make_runtime: MakeRuntime, monkeypatch: pytest.MonkeyPatch, redis_url: str | None
) -> None:
    """Two hundred times started, signalled and stopped by several threads at once; each time nothing is left."""
    monkeypatch.setattr(transport_postgresql, "_RECEIVE_SECONDS", 0.01)
    monkeypatch.setattr(transport_redis, "_RECEIVE_SECONDS", 0.01)
    rt = make_runtime(redis_url=need_redis(redis_url))
    for _ in range(200):
        wake_ups = select_wake_ups(rt.runtime.core)
        with wake_ups.watch_work():
            signal = partial(wake_ups.signal, instance_id=1, work=True)
            acts = [wake_ups.start, signal, wake_ups.stop, wake_ups.start, wake_ups.stop]
            _at_once(acts)
            wake_ups.stop()

    assert [t.name for t in threading.enumerate() if t.name.startswith("solid-")] == []


def _at_once(acts: list[Callable[[], None]]) -> None:
    barrier = threading.Barrier(len(acts))

    def run(act: Callable[[], None]) -> None:
        barrier.wait(10)
        act()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
