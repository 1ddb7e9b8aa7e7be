"""Roles, supervisor, registrations and leases over time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.errors import StateMigrationError
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.runtime import RoleCounts
from flask_solid_objects.runtime.supervisor import Supervisor
from flask_solid_objects.values import ActorKey, MessageStatus
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.processes import wait_until
from tests.runtime.conftest import MakeRuntime


class Supervised:
    """A supervisor running in a thread."""

    def __init__(self, rt: RuntimeUnderTest, workers: int = 1) -> None:
        self.supervisor = rt.runtime.supervisor(RoleCounts(workers=workers, effects=0, reminders=0, broadcasts=0))
        self._thread = threading.Thread(target=self.supervisor.run)
        self._thread.start()

    def stop(self) -> None:
        self.supervisor.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()


def test_supervisor_runs_what_was_sent(rt: RuntimeUnderTest) -> None:
    """Sent messages of many actors are run, in order for each, while the roles show themselves in the registry."""
    supervised = Supervised(rt, workers=2)
    try:
        messages = [rt.journal(str(number % 5)).add.send(entry=str(number)) for number in range(40)]
        wait_until(lambda: all(m.status() is MessageStatus.COMPLETED for m in messages), "the workers to run all")
        registered = lambda: sorted(process.kind for process in rt.runtime.operators.processes())  # noqa: E731
        wait_until(lambda: registered() == ["maintenance", "worker", "worker"], "three roles in the registry")
    finally:
        supervised.stop()

    assert [message.result() for message in messages] == [number // 5 + 1 for number in range(40)]
    assert registered() == []


def test_graceful_stop_hands_back_what_does_not_end(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """After the shutdown time a running message goes back uncounted, and its late commit writes nothing."""
    rt, other = make_runtime(shutdown_timeout=0.2), make_runtime()
    message = rt.journal("a").add.send(entry="x")
    with checkpoints.hold("turn.handled") as hold:
        supervised = Supervised(rt)
        hold.wait_reached()
        supervised.stop()

        assert message.status() is MessageStatus.READY
        assert message.outcome().attempts == 0
        assert other.drain() == 1
        hold.release()
        wait_until(lambda: all(t.name != "solid-worker" for t in threading.enumerate()), "the held worker to end")

    assert message.outcome().attempts == 1
    assert rt.journal("a").entries == ["x"]


def test_failing_role_is_replaced_with_growing_pauses(make_runtime: MakeRuntime) -> None:
    """A role that raises is replaced by its factory until it stays."""
    rt = make_runtime(supervisor_monitor_interval=0.01, supervisor_restart_delay=0.01)
    made: list[Role] = []

    class Failing(Role):
        kind = "failing"

        def run_once(self) -> bool:
            raise ValueError("broken")

    def factory() -> Role:
        here = rt.runtime._here()
        role = rt.runtime.worker() if len(made) >= 3 else Failing(rt.runtime.core, here.wake_ups, here.keeper)
        made.append(role)
        return role

    supervisor = Supervisor(rt.runtime.core, [factory], rt.runtime._here().deregistration)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        message = rt.journal("a").add.send(entry="x")
        wait_until(lambda: message.status() is MessageStatus.COMPLETED, "the worker to run it")
    finally:
        supervisor.stop()
        thread.join(20)

    assert [role.kind for role in made] == ["failing", "failing", "failing", "worker"]


def test_roles_start_and_stop_at_any_moment(rt: RuntimeUnderTest) -> None:
    """Stopping before the start, twice, and from several threads always ends the role."""
    for make in (rt.runtime.worker, rt.runtime.maintenance):
        for rounds in range(10):
            role = make()
            if rounds % 3 == 0:
                role.stop()
            thread = threading.Thread(target=role.run)
            stoppers = [threading.Thread(target=role.stop) for _ in range(3)]
            thread.start()
            for stopper in stoppers:
                stopper.start()
            for each in (*stoppers, thread):
                each.join(20)
                assert not each.is_alive()

    assert [process.kind for process in rt.runtime.operators.processes()] == []


def test_long_handler_keeps_its_lease(make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, engine: Engine) -> None:
    """A handler that runs longer than its lease is not taken over while its process renews it."""
    rt = make_runtime(lease_duration=1.0, lease_renewal_interval=0.2)
    other = make_runtime(lease_duration=1.0, lease_renewal_interval=0.2)
    message = rt.journal("a").add.send(entry="x")

    def expiry() -> Any:
        with engine.connect() as connection:
            return connection.execute(text("SELECT activation_expires_at FROM solid_objects_instances")).scalar()

    with checkpoints.hold("turn.handled") as hold:
        worker = threading.Thread(target=rt.runtime.worker().run_once)
        worker.start()
        hold.wait_reached()
        seen = {expiry()}
        wait_until(lambda: seen.add(expiry()) or len(seen) >= 4, "three renewals")  # type: ignore[func-returns-value]

        assert other.recover() == 0
        hold.release()
        worker.join(20)

    assert message.outcome().attempts == 1


def test_process_that_was_declared_dead_registers_anew(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A caller whose row was stopped by others goes on under a new identity."""
    rt = make_runtime(process_heartbeat_interval=0.05)
    rt.journal("a").add(entry="x")
    before = rt.runtime._here().registration.id
    with engine.begin() as connection:
        connection.execute(text("UPDATE solid_objects_processes SET shutdown_state = 'stopped'"))
    wait_until(lambda: rt.runtime._here().registration.id != before, "a new registration")

    assert rt.journal("a").add(entry="y") == 2


