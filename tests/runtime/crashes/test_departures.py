"""Supervisors that start and stop at any moment, and a turn that goes on in another process after one has left."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from flask_solid_objects.runtime.runtime import RoleCounts
from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.processes import wait_until
from tests.runtime.conftest import MakeRuntime


@pytest.mark.parametrize("stop_at", ["before the start", "at once", "at work", "when idle"])
def test_supervisor_stops_at_any_moment(rt: RuntimeUnderTest, checkpoints: HeldCheckpoints, stop_at: str) -> None:
    """Stopped by many threads at any moment, it ends, leaves no claim and no registration, and no turn is counted."""
    messages = [rt.journal(str(number % 3)).add.send(entry=str(number)) for number in range(9)]
    supervisor = rt.runtime.supervisor(RoleCounts(workers=2, effects=0, reminders=0, broadcasts=0))
    stoppers = [threading.Thread(target=supervisor.stop) for _ in range(4)]
    running = threading.Thread(target=supervisor.run)

    def stop() -> None:
        for stopper in stoppers:
            stopper.start()

    if stop_at == "before the start":
        stop()
    running.start()
    if stop_at == "at work":
        checkpoints.wait_count("turn.claimed")
    if stop_at == "when idle":
        checkpoints.wait_count("role.idle", 2)
    if stop_at != "before the start":
        stop()
    for thread in (*stoppers, running):
        thread.join(20)
        assert not thread.is_alive()

    assert rt.runtime.operators.processes() == []
    assert {message.status() for message in messages} <= {MessageStatus.READY, MessageStatus.COMPLETED}
    rt.drain()
    assert [message.outcome().attempts for message in messages] == [1] * 9
    assert [message.result() for message in messages] == [number // 3 + 1 for number in range(9)]


def test_supervisors_come_and_go(make_runtime: MakeRuntime) -> None:
    """While supervisors of two processes start and stop again and again, what was sent is run once, in order."""
    first, second = make_runtime(), make_runtime()
    messages = [first.journal(str(number % 4)).add.send(entry=str(number)) for number in range(60)]
    over = threading.Event()

    def come_and_go(rt: RuntimeUnderTest) -> None:
        while not over.is_set():
            supervisor = rt.runtime.supervisor(RoleCounts(workers=1, effects=0, reminders=0, broadcasts=0))
            running = threading.Thread(target=supervisor.run)
            running.start()
            over.wait(0.05)
            supervisor.stop()
            running.join(20)

    threads = [threading.Thread(target=come_and_go, args=(rt,)) for rt in (first, second)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: all(message.status() is MessageStatus.COMPLETED for message in messages), "all to run")
    finally:
        over.set()
        for thread in threads:
            thread.join(20)

    assert [message.result() for message in messages] == [number // 4 + 1 for number in range(60)]
    assert [message.outcome().attempts for message in messages] == [1] * 60
    assert first.runtime.operators.processes() == []


def test_lease_is_lost_while_the_worker_goes_on(
    make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, expire: Callable[[], None]
) -> None:
    """A handler that loses its lease commits nothing, and its worker then runs other actors as before."""
    rt, other = make_runtime(), make_runtime()
    lost = rt.journal("a").add.send(entry="x")
    worker = rt.runtime.worker()
    with checkpoints.hold("turn.handled") as hold:
        running = threading.Thread(target=worker.run_once)
        running.start()
        hold.wait_reached()
        expire()
        other.recover()
        other.drain()
        assert (lost.result(), lost.outcome().attempts) == (1, 2)
        hold.release()
        running.join(20)

    assert not running.is_alive()
    assert rt.journal("a").snapshot().entries == ["x"]
    next_one = rt.journal("b").add.send(entry="y")
    assert worker.run_once() is True
    assert (next_one.result(), next_one.outcome().attempts) == (1, 1)
