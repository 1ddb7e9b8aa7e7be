"""What whole verbs cost, counted at the driver from the reference to the answer (design, section 5)."""

from __future__ import annotations

import pytest

from tests.actors import RuntimeUnderTest
from tests.counting import StatementCounter


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
