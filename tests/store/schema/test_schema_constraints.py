"""What the tables themselves refuse, delete, clear and keep, whatever the code above them does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import URL, Connection, Engine, MetaData, Table, delete, func, insert, null, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from flask_solid_objects.store.dialects import dialect_for
from flask_solid_objects.store.tables import build_tables
from tests.population import as_stored

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
T = build_tables(MetaData())

# A row of each table with all that an INSERT must give.
REQUIRED: dict[Table, dict[str, Any]] = {
    T.processes: {
        "kind": "worker",
        "hostname": "h",
        "pid": 1,
        "started_at": NOW,
        "last_heartbeat_at": NOW,
        "metadata": {},
    },
    T.instances: {"actor_type": "Counter", "state": {}},
    T.messages: {
        "actor_type": "Counter", "operation": "increment", "delivery_mode": "async", "arguments": {},
        "max_attempts": 3, "enqueued_at": NOW, "available_at": NOW,
    },
    T.ready_messages: {"sequence": 1, "available_at": NOW},
    T.claimed_messages: {"activation_token": "t", "activation_generation": 1, "claimed_at": NOW},
    T.reminders: {"actor_type": "Counter", "name": "ring", "operation": "ring", "arguments": {}, "next_run_at": NOW},
    T.effects: {"name": "pay", "arguments": {}, "max_attempts": 3, "available_at": NOW},
    T.effect_recoveries: {},
    T.broadcasts: {
        "observable_name": "value", "value": {}, "revision": 1, "state_version": 1, "activation_generation": 1,
        "max_attempts": 3, "available_at": NOW,
    },
    T.dead_letters: {
        "actor_type": "Counter", "operation": "increment", "arguments": {}, "attempts": 3, "exception_class": "E",
        "exception_message": "m", "backtrace": [], "first_failed_at": NOW, "last_failed_at": NOW,
    },
    T.administration_events: {"action": "redrive.start", "kind": "effect", "occurred_at": NOW},
    T.redrives: {"kind": "effect", "filters": {}, "started_at": NOW},
}  # fmt: skip


class Rows:
    """Inserts rows and reads them back, in the encoding of the database."""

    def __init__(self, connection: Connection, engine: Engine) -> None:
        self.connection = connection
        self.dialect = dialect_for(engine.url)

    def add(self, table: Table, **values: Any) -> Any:
        row = {**REQUIRED[table], **values}
        for name in ("created_at", "updated_at"):
            if name in table.c:
                row.setdefault(name, NOW)
        for name in ("id", "effect_id", "broadcast_id", "request_id"):
            if name in table.c and "CHAR" in str(table.c[name].type):
                row.setdefault(name, str(uuid.uuid4()))
        if "actor_id" in table.c:
            row.setdefault("actor_id", "a")
        for name in ("actor_id", "idempotency_key", *(("name", "key") if table is T.reminders else ())):
            if name in row:
                row[name] = self.dialect.encode_text(row[name])
        stored = as_stored(self.connection, row)
        return self.connection.execute(insert(table).values(stored)).inserted_primary_key[0]  # type: ignore[index]

    def count(self, table: Table) -> int:
        return self.connection.scalar(select(func.count()).select_from(table)) or 0

    def refuses(self, table: Table, **values: Any) -> bool:
        savepoint = self.connection.begin_nested()
        try:
            self.add(table, **values)
        except DBAPIError:
            savepoint.rollback()
            return True
        savepoint.rollback()
        return False


@pytest.fixture
def rows(database_url: URL, connect: Callable[[URL], Engine]) -> Iterator[Rows]:
    """Rows in a transaction that is never committed."""
    engine = connect(database_url)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            # The runtime's connections leave BEGIN to the one who writes; savepoints need one.
            connection.exec_driver_sql("BEGIN")
        yield Rows(connection, engine)


def owned(rows: Rows) -> dict[str, Any]:
    """Add a process, an actor that it holds, and one row of everything that belongs to the actor."""
    process = rows.add(T.processes)
    instance = rows.add(T.instances)
    message, second = (rows.add(T.messages, instance_id=instance, sequence=sequence) for sequence in (1, 2))
    rows.add(T.ready_messages, instance_id=instance, message_id=second, sequence=2)
    rows.add(T.reminders, instance_id=instance, claimed_by=process)
    effect = rows.add(T.effects, instance_id=instance, message_id=message, claimed_by=process)
    rows.add(T.effect_recoveries, instance_id=instance)
    rows.add(T.broadcasts, instance_id=instance, message_id=message, claimed_by=process)
    rows.add(T.dead_letters, instance_id=instance, message_id=message, retried_message_id=second)
    return {"process": process, "instance": instance, "message": message, "second": second, "effect": effect}


def test_required_columns_are_enough(rows: Rows) -> None:
    """Everything else has a default in the database, so that an INSERT by hand works too."""
    ids = owned(rows)
    rows.add(T.claimed_messages, instance_id=ids["instance"], message_id=ids["message"], process_id=ids["process"])
    rows.add(T.administration_events)
    rows.add(T.redrives)

    instance = rows.connection.execute(select(T.instances)).mappings().one()
    assert instance["state_version"] == instance["next_message_sequence"] == 1
    assert instance["state_revision"] == instance["activation_generation"] == instance["parked_count"] == 0
    assert instance["has_backlog"] is False
    ready = rows.connection.execute(select(T.ready_messages)).mappings().one()
    assert (ready["delayed"], ready["blocking"]) == (False, False)
    assert rows.connection.scalar(select(T.reminders.c.missed_policy)) == "latest"
    assert rows.connection.scalar(select(T.processes.c.shutdown_state)) == "running"


def test_time_keeps_its_microseconds(rows: Rows) -> None:
    """No database cuts a time to seconds or milliseconds."""
    rows.add(T.processes)

    value = rows.connection.scalar(select(T.processes.c.started_at))

    assert value is not None
    assert value.replace(tzinfo=UTC) == NOW


def test_none_is_null(rows: Rows) -> None:
    """A JSON column without a value holds NULL and not the JSON null."""
    instance = rows.add(T.instances, parked_error=None)

    assert rows.connection.scalar(select(T.instances.c.id).where(T.instances.c.parked_error.is_(null()))) == instance


# -- identity ----------------------------------------------------------------------------------

ALIKE = ["a", "A", "á", "a\u0301", "a ", " a", "ａ", "ß", "ss", "i", "ı", "😀", "😁"]


def test_ids_compare_by_their_bytes(rows: Rows) -> None:
    """Ids that differ by case, accent, width, normal form or trailing space are different actors."""
    ids = {actor_id: rows.add(T.instances, actor_id=actor_id) for actor_id in ALIKE}

    for actor_id, instance in ids.items():
        found = select(T.instances.c.id).where(T.instances.c.actor_id == rows.dialect.encode_text(actor_id))
        assert list(rows.connection.scalars(found)) == [instance]
    assert rows.refuses(T.instances, actor_id="a")
    assert not rows.refuses(T.instances, actor_id="\N{GRINNING FACE}" * 191)


def test_types_compare_by_their_bytes(rows: Rows) -> None:
    """Names of actors, operations and observables that differ by case are different."""
    rows.add(T.instances, actor_type="Counter")
    rows.add(T.instances, actor_type="counter")

    assert rows.connection.scalars(
        select(T.instances.c.actor_type).where(T.instances.c.actor_type == "counter")
    ).all() == ["counter"]


def test_idempotency_keys_compare_by_their_bytes(rows: Rows) -> None:
    """Keys that look alike are different, and a message without one never collides."""
    instance = rows.add(T.instances)
    for sequence, key in enumerate([*ALIKE, None, None], start=1):
        rows.add(T.messages, instance_id=instance, sequence=sequence, idempotency_key=key)

    assert rows.refuses(T.messages, instance_id=instance, sequence=99, idempotency_key="a ")


@pytest.mark.parametrize(
    "table", [table for table in T.all if "id" in table.c and "INT" in str(table.c.id.type)], ids=str
)
def test_numbers_are_never_given_out_again(table: Table, rows: Rows) -> None:
    """The id of a deleted row, even of the last one, does not come back: an incarnation is unique for ever."""
    ids = owned(rows)
    belongs = {
        name: ids[key]
        for name, key in (("instance_id", "instance"), ("message_id", "message"), ("process_id", "process"))
        if name in table.c
    }
    unlike: dict[str, Any] = {"sequence": 9} if "sequence" in table.c else {}
    if "actor_id" in table.c:
        unlike["actor_id"] = "another"
    if "name" in table.c:
        unlike["name"] = "another"
    if "observable_name" in table.c:
        unlike["observable_name"] = "another"
    if table in (T.dead_letters, T.ready_messages):
        rows.connection.execute(delete(table))

    first = rows.add(table, **belongs, **unlike)
    rows.connection.execute(delete(table).where(table.c.id == first))

    assert rows.add(table, **belongs, **unlike) > first


# -- refusals ----------------------------------------------------------------------------------


def test_owner_and_token_come_together(rows: Rows) -> None:
    """A lease has both an owner and a token, or there is no lease."""
    process = rows.add(T.processes)

    assert rows.refuses(T.instances, activation_owner_id=process)
    assert rows.refuses(T.instances, activation_token="t")
    assert not rows.refuses(T.instances, activation_owner_id=process, activation_token="t")


def test_an_actor_runs_one_turn(rows: Rows) -> None:
    """A second claim of the same actor is refused, and so is a claim without owner or token."""
    ids = owned(rows)
    claim = {"instance_id": ids["instance"], "process_id": ids["process"]}
    assert rows.refuses(T.claimed_messages, message_id=ids["message"], **{**claim, "process_id": None})
    assert rows.refuses(T.claimed_messages, message_id=ids["message"], **claim, activation_token=None)
    rows.add(T.claimed_messages, message_id=ids["message"], **claim)

    assert rows.refuses(T.claimed_messages, message_id=ids["second"], **claim)


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (T.processes, {"shutdown_state": "gone"}),
        (T.instances, {"state_version": 0}),
        (T.instances, {"next_message_sequence": 0}),
        (T.instances, {"activation_generation": -1}),
        (T.messages, {"sequence": 0}),
        (T.messages, {"attempt_count": -1}),
        (T.messages, {"max_attempts": 0}),
        (T.messages, {"delivery_mode": "SYNC"}),
        (T.ready_messages, {"sequence": 0}),
        (T.claimed_messages, {"activation_generation": 0}),
        (T.reminders, {"occurrence": -1}),
        (T.reminders, {"interval_seconds": 0}),
        (T.reminders, {"missed_policy": "none"}),
        (T.reminders, {"attempt_count": -1}),
        (T.reminders, {"status": "pending"}),
        (T.effects, {"attempt_count": -1}),
        (T.effects, {"max_attempts": 0}),
        (T.effects, {"status": "delivered"}),
        (T.effect_recoveries, {"recovery_timeout": 0}),
        (T.broadcasts, {"state_version": 0}),
        (T.broadcasts, {"activation_generation": 0}),
        (T.broadcasts, {"attempt_count": -1}),
        (T.broadcasts, {"max_attempts": 0}),
        (T.broadcasts, {"status": "completed"}),
        (T.dead_letters, {"attempts": 0}),
        (T.redrives, {"moved": -1}),
        (T.redrives, {"move_limit": 0}),
        (T.redrives, {"status": "dead"}),
    ],
    ids=lambda value: value.name if isinstance(value, Table) else "-".join(value),
)
def test_checks_refuse(table: Table, values: dict[str, Any], rows: Rows) -> None:
    """Numbers out of range and unknown words are refused, in a row that would be fine without them."""
    process, instance = rows.add(T.processes), rows.add(T.instances, actor_id="other")
    message = rows.add(T.messages, instance_id=instance, sequence=7)
    known = {"instance_id": instance, "message_id": message, "process_id": process}
    belongs = {name: value for name, value in known.items() if name in table.c}
    if table is T.messages:
        belongs["sequence"] = 8

    assert not rows.refuses(table, **belongs)
    assert rows.refuses(table, **{**belongs, **values})


# -- deletion ----------------------------------------------------------------------------------


def test_an_instance_takes_everything_with_it(rows: Rows) -> None:
    """Nothing that belongs to an actor outlives its row."""
    ids = owned(rows)
    rows.add(T.claimed_messages, instance_id=ids["instance"], message_id=ids["message"], process_id=ids["process"])

    rows.connection.execute(delete(T.instances))

    counts = {table.name: rows.count(table) for table in T.all if table not in (T.processes, T.version)}
    assert counts == dict.fromkeys(counts, 0)
    assert rows.count(T.processes) == 1


def test_a_message_takes_its_own_with_it(rows: Rows) -> None:
    """Deleting a message leaves the actor, its reminder and its other messages; a retry is forgotten."""
    ids = owned(rows)

    rows.connection.execute(delete(T.messages).where(T.messages.c.id == ids["second"]))

    assert rows.connection.execute(select(T.dead_letters.c.retried_message_id)).one() == (None,)
    assert rows.count(T.ready_messages) == 0

    rows.connection.execute(delete(T.messages))

    gone = (T.effects, T.broadcasts, T.dead_letters)
    assert [rows.count(table) for table in gone] == [0, 0, 0]
    assert [rows.count(table) for table in (T.instances, T.reminders, T.effect_recoveries)] == [1, 1, 1]


@pytest.mark.parametrize("holds", ["lease", "claim"])
def test_a_process_that_holds_an_actor_stays(rows: Rows, holds: str) -> None:
    """A process is not deleted while a lease or a claim names it."""
    ids = owned(rows)
    if holds == "lease":
        rows.connection.execute(update(T.instances).values(activation_owner_id=ids["process"], activation_token="t"))
    else:
        rows.add(T.claimed_messages, instance_id=ids["instance"], message_id=ids["message"], process_id=ids["process"])

    with pytest.raises(IntegrityError):
        rows.connection.execute(delete(T.processes))


def test_a_process_that_holds_none_is_forgotten(rows: Rows) -> None:
    """Its name is cleared from reminders, effects and broadcasts, which are free again."""
    owned(rows)

    rows.connection.execute(delete(T.processes))

    for table in (T.reminders, T.effects, T.broadcasts):
        assert rows.connection.execute(select(table.c.claimed_by)).one() == (None,)
