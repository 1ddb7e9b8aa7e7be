"""Upgrading from nothing, adopting, downgrading; crashes and company."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import URL, Engine, MetaData, event, inspect, select

from flask_solid_objects.errors import DatabaseDeadlineExceeded, InvalidSchema
from flask_solid_objects.store import schema_lock
from flask_solid_objects.store.schema import check, downgrade, upgrade
from flask_solid_objects.store.tables import build_tables

PREFIX = "solid_objects_"
HEAD = "solid_objects_0003"


def tables_in(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def expected_tables(prefix: str = PREFIX) -> set[str]:
    return {table.name for table in build_tables(MetaData(), prefix).all}


def versions_in(engine: Engine, prefix: str = PREFIX) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(select(build_tables(MetaData(), prefix).version)))


def create_from_metadata(engine: Engine, **options: Any) -> None:
    metadata = MetaData(**options)
    build_tables(metadata)
    metadata.create_all(engine)


def run(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


class Crash(BaseException):
    """Stands for the end of the process."""


def crash_before(engine: Engine, text: str) -> Callable[[], None]:
    """Let the engine crash at the first statement that contains the text; return what ends it."""

    def listener(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if text in statement:
            raise Crash

    event.listen(engine, "before_cursor_execute", listener)
    return lambda: event.remove(engine, "before_cursor_execute", listener)


# -- upgrade -----------------------------------------------------------------------------------


def test_upgrade_makes_all_tables(engine: Engine) -> None:
    """From nothing, an upgrade makes every table and notes its version."""
    before = check(engine)

    upgrade(engine)

    assert not before.ok
    assert set(before.missing_tables) == expected_tables() - {"solid_objects_schema_version"}
    assert tables_in(engine) == expected_tables()
    after = check(engine)
    assert (after.ok, after.problems, after.revision, after.head) == (True, (), HEAD, HEAD)


def test_upgrade_twice_changes_nothing(engine: Engine) -> None:
    """A second upgrade makes and drops nothing."""
    upgrade(engine)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda _c, _cursor, statement, *_: statements.append(statement))

    upgrade(engine)

    assert [s for s in statements if s.split()[0].upper() in ("CREATE", "DROP", "ALTER")] == []
    assert versions_in(engine) == [HEAD]


def test_upgrade_on_a_connection(engine: Engine) -> None:
    """A connection will do; one that is in a transaction will not, since the upgrade commits."""
    with engine.connect() as connection:
        upgrade(connection)
        assert check(connection).ok
        with pytest.raises(sqlalchemy.exc.InvalidRequestError):
            upgrade(connection)


def test_sqlite_upgrade_sets_the_journal_mode(engine: Engine) -> None:
    """On SQLite the file is in WAL mode afterwards, so that readers do not block the writer."""
    if engine.dialect.name != "sqlite":
        pytest.skip("has no journal mode")

    upgrade(engine)

    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


@pytest.mark.parametrize("prefix", ["so_", "shop", "a_very_long_prefix_with_more_than_24_"])
def test_prefixes_live_side_by_side(engine: Engine, prefix: str) -> None:
    """Tables of two prefixes share a database; dropping the one leaves the other."""
    upgrade(engine)
    upgrade(engine, prefix)

    assert check(engine, prefix).ok
    assert tables_in(engine) == expected_tables() | expected_tables(prefix)

    downgrade(engine, prefix)

    assert check(engine).ok
    assert tables_in(engine) == expected_tables() | {f"{prefix}schema_version"}


# -- adoption ----------------------------------------------------------------------------------


@pytest.mark.parametrize("with_version_table", [True, False])
def test_upgrade_adopts_tables_of_the_application(engine: Engine, with_version_table: bool) -> None:
    """Right tables that the application made are taken as they are, whether it made the version table or not."""
    create_from_metadata(engine)
    if not with_version_table:
        run(engine, "DROP TABLE solid_objects_schema_version")
    shape = check(engine)
    assert (shape.ok, shape.revision) == (True, None)

    upgrade(engine)

    assert check(engine).revision == HEAD
    assert versions_in(engine) == [HEAD]


def test_adoption_whatever_the_naming_convention(engine: Engine) -> None:
    """The application's naming convention and schema do not reach our tables."""
    create_from_metadata(
        engine,
        schema="elsewhere",
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        },
    )

    upgrade(engine)

    assert check(engine).revision == HEAD


