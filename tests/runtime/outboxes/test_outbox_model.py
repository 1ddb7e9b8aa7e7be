"""Random histories of turns that emit, send and schedule, with lost processes between, against a small model."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import Engine, text

from flask_solid_objects.errors import MessageFailed, Rejected
from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import EffectContext
from tests.actors import RuntimeUnderTest
from tests.runtime.outboxes.actors import Outside, Roles

SENDERS, RECEIVERS, KEYS = ("s", "t"), ("x", "y"), (None, "k", "k ")
_names = itertools.count()


class Lost(BaseException):
    """The process ends in the middle of an effect."""


@dataclass
class Expected:
    """What must have happened once everything is settled."""

    heard: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    results: Counter[str] = field(default_factory=Counter)
    armed: dict[str | None, float] = field(default_factory=dict)
    rings: int = 0


class Outboxes(RuleBasedStateMachine):
    """Turns, passes of single roles and crashes in any order; the end is compared when all is settled."""

    runtime: RuntimeUnderTest
    engine: Engine
    tables: Tables
    outside: Outside
    roles: Roles

    @initialize()
    def begin(self) -> None:
        self.expected, self.number, self.mark = Expected(), 0, str(next(_names))
        self.outside.answer = self._answer
        self.dying: set[int] = set()

    def _ref(self, actor_type: str, actor_id: str) -> Any:
        return self.runtime.ref(actor_type, f"{actor_id}{self.mark}")

    def _answer(self, context: EffectContext, amount: int) -> str:
        if amount in self.dying:
            self.dying.discard(amount)
            raise Lost
        if amount % 3 == 1:
            raise Rejected("no")
        if amount % 3 == 2 and context.attempt == 1:
            raise RuntimeError("once")
        return f"paid {amount}"

    @rule(
        sender=st.sampled_from(SENDERS),
        receivers=st.sets(st.sampled_from(RECEIVERS), min_size=1),
        times=st.integers(1, 3),
    )
    def tell(self, sender: str, receivers: set[str], times: int) -> None:
        self.number += 1
        entry, ordered = f"{sender}{self.number}.", sorted(receivers)
        self._ref("Sender", sender).tell(receivers=[f"{each}{self.mark}" for each in ordered], entry=entry, times=times)
        for each in ordered:
            self.expected.heard[sender, each] += [f"{entry}{number}" for number in range(times)]

    @rule(sender=st.sampled_from(SENDERS))
    def tell_and_raise(self, sender: str) -> None:
        with pytest.raises(Rejected):
            self._ref("Sender", sender).tell_and_raise(receiver=f"x{self.mark}")

    @rule(dies=st.booleans())
    def pay(self, dies: bool) -> None:
        self.number += 1
        amount = self.number
        self._ref("Till", "p").pay(amount=amount)
        if dies:
            self.dying.add(amount)
        self.expected.results[f"declined {amount}: Rejected" if amount % 3 == 1 else f"paid {amount}"] += 1

    @rule()
    def pay_and_raise(self) -> None:
        with pytest.raises(MessageFailed):
            self._ref("Till", "p").pay_and_raise(amount=0)

    @rule(key=st.sampled_from(KEYS), delay=st.sampled_from([0.0, 3600.0]))
    def arm(self, key: str | None, delay: float) -> None:
        self._ring_all()
        self._ref("Alarm", "a").arm(delay=delay, key=key)
        self.expected.armed[key] = delay

    @rule(key=st.sampled_from(KEYS))
    def disarm(self, key: str | None) -> None:
        self._ring_all()
        self._ref("Alarm", "a").disarm(key=key)
        self.expected.armed.pop(key, None)

    @rule(name=st.sampled_from(["worker", "effects", "scheduler", "broadcaster"]))
    def step(self, name: str) -> None:
        self._pass(name)

    @rule()
    def all_processes_die(self) -> None:
        """Whatever was claimed is freed by recovery, as after a crash."""
        with self.engine.begin() as connection:
            connection.execute(
                text(
                    "UPDATE solid_objects_instances SET activation_expires_at = '2020-01-01 00:00:00.000000' "
                    "WHERE activation_owner_id IS NOT NULL"
                )
            )
        self.runtime.recover()

    @invariant()
    def invariants_hold(self) -> None:
        with self.engine.connect() as connection:
            assert check_invariants(connection, self.tables, lease_duration=30.0, roles_running=False) == []

    def teardown(self) -> None:
        if not hasattr(self, "expected"):
            return
        self._settle()
        self._compare()

    # -- the model --------------------------------------------------------------------------

    def _ring_all(self) -> None:
        """Let due reminders ring before they are changed, so that the model knows whether they did."""
        while self.roles.scheduler.ring_due():
            pass
        self.runtime.drain()
        due = [key for key, delay in self.expected.armed.items() if delay == 0.0]
        for key in due:
            del self.expected.armed[key]
            self.expected.rings += 1

    def _pass(self, name: str) -> bool:
        try:
            return bool(getattr(self.roles, name).run_once())
        except Lost:
            return True

    def _settle(self) -> None:
        names = ("worker", "effects", "scheduler", "broadcaster")
        for _ in range(500):
            worked = [self._pass(name) for name in names]
            if not any(worked):
                break
        else:
            raise AssertionError("never settled")
        self._ring_all()

    def _compare(self) -> None:
        for receiver in RECEIVERS:
            heard = self._ref("Receiver", receiver).snapshot().heard
            for sender in SENDERS:
                mine = [entry for entry in heard if entry.startswith(sender)]
                assert self.expected.heard[sender, receiver] == mine
        assert self.expected.results == Counter(self._ref("Till", "p").snapshot().log)
        assert self.expected.rings == len(self._ref("Alarm", "a").snapshot().rung)
        assert sorted(self._ref("Alarm", "a").look(), key=str) == sorted(self.expected.armed, key=str)


def test_random_outboxes(rt: RuntimeUnderTest, roles: Roles, outside: Outside, engine: Engine, tables: Tables) -> None:
    """Whatever is staged and whoever dies: in order per pair, one callback each, no ring lost or doubled."""
    parts = {"runtime": rt, "engine": engine, "tables": tables, "outside": outside, "roles": roles}
    machine = type("Outboxes", (Outboxes,), parts)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8, stateful_step_count=18, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
