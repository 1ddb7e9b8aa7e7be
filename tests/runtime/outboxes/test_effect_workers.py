"""Effect workers side by side, interrupted, slow, or without the function of an effect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select

from flask_solid_objects.actors.effects import EffectRegistry
from flask_solid_objects.intents import current_turn
from flask_solid_objects.values import EffectContext
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Outside, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.answers import raises
from tests.runtime.outboxes.rows import execute, find_effect

OWN = (Till, Sender, Receiver)


@pytest.fixture
def others(make_runtime: MakeRuntime, make_roles: Callable[..., Roles]) -> Roles:
    """The roles of another process."""
    return make_roles(make_runtime(own=OWN))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.mark.parametrize("step", ["effect.claimed", "effect.handled", "end_effect.committing"])
def test_running_effect_is_not_run_by_another(
    rt: RuntimeUnderTest,
    roles: Roles,
    others: Roles,
    outside: Outside,
    checkpoints: HeldCheckpoints,
    pool: ThreadPoolExecutor,
    step: str,
) -> None:
    """While one worker is at any step of an effect, another finds nothing to run."""
    if step == "end_effect.committing" and rt.database.dialect.single_writer:
        return  # the other would only wait for the lock
    rt.ref("Till", "a").pay(amount=5)
    with checkpoints.hold(step) as hold:
        running = pool.submit(roles.effects.run_once)
        hold.wait_reached()

        assert others.effects.run_once() is False
    assert running.result(20) is True
    roles.settle()
    assert outside.amounts == [5]
    assert rt.ref("Till", "a").log == ["paid 5"]


@requires.skip_locked
def test_claims_pass_each_other(
    rt: RuntimeUnderTest,
    roles: Roles,
    others: Roles,
    outside: Outside,
    checkpoints: HeldCheckpoints,
    pool: ThreadPoolExecutor,
) -> None:
    """While one worker commits its claim, another takes the next effect without waiting."""
    rt.ref("Till", "a").pay(amount=1)
    rt.ref("Till", "b").pay(amount=2)
    with checkpoints.hold("claim_effect.committing") as hold:
        running = pool.submit(roles.effects.run_once)
        hold.wait_reached()

        assert others.effects.run_once() is True
        assert outside.amounts == [2]
    assert running.result(20) is True
    assert outside.amounts == [2, 1]


def test_stale_look_claims_nothing(
    rt: RuntimeUnderTest, roles: Roles, others: Roles, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that saw an effect which another has run meanwhile finds nothing to claim."""
    rt.ref("Till", "a").pay(amount=5)
    effects = others.rt.store.effects
    monkeypatch.setattr(type(effects), "ready_names", lambda _effects, _tx, _names: ["charge"])
    assert roles.effects.run_once() is True

    assert others.effects.run_once() is False
    assert outside.amounts == [5]


def test_effect_without_a_function_waits(rt: RuntimeUnderTest, roles: Roles, others: Roles, outside: Outside) -> None:
    """An effect that no process knows stays pending, uncounted, and does not stop the others."""
    others.rt.registry.effects = EffectRegistry()
    effect_id = rt.ref("Till", "a").pay_quietly(amount=5)

    assert others.effects.run_once() is False
    row = find_effect(rt, effect_id)
    assert (row.status, row.attempts, row.name, outside.calls) == ("pending", 0, "charge", [])
    roles.settle()
    assert outside.amounts == [5]


def test_slow_effect_is_not_taken_over(
    make_runtime: MakeRuntime,
    make_roles: Callable[..., Roles],
    outside: Outside,
    checkpoints: HeldCheckpoints,
    pool: ThreadPoolExecutor,
) -> None:
    """An effect that takes longer than the threshold stays with its process, whose heartbeat goes on."""
    alive = {"process_heartbeat_interval": 0.1, "process_alive_threshold": 0.6}
    rt, other = make_runtime(own=OWN, **alive), make_runtime(own=OWN, **alive)
    roles, others = make_roles(rt), make_roles(other)
    going, finish = threading.Event(), threading.Event()
    outside.answer = _waits(going, finish)
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    running = pool.submit(roles.effects.run)
    try:
        assert going.wait(10)
        owner = find_effect(rt, effect_id).claimed_by
        checkpoints.clear()
        for beats in range(1, 15):
            checkpoints.wait_count("heartbeat.committed", beats)
            other.runtime.operators.clean_up()
            others.effects.run_once()

            assert find_effect(rt, effect_id).claimed_by == owner
    finally:
        finish.set()
        roles.effects.stop()
        running.result(20)
    others.settle()
    assert outside.amounts == [5]
    assert other.ref("Till", "a").log == ["paid 5"]


