"""The store on each database, and two processes at it; the invariants are checked after every test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import URL, Engine, text

from flask_solid_objects.seams import Seams
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import Tables
from tests.checkpoints import HeldCheckpoints
from tests.schema import store_of
from tests.store.acts import LEASE, MAILBOX, Acts, Background, register


@pytest.fixture
def settings() -> Settings:
    return Settings(max_mailbox_length=MAILBOX)


@pytest.fixture
def pruned() -> bool:
    """Whether the test prunes, which leaves gaps in the sequences."""
    return False


@pytest.fixture
def db(
    database_url: URL, seams: Seams, settings: Settings, engine: Engine, tables: Tables, pruned: bool
) -> Iterator[Database]:
    """The database as the runtime sees it; when the test ends, no invariant may be broken."""
    database = Database(database_url, settings=settings, seams=seams)
    yield database
    database.dispose()
    with engine.connect() as connection:
        violations = check_invariants(connection, tables, lease_duration=LEASE, roles_running=False, pruned=pruned)

    assert violations == []


@pytest.fixture
def store(db: Database, settings: Settings) -> Store:
    return store_of(db.dialect, settings)


@pytest.fixture
def owner(db: Database, store: Store) -> str:
    """The id of a registered process."""
    return register(db, store)


@pytest.fixture
def acts(db: Database, store: Store, engine: Engine, tables: Tables, owner: str) -> Acts:
    return Acts(db=db, store=store, engine=engine, tables=tables, owner=owner)


@pytest.fixture
def other(acts: Acts) -> Acts:
    """The acts of a second process."""
    return replace(acts, owner=register(acts.db, acts.store))


_BLOCKED = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    # Of the whole server; its table of transactions is a cache that frequent readers keep from being renewed.
    "mysql": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
}


@pytest.fixture
def wait_blocked(engine: Engine) -> Callable[[], None]:
    """Wait until somebody waits for a lock; where a file has one writer, nobody can be seen waiting for it."""
    query, pause = _BLOCKED.get(engine.dialect.name), threading.Event()

    def wait_blocked() -> None:
        for _ in range(500 if query else 0):
            with engine.connect() as connection:
                if int(connection.execute(text(str(query))).one()[-1]):
                    return
            pause.wait(0.02)
        assert query is None, "nobody waits for a lock"

    return wait_blocked


@dataclass(frozen=True, slots=True)
class Race:
    """Runs A into a step, then B against it; gives both results, or the errors."""

    checkpoints: HeldCheckpoints
    wait_blocked: Callable[[], None]

    def __call__(self, a: Callable[[], Any], step: str, b: Callable[[], Any]) -> tuple[Any, Any]:
        with self.checkpoints.hold(step) as hold:
            first = Background(a)
            hold.wait_reached()
            second = Background(b)
            self.wait_blocked()
            hold.release()
            first.join()
            second.join()
        return first.error or first.value, second.error or second.value


@pytest.fixture
def race(checkpoints: HeldCheckpoints, wait_blocked: Callable[[], None]) -> Race:
    return Race(checkpoints, wait_blocked)
