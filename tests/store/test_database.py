"""Units of work: repeated after conflicts and lost connections, bounded by a deadline, and honest about COMMIT."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from sqlalchemy import URL, Engine, StaticPool, select, text

from flask_solid_objects.errors import CommitUnknown, DatabaseDeadlineExceeded, SchemaMissing, UnsupportedDatabase
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.dialects import dialect_for
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Enqueued, MessageStatus
from tests import requires
from tests.checkpoints import HeldCheckpoints
from tests.databases import Scratch
from tests.store.acts import KEY, OTHER, Acts, Background, register
from tests.store.proxy import LosingProxy


def soon(db: Database, seconds: float = 0.3) -> float:
    return db.seams.clock.monotonic() + seconds


def number_of_messages(acts: Acts) -> int:
    return len(acts.everything()[acts.tables.messages.name])


def admitting(acts: Acts) -> Callable[[Transaction], Enqueued]:
    new, claimant = acts.new(), acts.claimant()
    return lambda tx: acts.store.admission.admit(tx, new, claimant)


# -- repeats -----------------------------------------------------------------------------------


def conflict(name: str) -> Exception:
    """What the drivers raise for a conflict that goes away when the unit is repeated."""
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return {
        "sqlite": busy,
        "postgresql": psycopg.errors.SerializationFailure("could not serialize"),
        "mysql": pymysql.err.OperationalError(1213, "Deadlock found"),
    }[name]


def test_unit_is_repeated_as_a_whole_after_a_conflict(acts: Acts) -> None:
    """A conflict rolls back what the unit wrote, and all of it is done again."""
    admit, tries = admitting(acts), []

    def work(tx: Transaction) -> Enqueued:
        tries.append(1)
        enqueued = admit(tx)
        if len(tries) < 3:
            raise conflict(acts.db.dialect.name)
        return enqueued

    assert acts.db.transact("admit", work).sequence == 1
    assert len(tries) == 3
    assert number_of_messages(acts) == 1


def test_unit_is_repeated_after_a_lost_connection(acts: Acts, checkpoints: HeldCheckpoints) -> None:
    """Before COMMIT a lost connection means that nothing was written: the unit runs again."""
    acts.send()
    checkpoints.fail("admit.locked", ConnectionError)
    checkpoints.fail("admit.committing", ConnectionError)

    assert acts.send(idempotency_key="k").sequence == 2
    assert number_of_messages(acts) == 2


def test_error_of_the_work_ends_the_unit(acts: Acts) -> None:
    """What is neither a conflict nor a lost connection is raised at once, and nothing is written."""
    admit, tries = admitting(acts), []

    def work(tx: Transaction) -> None:
        tries.append(admit(tx))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        acts.db.transact("admit", work)
    assert len(tries) == 1
    assert number_of_messages(acts) == 0


@requires.concurrent_writers
def test_deadlock_is_repeated(acts: Acts, checkpoints: HeldCheckpoints) -> None:
    """Two units that lock two actors in opposite order both finish: the victim runs again."""
    ids = [acts.send(key).instance_id for key in (KEY, OTHER)]

    def lock(first: int, second: int) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            acts.store.instances.lock_by_id(tx, first)
            tx.checkpoints.reach("first.locked")
            acts.store.instances.lock_by_id(tx, second)

        return work

    with checkpoints.hold("first.locked", times=2) as hold:
        units = [Background(partial(acts.db.transact, "pair", lock(*pair))) for pair in (ids, ids[::-1])]
        checkpoints.wait_count("first.locked", 2)
        hold.release()
        for unit in units:
            unit.result()

    assert checkpoints.count("first.locked") > 2
    assert checkpoints.count("pair.committed") == 2


# -- deadlines ---------------------------------------------------------------------------------


@contextmanager
def locked(engine: Engine, tables: Tables) -> Iterator[None]:
    """Somebody else writes to every actor."""
    with engine.begin() as connection:
        connection.execute(tables.instances.update().values(touched_at=None))
        yield


def test_deadline_ends_the_wait_for_a_lock(acts: Acts, engine: Engine, tables: Tables) -> None:
    """A unit that cannot have its lock in time has written nothing, and the next one works."""
    acts.send()
    with locked(engine, tables), pytest.raises(DatabaseDeadlineExceeded):
        acts.db.transact("admit", admitting(acts), deadline=soon(acts.db))

    assert acts.send().sequence == 2


def test_deadline_ends_the_repeats(acts: Acts) -> None:
    """A conflict that stays is given up at the deadline, with the conflict as the cause."""

    def work(tx: Transaction) -> None:
        raise conflict(acts.db.dialect.name)

    with pytest.raises(DatabaseDeadlineExceeded) as exceeded:
        acts.db.transact("stubborn", work, deadline=soon(acts.db))
    assert type(conflict(acts.db.dialect.name)) is type(exceeded.value.__cause__)


def test_wait_ends_when_the_lock_is_free(
    acts: Acts, engine: Engine, tables: Tables, wait_blocked: Callable[[], None]
) -> None:
    """Whoever waits for a lock gets it when its holder commits."""
    acts.send()
    with locked(engine, tables):
        waiting = Background(acts.send)
        wait_blocked()

    assert waiting.result().sequence == 2


@requires.single_writer
def test_writers_of_one_process_queue_within_their_deadlines(acts: Acts, checkpoints: HeldCheckpoints) -> None:
    """A thread that does not come to write before its deadline is told so; reads do not queue."""
    with checkpoints.hold("admit.committing") as hold:
        first = Background(acts.send)
        hold.wait_reached()

        with pytest.raises(DatabaseDeadlineExceeded):
            acts.db.transact("admit", admitting(acts), deadline=soon(acts.db, 0.1))
        assert acts.db.read(lambda tx: acts.store.instances.find(tx, KEY)) is None
        hold.release()
        first.result()


# -- lost connections --------------------------------------------------------------------------

_IDENTITY = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}
_KILL = {"postgresql": "SELECT pg_terminate_backend({}, 5000)", "mysql": "KILL {}"}


def identity(tx: Transaction) -> int:
    """The server's number of the connection that this unit runs on."""
    row = tx.one(tx.dialect.compile(text(_IDENTITY[tx.dialect.name])))
    assert row is not None
    return int(row[0])


