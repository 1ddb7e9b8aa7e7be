"""The invariant checker: silent on every state that is allowed, and each planted fault is found by its own rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, select

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.invariants import INVARIANTS, check_invariants
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import Violation
from tests.population import LEASE, Population, Rows

# -- faults ------------------------------------------------------------------------------------


def hint_absent(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, ready_at=None)


def hint_after_now(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, ready_at=p.rows.at(1))


def hint_after_due(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.waiting, ready_at=p.rows.at(301))


def hint_after_back_off(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.backing_off, ready_at=p.rows.at(121))


def hint_after_parking(p: Population) -> None:
    values = {"parked_until": p.rows.at(5), "parked_error": {"class": "ValueError"}, "ready_at": p.rows.at(6)}
    p.rows.change(p.rows.tables.instances, p.busy, **values)


def parked_without_reason(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, parked_until=p.rows.at(5), ready_at=p.rows.at(5))


def other_owner(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, activation_owner_id=p.rows.process())


def other_token(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, activation_token="another")


def other_generation(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, activation_generation=5)


def claim_without_lease(p: Population) -> None:
    values = dict.fromkeys(("activation_owner_id", "activation_token", "activation_expires_at"))
    p.rows.change(p.rows.tables.instances, p.busy, **values)


def lease_without_end(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, activation_expires_at=None)


def lease_without_claim(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.idle, **p.rows.lease())


def expiry_without_claim(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.idle, activation_expires_at=p.rows.now)


def message_nowhere(p: Population) -> None:
    p.rows.delete(p.rows.tables.ready_messages, message_id=p.overtaker)


def message_ready_and_claimed(p: Population) -> None:
    values = {"message_id": p.running, "instance_id": p.busy, "sequence": 1, "available_at": p.rows.now}
    p.rows.add(p.rows.tables.ready_messages, **values)


def message_completed_and_claimed(p: Population) -> None:
    p.rows.change(p.rows.tables.messages, p.running, completed_at=p.rows.now)


def message_completed_and_dead(p: Population) -> None:
    p.rows.bury(p.idle, p.last_finished)


def message_overtaken(p: Population) -> None:
    p.rows.delete(p.rows.tables.ready_messages, message_id=p.overtaker)
    p.rows.change(p.rows.tables.messages, p.overtaker, completed_at=p.rows.now)


def message_overtaken_by_dead(p: Population) -> None:
    p.rows.delete(p.rows.tables.ready_messages, message_id=p.overtaker)
    p.rows.bury(p.busy, p.overtaker)


def backlog_forgotten(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, has_backlog=False)


def backlog_of_back_off_forgotten(p: Population) -> None:
    p.rows.delete(p.rows.tables.ready_messages, instance_id=p.backing_off, sequence=3)
    p.rows.delete(p.rows.tables.messages, instance_id=p.backing_off, sequence=3)
    p.rows.ready(p.backing_off, 3, due=120, delayed=True, blocking=True)
    p.rows.change(p.rows.tables.instances, p.backing_off, has_backlog=False)


def too_many_attempts(p: Population) -> None:
    p.rows.change(p.rows.tables.messages, p.last_finished, attempt_count=4)


def claim_uncounted(p: Population) -> None:
    p.rows.change(p.rows.tables.messages, p.running, attempt_count=0)


def sequence_given_twice(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.idle, next_message_sequence=4)


def sequence_lost(p: Population) -> None:
    p.rows.delete(p.rows.tables.messages, id=p.first_finished)


def sequence_of_nobody(p: Population) -> None:
    p.rows.actor("empty", following=2)


def claim_left_lying(p: Population) -> None:
    p.rows.change(p.rows.tables.instances, p.busy, activation_expires_at=p.rows.at(-2 * LEASE - 1))


def effect_left_lying(p: Population) -> None:
    stopped = p.rows.process(shutdown_state="stopped", stopped_at=p.rows.at(-121))
    p.rows.effect(p.idle, p.first_finished, status="processing", claimed_by=stopped)


def broadcast_of_the_future(p: Population) -> None:
    p.rows.change(p.rows.tables.broadcasts, p.told, revision=5)


def broadcast_after_a_newer_one(p: Population) -> None:
    p.rows.broadcast(p.idle, p.first_finished, 3, observable_name="half")


def message_delivered_early(p: Population) -> None:
    pair = {"name": "__actor_message__", "target": "another"}
    p.rows.effect(p.idle, p.last_finished, status="completed", **pair)


FAULTS: list[tuple[str, Callable[[Population], None]]] = [
    ("I1", hint_absent),
    ("I1", hint_after_now),
    ("I1", hint_after_due),
    ("I1", hint_after_back_off),
    ("I1", hint_after_parking),
    ("I1", parked_without_reason),
    ("I2", other_owner),
    ("I2", other_token),
    ("I2", other_generation),
    ("I2", claim_without_lease),
    ("I2", lease_without_end),
    ("I3", lease_without_claim),
    ("I3", expiry_without_claim),
    ("I4", message_nowhere),
    ("I4", message_ready_and_claimed),
    ("I4", message_completed_and_claimed),
    ("I4", message_completed_and_dead),
    ("I5", message_overtaken),
    ("I5", message_overtaken_by_dead),
    ("I6", backlog_forgotten),
    ("I6", backlog_of_back_off_forgotten),
    ("I7", too_many_attempts),
    ("I7", claim_uncounted),
    ("I8", sequence_given_twice),
    ("I8", sequence_lost),
    ("I8", sequence_of_nobody),
    ("I9", broadcast_of_the_future),
    ("I9", broadcast_after_a_newer_one),
    ("I10", message_delivered_early),
    ("I11", claim_left_lying),
    ("I11", effect_left_lying),
]


# -- tests -------------------------------------------------------------------------------------


@pytest.fixture
def population(engine: Engine, tables: Tables, dialect: Dialect) -> Iterator[Population]:
    with engine.connect() as connection:
        now = dialect.decode_time(connection.execute(select(dialect.now)).scalar_one())
        assert now is not None
        population = Population(Rows(connection, tables, dialect, now))
        population.settle()
        yield population


def found(population: Population, *, roles_running: bool = True, **options: Any) -> list[Violation]:
    rows = population.rows
    return check_invariants(rows.connection, rows.tables, lease_duration=LEASE, roles_running=roles_running, **options)


def test_every_allowed_state_is_silent(population: Population) -> None:
    """Actors that are idle, running, waiting, in back-off, paused or parked break nothing."""
    assert found(population) == []


@pytest.mark.parametrize(("expected", "plant"), [pytest.param(*fault, id=fault[1].__name__) for fault in FAULTS])
def test_a_fault_is_found_by_its_own_rule(
    population: Population, expected: str, plant: Callable[[Population], None]
) -> None:
    """A planted fault breaks the rule that forbids it, and no other one."""
    plant(population)

    assert {expected} == {violation.invariant for violation in found(population)}


def test_every_rule_has_a_fault() -> None:
    """No rule stands without a fault that it was seen to find."""
    assert [invariant.name for invariant in INVARIANTS] == list(dict.fromkeys(name for name, _ in FAULTS))


def test_a_violation_names_the_rule_and_the_row(population: Population) -> None:
    """A violation says which actor and which message break what."""
    hint_absent(population)

    first = found(population, limit=1)

    assert [violation.invariant for violation in first] == ["I1"]
    assert f"Counter 'busy' (instance {population.busy}), sequence " in first[0].subject
    assert INVARIANTS[0].text == first[0].statement


def test_nothing_is_left_lying_while_no_role_runs(population: Population) -> None:
    """Without a worker or maintenance role, an expired claim waits for the next one and is no violation."""
    claim_left_lying(population)

    assert found(population, roles_running=False) == []


def test_gaps_are_allowed_once_pruned(population: Population) -> None:
    """Retention deletes finished messages, so only a sequence that was given twice counts from then on."""
    sequence_lost(population)

    assert found(population, pruned=True) == []

    sequence_given_twice(population)

    assert {"I8"} == {violation.invariant for violation in found(population, pruned=True)}


def test_each_rule_is_one_statement(population: Population, engine: Engine) -> None:
    """A check is one reading of the time and one statement a rule, so that each sees one snapshot."""
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))

    found(population)

    assert 1 + len(INVARIANTS) == len(statements)


def test_a_check_ends_its_own_transaction(engine: Engine, tables: Tables) -> None:
    """On a connection without a transaction the check leaves none behind."""
    with engine.connect() as connection:
        check_invariants(connection, tables, lease_duration=LEASE, roles_running=True)

        assert not connection.in_transaction()
