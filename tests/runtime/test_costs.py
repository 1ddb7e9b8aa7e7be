"""What whole verbs cost, counted at the driver from the reference to the answer (design, section 5)."""

from __future__ import annotations

from typing import Any

import pytest

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.attribute import attribute
from flask_solid_objects.actors.operation import operation
from tests.actors import RuntimeUnderTest
from tests.counting import StatementCounter
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import EFFECTS, Alarm, Receiver, Sender, Till

STAGING: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("Till", "pay", {"amount": 1, "times": 1}, {"amount": 1, "times": 20}),
    ("Sender", "tell", {"receivers": ["a"], "entry": "x", "times": 1}, {"receivers": ["a"], "entry": "x", "times": 20}),
    ("Panel", "change", {"count": 1}, {"count": 5}),
    ("Alarm", "arm_many", {"count": 1, "delay": 3600.0}, {"count": 20, "delay": 3600.0}),
]


class Panel(Actor):
    """Has five things to watch."""

    one: int = attribute(0, observable=True)
    two: int = attribute(0, observable=True)
    three: int = attribute(0, observable=True)
    four: int = attribute(0, observable=True)
    five: int = attribute(0, observable=True)

    @operation
    def change(self, count: int) -> None:
        for name in ("one", "two", "three", "four", "five")[:count]:
            setattr(self, name, getattr(self, name) + 1)


@pytest.mark.parametrize("verb", ["operation", "query", "read"])
def test_uncontended_call_is_two_transactions(rt: RuntimeUnderTest, verb: str) -> None:
    """A call of an existing actor: two transactions; at most 6 statements on PostgreSQL, 12 elsewhere."""
    journal = rt.journal("a")
    journal.add(entry="first")
    counter = StatementCounter(rt.database.engine)
    with counter.measure() as measured:
        if verb == "operation":
            journal.add(entry="second")
        elif verb == "query":
            journal.count()
        else:
            _ = journal.total
    counter.close()
    single = rt.database.dialect.has_writable_cte

    assert (measured.transactions, measured.commits) == (2, 2), measured.log
    assert measured.statements == (4 if single else 10), measured.log
    assert measured.statements <= (6 if single else 12)


def test_further_turn_of_a_worker_is_one_transaction(rt: RuntimeUnderTest) -> None:
    """A worker that drains one actor commits each turn together with the claim of the next one."""
    for number in range(12):
        rt.journal("a").add.send(entry=str(number))
    worker = rt.runtime.worker()
    _ = worker.registration.id
    counter = StatementCounter(rt.database.engine)
    with counter.measure() as measured:
        worker.run_once()
    counter.close()

    assert measured.commits == 1 + 12, measured.log


def test_snapshot_is_one_statement(rt: RuntimeUnderTest) -> None:
    """A snapshot reads one row and writes nothing."""
    rt.journal("a").add(entry="x")
    counter = StatementCounter(rt.database.engine)
    with counter.measure() as measured:
        _ = rt.journal("a").snapshot()
    counter.close()

    assert (measured.statements, measured.commits) == (1, 0)


@pytest.mark.parametrize(("actor_type", "verb", "few", "many"), STAGING, ids=[each[0] for each in STAGING])
def test_staging_much_costs_no_more_than_a_little(
    make_runtime: MakeRuntime, actor_type: str, verb: str, few: dict[str, Any], many: dict[str, Any]
) -> None:
    """A turn that stages 20 effects, messages or reminders, or 5 changes, has as many statements as one with 1."""
    rt = make_runtime(own=(Till, Sender, Receiver, Alarm, Panel))
    rt.registry.effects = EFFECTS
    run = getattr(rt.ref(actor_type, "a"), verb)
    run(**few)
    counter, costs = StatementCounter(rt.database.engine), []
    for arguments in (few, many):
        with counter.measure() as measured:
            run(**arguments)
        costs.append((measured.statements, measured.transactions))
    counter.close()

    assert costs[0] == costs[1]
    assert costs[0][1] == 2
