"""What the transports have in common: foreign texts, bursts, stopping, and threads that cannot start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import sqlalchemy

from flask_solid_objects.runtime import transport_postgresql, transports
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.transports import Outgoing, PublishingTransport, Signal
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.seams import Clock
from flask_solid_objects.store.listeners import ListenConnection, NotifyConnection
from flask_solid_objects.values import WakeUpCapability
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.processes import wait_until

HERE = WakeUpCapability(adapter="test", crosses_processes=False, floor_ms=0, reason="a test")


class Recording(PublishingTransport):
    """Sends into a list; the first send may be held."""

    def __init__(self, rt: RuntimeUnderTest, held: threading.Event | None = None) -> None:
        super().__init__(rt.runtime.core, "test")
        self.sent: list[Signal] = []
        self._held = held

    def _open_sender(self) -> tuple[Callable[[str], object], Callable[[], None]]:
        return self._record, lambda: None

    def _record(self, text: str) -> None:
        if self._held is not None:
            assert self._held.wait(10)
        self.sent.append(msgspec.json.decode(text, type=Signal))


def wake_ups() -> WakeUps:
    return WakeUps(None, Clock(), HERE, Events(adapter="sqlite"))


@pytest.mark.parametrize("text", ["probe 8f", b"\xff", "{}", '["a"]', "null", ""])
def test_a_foreign_text_is_no_signal(text: str | bytes) -> None:
    """Another process's probe, or what another version sends, is passed over without an error."""
    woken = wake_ups()
    with woken.watch_work() as watch:
        Outgoing().receive(text, woken)

        assert watch.wait(0) is False


def test_a_signal_of_another_process_wakes(rt: RuntimeUnderTest) -> None:
    """A signal that names actors wakes those who watch them."""
    woken = wake_ups()
    with woken.watch_instance(7) as watch, woken.watch_instance(8) as other:
        Outgoing().receive(msgspec.json.encode(Signal("elsewhere", False, [7])), woken)

        assert watch.wait(0) is True
        assert other.wait(0) is False


def test_the_last_signal_is_sent_before_the_end(rt: RuntimeUnderTest) -> None:
    """A script that signals and ends at once is heard all the same."""
    for number in range(20):
        transport = Recording(rt)
        transport.publish(number, True)
        transport.stop()

        assert [[number]] == [signal.instances for signal in transport.sent]


def test_a_burst_becomes_few_signals(rt: RuntimeUnderTest) -> None:
    """What comes while one is sent is told together, and all of it is told."""
    held = threading.Event()
    transport = Recording(rt, held)
    for number in range(100):
        transport.publish(number, number == 50)
    held.set()
    told = lambda: {each for signal in transport.sent for each in signal.instances or ()}  # noqa: E731
    wait_until(lambda: told() == set(range(100)), "every actor to be told")
    transport.stop()

    assert len(transport.sent) <= 3
    assert any(signal.work for signal in transport.sent)


def test_a_thread_that_cannot_start_is_tried_again(rt: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that found no thread is sent with the next one."""
    transport = Recording(rt)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            transport.publish(1, False)
    transport.publish(2, False)
    wait_until(lambda: bool(transport.sent), "the signals to be sent")
    transport.stop()

    assert [signal.instances for signal in transport.sent] == [[1, 2]]


def test_failing_for_a_day_still_pauses(rt: RuntimeUnderTest) -> None:
    """The pause after very many failures is the longest one, and no overflow."""
    transport = Recording(rt)
    tries = 0

    def fail() -> None:
        nonlocal tries
        tries += 1
        if tries < 1500:
            raise ConnectionError("down")

    transport._core.seams.clock.wait = lambda event, seconds: event.is_set()  # type: ignore[method-assign]
    transport._threads._forever("test", fail)

    assert tries == 1500


def test_channels_do_not_depend_on_the_hosts_name(rt: RuntimeUnderTest) -> None:
    """Two processes that know one server by different names hear each other."""
    before = rt.database.channel
    rt.database.url = rt.database.url.set(host="another-name")

    assert before == rt.database.channel


@requires.notifications
def test_a_stop_interrupts_the_wait_for_notifications(rt: RuntimeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a transport would wait for the next one: the test's own time limit would end this otherwise."""
    monkeypatch.setattr(transport_postgresql, "_RECEIVE_SECONDS", 3600.0)
    wake_ups = rt.runtime.wake_ups
    wake_ups.start()
    assert wake_ups.wait_probed(10) is True

    wake_ups.stop()

    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("solid-")] == []


def test_a_stop_interrupts_a_poll_that_nobody_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(transports, "_UNWATCHED_SECONDS", 3600.0)
    rt = RuntimeUnderTest(sqlalchemy.make_url(f"sqlite:///{tmp_path}/polled.sqlite3"))
    wake_ups = rt.runtime.wake_ups
    wake_ups.start()

    rt.close()

    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("solid-")] == []


@requires.notifications
def test_a_notification_beside_an_answer_is_received(rt: RuntimeUnderTest) -> None:
    """What arrives together with the answer to another statement makes the connection readable no more."""
    listening, sender = ListenConnection(rt.database), NotifyConnection(rt.database)
    try:
        sender.notify("beside")
        listening.check()

        assert listening.receive(0) == ["beside"]
    finally:
        sender.close()
        listening.close()