def test_cleanup_frees_what_the_dead_held(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A process that was not heard of for the threshold is deregistered, and its message runs at once, counted."""
    rt = make_runtime()
    message = rt.journal("a").add.send(entry="x")
    worker = rt.runtime.worker()
    claim = worker._claiming.claim_next(worker.registration.id, ("Journal",))
    assert claim is not None
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE solid_objects_processes SET last_heartbeat_at = '2020-01-01 00:00:00.000000' WHERE id = :id"),
            {"id": claim.lease.owner},
        )

    assert rt.runtime.operators.clean_up() == 1
    assert rt.drain() == 1
    assert message.outcome().attempts == 2


def test_unknown_types_are_left_alone(make_runtime: MakeRuntime) -> None:
    """A worker that does not know a type leaves its messages ready, attempts unchanged."""

    class Other(Actor):
        @operation
        def do(self) -> None: ...

    knowing = make_runtime(actors=(Other,))
    message = Other.ref("a").do.send()
    ignorant = make_runtime()

    assert ignorant.drain() == 0
    assert (message.status(), message.outcome().attempts) == (MessageStatus.READY, 0)
    assert knowing.drain() == 1


class Fragile(Actor):
    """An actor whose activation fails while told to."""

    broken = False
    hooks: list[str] = []
    value: int = 0

    def on_activate(self) -> None:
        if switch["broken"]:
            raise RuntimeError("cannot wake up")
        self.value += 100

    def on_deactivate(self) -> None:
        switch["deactivated"] += 1

    @operation
    def touch(self) -> int:
        self.value += 1
        return self.value


Fragile.__annotations__.pop("hooks")
switch = {"broken": False, "deactivated": 0}


@pytest.fixture
def fragile(make_runtime: MakeRuntime) -> Any:
    switch.update(broken=False, deactivated=0)
    cls = type("Fragile", (Fragile,), {"__module__": __name__})
    rt = make_runtime(actors=(cls,), retry_delay=lambda attempt: 0.05)
    return rt, cls


def test_failed_activation_parks_the_actor(fragile: Any) -> None:
    """The caller gets the error itself, the message stays queued uncounted, and runs once activation works."""
    rt, cls = fragile
    switch["broken"] = True
    with pytest.raises(RuntimeError, match="cannot wake up") as raised:
        cls.ref("a").touch()
    message = raised.value.solid_message  # type: ignore[attr-defined]
    report = rt.runtime.operators.actor(ActorKey(actor_type="Fragile", actor_id="a"))

    assert (message.status(), message.outcome().attempts) == (MessageStatus.READY, 0)
    assert report.parked_until is not None
    assert "cannot wake up" in report.parked_error
    switch["broken"] = False
    assert rt.runtime.operators.retry_now(ActorKey(actor_type="Fragile", actor_id="a")) is True
    assert rt.drain() == 1
    assert message.result() == 101
    assert rt.runtime.operators.actor(ActorKey(actor_type="Fragile", actor_id="a")).parked_until is None


def test_parked_actor_does_not_hold_up_others(fragile: Any) -> None:
    """While one actor is parked, another runs, and the parked one is tried again after its pause."""
    rt, cls = fragile
    switch["broken"] = True
    message = cls.ref("a").touch.send()
    rt.drain(passes=5)
    switch["broken"] = False

    assert rt.journal("b").add(entry="x") == 1
    assert message.wait(timeout=10) == 101


def test_hooks_run_once_per_activation(fragile: Any) -> None:
    """on_activate changes are stored with the turn; on_deactivate runs when the actor leaves memory."""
    rt, cls = fragile
    for _ in range(3):
        cls.ref("a").touch.send()
    rt.drain()

    assert cls.ref("a").snapshot().value == 103
    assert switch["deactivated"] == 1


def test_newer_state_version_refuses_activation(make_runtime: MakeRuntime, engine: Engine) -> None:
    """State that newer code stored parks the actor on older code; the error says to deploy."""
    rt = make_runtime()
    rt.journal("a").add(entry="x")
    with engine.begin() as connection:
        connection.execute(text("UPDATE solid_objects_instances SET state_version = 9"))
    with pytest.raises(StateMigrationError, match="newer"):
        rt.journal("a").add(entry="y")
    with pytest.raises(StateMigrationError, match="newer"):
        rt.journal("a").snapshot()


def test_fair_share_between_actors(make_runtime: MakeRuntime) -> None:
    """An actor with a long queue yields after its pass, so that another waits for one pass at most."""
    rt = make_runtime(max_messages_per_activation_pass=3)
    for number in range(10):
        rt.journal("busy").add.send(entry=str(number))
    rt.journal("quiet").add.send(entry="x")
    worker = rt.runtime.worker()
    worker.run_once()
    worker.run_once()

    assert rt.journal("quiet").snapshot().entries == ["x"]
    assert len(rt.journal("busy").snapshot().entries) == 3
    rt.drain()
    assert len(rt.journal("busy").snapshot().entries) == 10


def test_locked_row_does_not_keep_other_leases_from_renewal(
    make_runtime: MakeRuntime, checkpoints: HeldCheckpoints, engine: Engine
) -> None:
    """While one actor's row is locked by a long transaction of the app, the leases of others are renewed."""
    if engine.dialect.name == "sqlite":
        return  # its one lock is for the whole file
    rt = make_runtime(lease_duration=1.5, lease_renewal_interval=0.3)
    for name in ("locked", "free"):
        rt.journal(name).add.send(entry="x")

    def renewals() -> Any:
        with engine.connect() as connection:
            query = text("SELECT activation_expires_at FROM solid_objects_instances WHERE id = :id")
            return connection.execute(query, {"id": ids["free"]}).scalar()

    ids = {each.key.actor_id: each.id for each in rt.runtime.operators.actors()}
    with checkpoints.hold("turn.handled", times=2) as hold:
        workers = [threading.Thread(target=rt.runtime.worker().run_once) for _ in range(2)]
        for worker in workers:
            worker.start()
        wait_until(lambda: len(hold.arrivals) == 2, "both handlers to be held")
        with engine.begin() as connection:
            lock = text("SELECT id FROM solid_objects_instances WHERE id = :id FOR UPDATE")
            connection.execute(lock, {"id": ids["locked"]})
            seen = {renewals()}
            wait_until(lambda: seen.add(renewals()) or len(seen) >= 5, "four renewals of the other")  # type: ignore[func-returns-value]
        hold.release()
        for worker in workers:
            worker.join(20)

    assert [rt.journal(name).snapshot().entries for name in ids] == [["x"], ["x"]]