def kill(acts: Acts, number: int) -> None:
    with acts.engine.connect() as connection:
        connection.execute(text(_KILL[acts.db.dialect.name].format(number)))


@requires.server
@pytest.mark.parametrize("unit", ["write", "read"])
def test_connection_that_died_in_the_pool_is_not_noticed(acts: Acts, unit: str) -> None:
    """A server that ended idle connections costs a repeat, not an error."""
    kill(acts, acts.db.read(identity))

    if unit == "write":
        assert acts.send().sequence == 1
    else:
        assert acts.db.read(lambda tx: acts.store.instances.find(tx, KEY)) is None


@requires.server
def test_connection_killed_within_the_unit(acts: Acts) -> None:
    """A connection that the server ends between two statements costs a repeat; the message is stored once."""
    admit = admitting(acts)
    killed: list[int] = []

    def work(tx: Transaction) -> Enqueued:
        enqueued = admit(tx)
        if not killed:
            killed.append(identity(tx))
            kill(acts, killed[0])
        assert acts.store.mailbox.find(tx, enqueued.message_id) is not None
        return enqueued

    assert acts.db.transact("admit", work).sequence == 1
    assert number_of_messages(acts) == 1


@requires.server
def test_connection_lost_before_the_server_committed(acts: Acts, checkpoints: HeldCheckpoints) -> None:
    """Killed at COMMIT: the unit does not know, nothing is stored, and it is not repeated by itself."""
    admit, numbers = admitting(acts), []

    def work(tx: Transaction) -> Enqueued:
        numbers.append(identity(tx))
        return admit(tx)

    with checkpoints.hold("admit.committing") as hold:
        unit = Background(lambda: acts.db.transact("admit", work))
        hold.wait_reached()
        kill(acts, numbers[0])
        hold.release()

        with pytest.raises(CommitUnknown):
            unit.result()
    assert len(numbers) == 1
    assert number_of_messages(acts) == 0
    assert acts.db.transact("admit", admit).sequence == 1


@requires.server
def test_connection_lost_after_the_server_committed(acts: Acts, database_url: URL, settings: Settings) -> None:
    """The answer to COMMIT never arrives: the unit does not know, and a repeat finds what it stored."""
    new, claimant = acts.new(), acts.claimant()
    with LosingProxy(database_url) as proxy:
        lossy = Database(proxy.url, settings=settings, connect_args=proxy.connect_args)
        assert lossy.read(lambda tx: acts.store.instances.find(tx, KEY)) is None
        proxy.lose_next_commit()
        with pytest.raises(CommitUnknown):
            lossy.transact("admit", lambda tx: acts.store.admission.admit(tx, new, claimant))
        repeated = lossy.transact("admit", lambda tx: acts.store.admission.admit(tx, new, claimant, repeated=True))
        lossy.dispose()

    assert repeated.existing is True
    assert repeated.claim is not None
    acts.finish(repeated.claim)
    assert MessageStatus.COMPLETED is acts.record(repeated.message_id).status


def test_answer_lost_on_the_way(acts: Acts, checkpoints: HeldCheckpoints) -> None:
    """Whatever breaks between COMMIT and its answer is an unknown commit, on every database."""
    checkpoints.fail("admit.acknowledging", ConnectionError)
    with pytest.raises(CommitUnknown) as unknown:
        acts.send()

    assert isinstance(unknown.value.__cause__, ConnectionError)
    assert number_of_messages(acts) == 1
    assert "admit.committed" not in checkpoints.order