def test_handler_is_not_in_a_turn(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """The function of an effect is no actor code: it has no current turn."""
    seen: list[object] = []

    def answer(context: EffectContext, amount: int) -> str:
        seen.append(current_turn.get())
        return "seen"

    outside.answer = answer
    rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert seen == [None]


def test_handler_may_call_actors(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """The function of an effect may call other actors, and also the one that emitted it."""

    def answer(context: EffectContext, amount: int) -> str:
        rt.ref("Receiver", "b").hear(entry="from the effect")
        return f"total {rt.ref('Till', 'a').add(amount=amount)}"

    outside.answer = answer
    rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert rt.ref("Receiver", "b").heard == ["from the effect"]
    assert rt.ref("Till", "a").log == ["total 5"]


def test_interrupted_handler_hands_back(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """KeyboardInterrupt in the function of an effect puts it back uncounted, and goes on to whoever runs the role."""
    outside.answer = raises(KeyboardInterrupt())
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    with pytest.raises(KeyboardInterrupt):
        roles.effects.run_once()

    row = find_effect(rt, effect_id)
    assert (row.status, row.attempts, row.claimed_by) == ("pending", 0, None)
    outside.answer = lambda context, amount: f"attempt {context.attempt}"
    roles.settle()
    assert rt.ref("Till", "a").log == ["attempt 1"]


def test_exit_in_a_handler_is_its_failure(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """sys.exit() in the function of an effect is a failed attempt, and does not end the worker."""
    outside.answer = raises(SystemExit(1))
    [effect_id] = rt.ref("Till", "a").pay(amount=5)
    roles.settle()

    assert find_effect(rt, effect_id).status == "dead"
    assert rt.ref("Till", "a").log == ["declined 5: SystemExit"]


def test_stopping_worker_takes_nothing(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> None:
    """A worker that was asked to stop claims no further effect."""
    rt.ref("Till", "a").pay(amount=5)
    roles.effects.stop()
    roles.effects.run_once()

    assert outside.calls == []


def _waits(going: threading.Event, finish: threading.Event) -> Callable[[EffectContext, int], str]:
    def answer(context: EffectContext, amount: int) -> str:
        going.set()
        assert finish.wait(20)
        return f"paid {amount}"

    return answer


@requires.concurrent_writers
def test_a_claim_does_not_wait_for_the_actor(
    rt: RuntimeUnderTest, roles: Roles, outside: Outside, engine: Engine
) -> None:
    """While a turn holds its actor's row, such as in a long commit action, its effects are claimed all the same."""
    rt.ref("Till", "a").pay_quietly(amount=1)
    instances = rt.tables.instances
    with engine.begin() as connection:
        connection.execute(select(instances.c.id).with_for_update())
        row = roles.effects._claim()

    assert row is not None
    assert row.attempts == 1
    roles.effects._execute(row)
    assert outside.amounts == [1]


def test_orphans_are_judged_under_their_lock(rt: RuntimeUnderTest, roles: Roles) -> None:
    """What looked abandoned, and belongs to somebody who lives by the time it is locked, stays with him."""
    effects, process_id = rt.store.effects, roles.effects.registration.id
    state = "UPDATE solid_objects_processes SET shutdown_state = :state"
    effect_id = rt.ref("Till", "a").pay_quietly(amount=5)
    name = find_effect(rt, effect_id).name
    rt.database.transact("claim", lambda tx: effects.claim_first(tx, name, process_id))
    execute(rt, state, state="stopped")
    found = rt.database.read(lambda tx: effects.orphans(tx, 60.0, 10))
    execute(rt, state, state="running")
    kept = rt.database.transact("free", lambda tx: effects.release_orphans(tx, found, 60.0))
    execute(rt, state, state="stopped")
    freed = rt.database.transact("free", lambda tx: effects.release_orphans(tx, found, 60.0))

    assert (len(found), kept, freed) == (1, 0, 1)
    assert find_effect(rt, effect_id).status == "pending"
