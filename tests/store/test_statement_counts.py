"""What the acts of a turn cost in statements and transactions, counted at the driver; exact, so that a change shows.

BEGIN, COMMIT and SET TRANSACTION are not counted. Where one statement may write several tables, each unit has one
more than its own: the lock timeout, which must not outlive the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flask_solid_objects.values import Claim
from tests.counting import Measurement, StatementCounter
from tests.store.acts import Acts

Expected = dict[str, int]


@pytest.fixture
def counted(acts: Acts) -> Iterator[StatementCounter]:
    """Counts what the store sends from now on."""
    counter = StatementCounter(acts.db.engine)
    yield counter
    counter.close()


@pytest.fixture
def cost(acts: Acts) -> Callable[[Expected], int]:
    """Of the numbers by database, the one that holds here."""
    return lambda expected: expected["one statement" if acts.db.dialect.has_writable_cte else "general form"]


def spent(measured: Measurement) -> tuple[int, int, int]:
    return measured.statements, measured.transactions, measured.commits


def costs(statements: int, units: int = 1) -> tuple[int, int, int]:
    return statements, units, units


def test_call_is_two_transactions(acts: Acts, counted: StatementCounter, cost: Callable[[Expected], int]) -> None:
    """A call of an actor that exists is admit and commit: 4 statements, or 10 without a writable CTE."""
    acts.finish(acts.run())
    new, claimant = acts.new(), acts.claimant()
    with counted.measure() as call:
        with counted.measure() as admit:
            claim = acts.admit(new, claimant).claim
        assert claim is not None
        with counted.measure() as commit:
            acts.finish(claim)

    assert costs(cost({"one statement": 4, "general form": 10}), 2) == spent(call), call.log
    assert costs(cost({"one statement": 2, "general form": 7})) == spent(admit), admit.log
    assert costs(cost({"one statement": 2, "general form": 3})) == spent(commit), commit.log
    assert call.statements <= (6 if acts.db.dialect.has_writable_cte else 12)


def test_further_turn_of_a_worker_is_one_transaction(
    acts: Acts, counted: StatementCounter, cost: Callable[[Expected], int]
) -> None:
    """Committing a turn and claiming the next message of the actor is one transaction."""
    claim = acts.run()
    acts.send()
    acts.send()
    with counted.measure() as measured:
        assert acts.go_on(claim) is not None

    assert costs(cost({"one statement": 11, "general form": 10})) == spent(measured), measured.log


def test_last_turn_of_a_worker(acts: Acts, counted: StatementCounter, cost: Callable[[Expected], int]) -> None:
    """Where nothing waits, the same act frees the actor."""
    claim = acts.run()
    with counted.measure() as measured:
        assert acts.go_on(claim) is None

    assert costs(cost({"one statement": 7, "general form": 6})) == spent(measured), measured.log


def test_send(acts: Acts, counted: StatementCounter, cost: Callable[[Expected], int]) -> None:
    """A send to an actor that exists is one transaction, however much waits there."""
    for waiting in (0, 6):
        for _ in range(waiting):
            acts.send()
        acts.send()
        with counted.measure() as measured:
            acts.send()

        assert costs(cost({"one statement": 2, "general form": 6})) == spent(measured), measured.log


def test_claim(acts: Acts, counted: StatementCounter, cost: Callable[[Expected], int]) -> None:
    """A claim by a worker, who knows the actor, costs the same for one waiting message and for several."""
    for others in (0, 5):
        for _ in range(others + 1):
            acts.send()
        with counted.measure() as measured:
            claim = acts.take()

        assert costs(cost({"one statement": 11, "general form": 10})) == spent(measured), measured.log
        drain(acts, claim)


def drain(acts: Acts, claim: Claim | None) -> None:
    while claim is not None:
        claim = acts.go_on(claim)


def test_search_costs_a_look_and_a_lock(acts: Acts, counted: StatementCounter, cost: Callable[[Expected], int]) -> None:
    """The search among several types is one look and, for the first type with work, two more statements."""
    acts.send()

    def search(tx: Any) -> Any:
        found = acts.store.candidates.ready_types(tx, ["Account", "Counter", "Cart"])
        return acts.store.candidates.lock_first(tx, found[0])

    with counted.measure() as measured:
        assert acts.db.transact("search", search) is not None

    assert costs(cost({"one statement": 5, "general form": 4})) == spent(measured), measured.log
