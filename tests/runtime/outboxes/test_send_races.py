"""Deliveries that meet, fail half-way or die: nothing is lost, doubled or out of order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import URL, Engine, text

from flask_solid_objects.errors import CommitUnknown
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.crashes.crashing import crash
from tests.runtime.outboxes import child
from tests.runtime.outboxes.actors import Alarm, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.looking import Beside, count, errors, heard, outbox

MakeRoles = Callable[[RuntimeUnderTest], Roles]
ALL = (Till, Sender, Receiver, Alarm)
LOST = ConnectionResetError("the connection is gone")


@pytest.fixture(autouse=True)
def watched(invariants_beside: None) -> None:
    """Nothing else: the checker runs as long as the test."""


def test_order_of_each_pair_with_two_deliverers(
    rt: RuntimeUnderTest, make_runtime: MakeRuntime, make_roles: MakeRoles
) -> None:
    """Two processes that deliver the same messages of several senders keep the order of every pair."""
    both = [make_roles(rt), make_roles(make_runtime(own=ALL))]
    for entry in ("x", "y", "z"):
        for number in range(3):
            rt.ref("Sender", entry).tell(receivers=["a", "b"], entry=f"{entry}{number}-", times=15)

    def deliver(roles: Roles) -> None:
        while roles.scheduler.run_once():
            pass

    working = [Beside(lambda roles=roles: deliver(roles)) for roles in both]  # type: ignore[misc]
    for each in working:
        each.join()
    rt.drain()

    for receiver in ("a", "b"):
        entries = heard(rt, receiver)
        assert len(entries) == 3 * 45
        for entry in ("x", "y", "z"):
            wanted = [f"{entry}{number}-{time}" for number in range(3) for time in range(15)]
            assert [each for each in entries if each[0] == entry] == wanted


def test_second_delivery_of_a_pair_waits_and_finds_nothing(
    rt: RuntimeUnderTest, make_runtime: MakeRuntime, make_roles: MakeRoles, checkpoints: HeldCheckpoints, engine: Engine
) -> None:
    """A delivery that has locked its receiver is waited for by another of the same pair, which then has nothing."""
    one, two = make_roles(rt), make_roles(make_runtime(own=ALL))
    rt.ref("Receiver", "a").hear(entry="first")
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=3)
    with checkpoints.hold("delivery.locked") as hold:
        first = Beside(one.scheduler.run_once)
        hold.wait_reached()
        second = Beside(two.scheduler.run_once)
        hold.release()
        first.join()
        second.join()
    one.settle()

    assert heard(rt, "a") == ["first", "x0", "x1", "x2"]
    assert outbox(engine) == [("completed", 1)] * 3


@pytest.mark.parametrize("when", ["committing", "acknowledging"])
def test_unknown_commit_delivers_once(
    rt: RuntimeUnderTest, roles: Roles, checkpoints: HeldCheckpoints, engine: Engine, when: str
) -> None:
    """A delivery whose commit is unknown is delivered once in the end."""
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=3)
    checkpoints.fail(f"deliver.{when}", LOST)
    if when == "acknowledging":
        with pytest.raises(CommitUnknown):
            roles.scheduler.run_once()
    roles.settle()

    assert (heard(rt, "a"), outbox(engine)) == (["x0", "x1", "x2"], [("completed", 1)] * 3)


@pytest.mark.parametrize("step", ["deliver.committing", "deliver.acknowledging", "deliver.committed"])
def test_killed_deliverer(rt: RuntimeUnderTest, roles: Roles, database_url: URL, engine: Engine, step: str) -> None:
    """A process that is killed around the commit of a delivery loses nothing and doubles nothing."""
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=3)
    crash(database_url, "scheduler", step, main=child.main)

    assert outbox(engine) == ([("pending", 0)] * 3 if step == "deliver.committing" else [("completed", 1)] * 3)
    roles.settle()
    assert (heard(rt, "a"), outbox(engine)) == (["x0", "x1", "x2"], [("completed", 1)] * 3)


def test_broken_message_is_the_only_one_that_suffers(
    make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine
) -> None:
    """A message that fails in a way that nobody foresaw dies after its attempts; those before and after it do not."""
    rt = make_runtime(own=ALL, max_attempts=2)
    roles = make_roles(rt)
    ids = rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=3)
    with engine.begin() as connection:
        spoil = text("UPDATE solid_objects_effects SET arguments = '{}' WHERE effect_id = :id")
        connection.execute(spoil, {"id": ids[1]})
    for _ in range(5):
        roles.scheduler.run_once()
    rt.drain()

    assert outbox(engine) == [("completed", 1), ("dead", 2), ("completed", 1)]
    assert errors(engine)[1] == "ValidationError"
    assert heard(rt, "a") == ["x0", "x2"]


def test_destroyed_receiver_does_not_come_back_for_nothing(
    rt: RuntimeUnderTest, roles: Roles, make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine
) -> None:
    """A role that comes late to what another has delivered does not make the receiver anew."""
    late = make_roles(make_runtime(own=ALL)).scheduler._delivering
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x")
    (pair,), _ = rt.database.read(lambda tx: rt.store.deliveries.due(tx, 10))
    roles.settle()
    assert rt.ref("Receiver", "a").destroy() is True

    assert late._attempt(pair) == 0
    assert count(engine, "instances") == 1