def test_adoption_tolerates_what_disturbs_nothing(engine: Engine) -> None:
    """A further plain index and a column that may be left out are the application's business."""
    create_from_metadata(engine)
    run(
        engine,
        "ALTER TABLE solid_objects_messages ADD COLUMN note VARCHAR(20)",
        "CREATE INDEX app_idx ON solid_objects_messages (operation)",
    )

    upgrade(engine)

    assert versions_in(engine) == [HEAD]


def test_a_newer_version_is_left_alone(engine: Engine) -> None:
    """A release that was rolled back does not write its older version over the newer one."""
    upgrade(engine)
    run(engine, "UPDATE solid_objects_schema_version SET version_num = 'solid_objects_9999'")

    upgrade(engine)

    assert versions_in(engine) == ["solid_objects_9999"]

    run(engine, "DROP TABLE solid_objects_redrives")
    with pytest.raises(InvalidSchema, match="solid_objects_9999.*newer"):
        upgrade(engine)


# -- downgrade ---------------------------------------------------------------------------------


def test_downgrade_drops_only_ours(engine: Engine) -> None:
    """The tables and the noted version go, the application's tables stay, and an upgrade makes them anew."""
    run(engine, "CREATE TABLE note (id INTEGER PRIMARY KEY)")
    upgrade(engine)

    downgrade(engine)

    assert tables_in(engine) == {"note", "solid_objects_schema_version"}
    assert versions_in(engine) == []
    upgrade(engine)
    assert check(engine).ok


def test_downgrade_leaves_what_it_did_not_make(engine: Engine) -> None:
    """Tables that only the application's own migrations know are not dropped."""
    create_from_metadata(engine)

    downgrade(engine)

    assert check(engine).ok


# -- crashes and company -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE solid_objects_processes",
        "CREATE TABLE solid_objects_effects",
        "CREATE INDEX idx_so_messages_cleanup",
        "CREATE INDEX idx_so_redrives_poll",
        "INSERT INTO solid_objects_schema_version",
        "DROP TABLE solid_objects_schema_change",
    ],
)
def test_a_crashed_upgrade_is_completed(engine: Engine, statement: str) -> None:
    """Wherever an upgrade stops, the next one ends with the right tables."""
    recover = crash_before(engine, statement)
    crashed = False
    try:
        upgrade(engine)
    except Crash:
        crashed = True
    recover()

    if crashed and engine.dialect.name in ("sqlite", "postgresql"):
        assert tables_in(engine) == set()
    upgrade(engine)

    assert check(engine).ok
    assert tables_in(engine) == expected_tables()
    assert versions_in(engine) == [HEAD]


@pytest.mark.parametrize("finish", [upgrade, downgrade])
def test_a_crashed_downgrade_is_completed_or_undone(engine: Engine, finish: Callable[[Engine], None]) -> None:
    """After half a downgrade both the downgrade and an upgrade work."""
    upgrade(engine)
    recover = crash_before(engine, "solid_objects_messages")
    with pytest.raises(Crash):
        downgrade(engine)
    recover()

    finish(engine)

    wanted = expected_tables() if finish is upgrade else {"solid_objects_schema_version"}
    assert tables_in(engine) == wanted
    assert check(engine).ok is (finish is upgrade)


def test_half_the_tables_of_others_are_not_completed(engine: Engine) -> None:
    """Only a crash of our own explains half-made tables; without it they are refused."""
    create_from_metadata(engine)
    run(engine, "DROP TABLE solid_objects_redrives")

    with pytest.raises(InvalidSchema, match="solid_objects_redrives is missing"):
        upgrade(engine)


