"""Processes that are not dead but late: stopped past their lease, or told to leave while a handler hangs."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import URL

from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.processes import TERM
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.child import LEASE
from tests.runtime.crashes.crashing import Doomed, recover


@pytest.mark.parametrize("step", ["claim.committed", "turn.handled"])
def test_process_that_slept_past_its_lease_writes_nothing(
    survivor: RuntimeUnderTest, database_url: URL, step: str
) -> None:
    """A worker that was stopped longer than its lease is taken over; its late commit is refused, and it goes on."""
    messages = [survivor.journal("a").add.send(entry=entry) for entry in ("one", "two")]
    with Doomed(database_url, "sleeper", step) as sleeper:
        sleeper.expect(f"is at {step}")
        took = recover(survivor, ["one", "two"])
        sleeper.signal(signal.SIGCONT)
        sleeper.expect("survived")

        assert sleeper.wait() == 0
    assert took < 2 * LEASE
    assert [message.outcome().attempts for message in messages] == [2, 1]
    assert [message.result() for message in messages] == [1, 2]
    assert survivor.journal("a").snapshot().entries == ["one", "two"]


def test_process_leaves_while_a_handler_hangs(survivor: RuntimeUnderTest, database_url: URL) -> None:
    """On TERM a message whose handler does not end goes back uncounted, and another process runs it at once."""
    message = survivor.journal("a").add.send(entry="x")
    with Doomed(database_url, "hanger", "turn.handled") as hanger:
        hanger.expect("is at turn.handled")
        assert message.status() is MessageStatus.CLAIMED
        hanger.signal(TERM)
        hanger.expect("survived")

        assert hanger.wait() == 0
    assert (message.status(), message.outcome().attempts) == (MessageStatus.READY, 0)
    assert survivor.drain() == 1
    assert message.outcome().attempts == 1
    assert survivor.journal("a").snapshot().entries == ["x"]


def test_old_look_at_leases_steals_none(
    survivor: RuntimeUnderTest, make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that was renewed between the look for expired ones and the lock of its actor stays with its holder."""
    message = survivor.journal("a").add.send(entry="x")
    other = make_runtime()
    with checkpoints.hold("turn.handled") as hold, ThreadPoolExecutor(1) as pool:
        running = pool.submit(survivor.runtime.worker().run_once)
        seen = [hold.wait_reached().data["claim"].lease.instance_id]
        monkeypatch.setattr(type(other.store.candidates), "expired", lambda _candidates, _tx, _limit: seen)

        assert other.recover() == 0
        assert message.status() is MessageStatus.CLAIMED
        hold.release()
        assert running.result(20) is True
    assert (message.result(), message.outcome().attempts) == (1, 1)