# -- what stays behind -------------------------------------------------------------------------


def open_transactions(database: Scratch) -> list[str]:
    """What stays open; one server shows its transactions through a cache that may be a tenth of a second old."""
    pause = threading.Event()
    for _ in range(10):
        found = [line for line in database.open_connections() if "idle in transaction" in line or "RUNNING" in line]
        if not found:
            return []
        pause.wait(0.15)
    return found


@pytest.mark.parametrize("end", ["done", "error", "conflict", "unknown", "lost", "read", "read error"])
def test_no_unit_leaves_a_connection_or_a_lock(
    acts: Acts, database: Scratch, checkpoints: HeldCheckpoints, end: str
) -> None:
    """However a unit or a read ends, its connection is back in the pool without a transaction."""
    acts.send()
    tries = []

    def work(tx: Transaction) -> None:
        tries.append(1)
        acts.store.instances.lock(tx, KEY) if "read" not in end else acts.store.instances.find(tx, KEY)
        if "error" in end:
            raise ZeroDivisionError
        if end == "conflict" and len(tries) == 1:
            raise conflict(acts.db.dialect.name)

    if end in ("unknown", "lost"):
        checkpoints.fail("unit.acknowledging" if end == "unknown" else "unit.committing", ConnectionError)
    try:
        _ = acts.db.read(work) if "read" in end else acts.db.transact("unit", work)
    except (ZeroDivisionError, CommitUnknown):
        assert end in ("error", "unknown", "read error")

    assert acts.db.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert open_transactions(database) == []
    acts.db.transact("next", lambda tx: acts.store.instances.lock(tx, KEY), deadline=soon(acts.db, 2.0))


# -- engines -----------------------------------------------------------------------------------


def test_forked_process_makes_its_own_engine(acts: Acts) -> None:
    """A child does not touch the parent's connections, and the parent goes on with them."""
    acts.send()
    inherited = acts.db.engine
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if acts.send().sequence == 2 and acts.db.engine is not inherited else 2
        finally:
            os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert acts.send().sequence == 3
    assert inherited is acts.db.engine


def test_missing_tables_are_named(blank_database_url: URL, settings: Settings, tables: Tables) -> None:
    """Reads and writes on a database without tables say which command makes them."""
    db = Database(blank_database_url, settings=settings)
    store = Store(tables, db.dialect, settings)

    with pytest.raises(SchemaMissing, match="flask solid upgrade"):
        db.read(lambda tx: store.instances.find(tx, KEY))
    with pytest.raises(SchemaMissing):
        register(db, store)
    db.dispose()


def test_making_a_database_opens_no_connection(settings: Settings) -> None:
    """A database that nobody can reach is noticed at its first use, within the deadline."""
    db = Database("postgresql+psycopg://nobody@127.0.0.1:1/nothing", settings=settings)
    with pytest.raises(DatabaseDeadlineExceeded):
        db.read(identity, deadline=soon(db, 0.05))


@pytest.mark.parametrize("url", ["oracle://h/d", "postgresql+psycopg2://h/d", "mysql+mysqldb://h/d"])
def test_other_databases_and_drivers_are_refused(url: str) -> None:
    """A database or driver that is not supported is named, with what is."""
    with pytest.raises(UnsupportedDatabase, match="supported"):
        dialect_for(sqlalchemy.make_url(url))


def test_channel_is_that_of_the_tables(settings: Settings) -> None:
    """Processes on the same tables share a channel; other tables have another one, and no secret is in it."""
    url = "postgresql+psycopg://user:secret@host/db"
    one, same = Database(url, settings=settings), Database(url.replace("user:secret@", ""), settings=settings)
    another = Database(url, settings=Settings(table_prefix="other_"))

    assert one.channel == same.channel
    assert one.channel != another.channel


def test_memory_database_is_the_apps_connection(settings: Settings, tables: Tables) -> None:
    """An in-memory database is used through the app's engine by one thread at a time, and is not disposed with ours."""
    app = sqlalchemy.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    tables.instances.metadata.create_all(app)
    db = Database("sqlite://", settings=settings, shared_engine=lambda: app)
    store = Store(tables, db.dialect, settings)
    acts = Acts(db=db, store=store, engine=app, tables=tables, owner=register(db, store))
    assert db.is_memory is True
    assert db.engine is app

    for sender in [Background(acts.send) for _ in range(4)]:
        sender.result()
    acts.finish(acts.take())
    assert acts.instance().next_message_sequence == 5
    db.dispose()
    acts.destroy()
    with app.connect() as connection:
        rest: list[Any] = list(connection.execute(select(tables.messages)))
    app.dispose()
    assert rest == []