def test_an_upgrade_waits_for_another(
    engine: Engine, connect: Callable[[URL], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one upgrade runs, a second one waits, and gives up with a clear error."""
    monkeypatch.setattr(schema_lock, "_WAIT_SECONDS", 1)
    other = connect(engine.url)

    with schema_lock.exclusive(engine, PREFIX), pytest.raises(DatabaseDeadlineExceeded, match="did not finish in 1 s"):
        upgrade(other)

    upgrade(other)
    assert check(engine).ok


def test_threads_upgrade_at_once(engine: Engine) -> None:
    """Threads of one process that upgrade together do the work once."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        try:
            upgrade(engine)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert versions_in(engine) == [HEAD]


def test_processes_upgrade_at_once(engine: Engine) -> None:
    """Processes that upgrade together do the work once."""
    program = (
        "import sys, sqlalchemy; from flask_solid_objects.store.schema import upgrade;"
        "engine = sqlalchemy.create_engine(sys.argv[1]); print('ready', flush=True); sys.stdin.readline();"
        "upgrade(engine)"
    )
    url = engine.url.render_as_string(hide_password=False)
    processes = [
        subprocess.Popen([sys.executable, "-c", program, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert check(engine).ok
    assert versions_in(engine) == [HEAD]


# -- on data -----------------------------------------------------------------------------------


def test_an_upgrade_keeps_the_data(engine: Engine) -> None:
    """From the first release's tables, with rows in them, to this one's and back: every row is still there."""
    upgrade(engine, revision="solid_objects_0001")
    now = "2026-01-02 03:04:05.000006"
    run(
        engine,
        "INSERT INTO solid_objects_instances (actor_type, actor_id, state, next_message_sequence, created_at, "
        f"updated_at) VALUES ('Counter', 'a', '{{}}', 2, '{now}', '{now}')",
        "INSERT INTO solid_objects_messages (instance_id, actor_type, actor_id, operation, delivery_mode, arguments, "
        "sequence, max_attempts, request_id, enqueued_at, available_at, last_failed_at, created_at, updated_at) "
        f"SELECT id, 'Counter', 'a', 'add', 'async', '{{}}', 1, 5, 'r', '{now}', '{now}', '{now}', '{now}', '{now}' "
        "FROM solid_objects_instances",
        "INSERT INTO solid_objects_effects (message_id, instance_id, effect_id, name, target, arguments, max_attempts, "
        f"available_at, created_at, updated_at) SELECT id, instance_id, 'e', 'charge', 'x', '{{}}', 5, '{now}', "
        f"'{now}', '{now}' FROM solid_objects_messages",
        "INSERT INTO solid_objects_reminders (instance_id, actor_type, actor_id, name, operation, arguments, "
        f"next_run_at, created_at, updated_at) SELECT id, 'Counter', 'a', 'ring:k', 'ring', '{{}}', '{now}', '{now}', "
        f"'{now}' FROM solid_objects_instances",
    )
    before = check(engine)

    upgrade(engine)

    assert not before.ok
    assert check(engine).ok
    assert versions_in(engine) == [HEAD]
    tables = build_tables(MetaData())
    name = tables.reminders.c.name
    with engine.connect() as connection:
        assert [row[0] for row in connection.execute(select(tables.messages.c.request_id))] == ["r"]
        assert [row[0] for row in connection.execute(select(tables.effects.c.target))] == ["x"]
        stored = connection.execute(select(name)).scalar_one()
    assert (stored.decode() if isinstance(stored, bytes) else stored) == "ring:k"

    downgrade(engine, revision="solid_objects_0001")

    assert versions_in(engine) == ["solid_objects_0001"]
    with engine.connect() as connection:
        assert connection.execute(select(tables.effects.c.effect_id)).scalar_one() == "e"
        assert connection.execute(select(tables.reminders.c.operation)).scalar_one() == "ring"
