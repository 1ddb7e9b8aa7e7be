"""The runtime's own engine and its units of work: begin, repeat after a conflict, commit or say that it is unknown.

The app's pool is never shared: sixteen request threads that each hold an open read session would exhaust it, and
hooks of the app would reach our transactions. The engine is made lazily and anew in every forked process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import Connection, Engine, StaticPool, event, exc

from flask_solid_objects.errors import CommitUnknown, DatabaseDeadlineExceeded, SchemaMissing, SolidObjectsError
from flask_solid_objects.seams import Seams
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.dialects import Dialect, Fault, dialect_for
from flask_solid_objects.store.shared_connection import take_turns
from flask_solid_objects.store.transaction import Transaction

_T = TypeVar("_T")
_log = logging.getLogger("flask_solid_objects.database")

# How long a unit that no caller waits for keeps trying before its role backs off.
BACKGROUND_SECONDS = 30.0
# How long one that has more rows to look at waits for one of them.
ROW_SECONDS = 1.0
# Servers and locks count in small integers; a longer wait is repeated like any other that ended without its lock.
_LONGEST_WAIT = 86_400.0


@dataclass(slots=True)
class _PerProcess:
    """What must not be inherited by a forked process: connections and locks."""

    pid: int = field(default_factory=os.getpid)
    engine: Engine | None = None
    checked: bool = False
    making: threading.Lock = field(default_factory=threading.Lock)
    # Of the thread whose unit is open; what the application does on a shared connection takes it for each step.
    writer: Any = field(default_factory=threading.RLock)
    writing: int | None = None


class Database:
    """One database as the runtime sees it.

    :param url: of the app's bind; ``connect_args`` and ``engine_options`` are those of that bind.
    :param shared_engine: for an in-memory SQLite database, whose single connection has to be the app's.
    """

    def __init__(
        self,
        url: str | sqlalchemy.URL,
        *,
        settings: Settings,
        connect_args: Mapping[str, Any] | None = None,
        engine_options: Mapping[str, Any] | None = None,
        shared_engine: Callable[[], Engine] | None = None,
        seams: Seams | None = None,
    ) -> None:
        self.url = sqlalchemy.make_url(url)
        self.dialect: Dialect = dialect_for(self.url)
        self.connect_args = dict(connect_args or {})
        self.seams = seams or Seams()
        self._settings = settings
        self._options = dict(engine_options or {})
        self._shared_engine = shared_engine
        self._local = _PerProcess()

    @property
    def is_memory(self) -> bool:
        """True for a database that lives in one connection, which no second process can see."""
        name = self.url.database or ""
        return self.dialect.single_writer and (
            name in ("", ":memory:") or "mode=memory" in str(self.url) or name.startswith("file::memory:")
        )

    @property
    def engine(self) -> Engine:
        """The engine of this process; making it opens no connection."""
        local = self._process()
        if local.engine is None:
            with local.making:
                if local.engine is None:
                    local.engine = self._make_engine()
        return local.engine

    def open_outside_pool(self) -> Any:
        """A new driver connection that belongs to whoever asked, such as a listener, which must close it."""
        dialect = self.engine.dialect
        arguments, options = dialect.create_connect_args(self.url)
        return dialect.connect(*arguments, **{**options, **self.connect_args})

    @property
    def channel(self) -> str:
        """A name for wake-ups that all processes of these tables share, by whichever host name they know the server.

        Two servers with a database of one name may share it on one Redis, which costs a look now and then.
        """
        place = f"{self.dialect.name}/{self.url.database}/{self._settings.table_prefix}"
        return "solid_objects_wake_up_" + hashlib.sha256(place.encode()).hexdigest()[:16]

    def dispose(self) -> None:
        """Close all idle connections; the next use opens new ones."""
        local = self._process()
        if local.engine is not None and self._shared_engine is None:
            local.engine.dispose()

    def transact(self, name: str, work: Callable[[Transaction], _T], *, deadline: float | None = None) -> _T:
        """Run ``work`` in one write transaction and commit it; repeat the whole after a conflict.

        :param name: of the unit, for checkpoints (``<name>.committing`` and ``<name>.committed``).
        :param deadline: on the monotonic clock of this process; without one, 30 seconds from now.
        :raises DatabaseDeadlineExceeded: nothing was written.
        :raises CommitUnknown: the connection broke at COMMIT; the caller resolves it (protocol 5.3).
        """
        clock = self.seams.clock
        limit = clock.monotonic() + BACKGROUND_SECONDS if deadline is None else deadline
        repetition = 0
        while True:
            try:
                with self._unit(name, limit) as transaction:
                    result = work(transaction)
                transaction.committed()
                return result
            except _Refused as refused:
                raise refused.cause from None
            except _Repeat as repeat:
                cause = repeat.cause
            pause = clock.jitter(min(0.001 * 2.0 ** min(repetition, 10), self.dialect.longest_pause))
            if clock.monotonic() + pause >= limit:
                raise DatabaseDeadlineExceeded(f"{name}: {type(cause).__name__} until the deadline.") from cause
            clock.pause(pause)
            repetition += 1

    def soon(self) -> float | None:
        """A deadline for one of many rows, whose lock somebody may hold for long; where all wait for one lock, none."""
        return None if self.dialect.single_writer else self.seams.clock.monotonic() + ROW_SECONDS

    def read_within(self, seconds: float, work: Callable[[Transaction], _T]) -> _T:
        """Run plain reads for somebody who looks: the server ends a statement that takes longer.

        :raises DatabaseDeadlineExceeded: it took longer.
        """

        def limited(tx: Transaction) -> _T:
            with tx.limited(seconds):
                return work(tx)

        return self.read(limited, deadline=self.seams.clock.monotonic() + seconds)

    def read(self, work: Callable[[Transaction], _T], *, deadline: float | None = None) -> _T:
        """Run a few plain reads on one connection; repeat them when the connection turns out to be dead."""
        if not self.is_memory:
            return self._read(work, deadline)
        taken = self._taken()
        if taken is None:
            return self.transact("read", work, deadline=deadline)
        # Beside the pool, whose reset would roll back what the application has not committed yet.
        with closing(taken.cursor()) as cursor:
            return work(Transaction(cursor, self.dialect, self.seams.checkpoints))

    def _taken(self) -> Any:
        """The one connection of a database in memory while this thread may not begin on it, else None.

        Then the application has a transaction open, or this very thread is in a unit.
        """
        writing = self._process().writing
        if writing not in (None, threading.get_ident()):
            return None
        if not self.is_memory or not isinstance(self.engine.pool, StaticPool):
            return None
        connection: Any = self.engine.pool.connection.driver_connection
        return connection if connection is not None and connection.in_transaction else None

    def _read(self, work: Callable[[Transaction], _T], deadline: float | None) -> _T:
        clock = self.seams.clock
        limit = clock.monotonic() + BACKGROUND_SECONDS if deadline is None else deadline
        while True:
            try:
                with self._connection() as connection, self._translated(connection), _cursor(connection) as cursor:
                    return work(Transaction(cursor, self.dialect, self.seams.checkpoints))
            except _Repeat as repeat:
                cause = repeat.cause
            if clock.monotonic() >= limit:
                raise DatabaseDeadlineExceeded(f"read: {type(cause).__name__} until the deadline.") from cause
            clock.pause(clock.jitter(0.005))

    @contextmanager
    def _unit(self, name: str, limit: float) -> Iterator[Transaction]:
        checkpoints = self.seams.checkpoints
        with self._write_turn(limit), self._connection() as connection, self._translated(connection):
            remaining = max(1, int(min(limit - self.seams.clock.monotonic(), _LONGEST_WAIT) * 1000))
            with _cursor(connection) as cursor:
                self.dialect.begin(cursor, remaining)
                yield Transaction(cursor, self.dialect, checkpoints, connection)
            checkpoints.reach(f"{name}.committing")
            self._commit(name, connection)
        checkpoints.reach(f"{name}.committed")

    def _commit(self, name: str, connection: Connection) -> None:
        """Commit; an error leaves open whether it was done, unless the server says that it was not."""
        try:
            connection.commit()
            self.seams.checkpoints.reach(f"{name}.acknowledging")
        except Exception as error:
            driver_error = getattr(error, "orig", None) or error
            if self.dialect.is_definite_at_commit(driver_error):
                # SQLite keeps the transaction open, while SQLAlchemy takes it for ended.
                connection.connection.rollback()
                if self._fault(driver_error) is Fault.CONFLICT:
                    raise
                raise _Refused(error) from error
            connection.invalidate()
            raise CommitUnknown(f"{name}: {type(driver_error).__name__} at COMMIT") from error

    @contextmanager
    def _write_turn(self, limit: float) -> Iterator[None]:
        """Queue the writers of one process where the database has only one; SQLite's own queue is unfair."""
        if not self.dialect.single_writer:
            yield
            return
        local = self._process()
        if not local.writer.acquire(timeout=max(0.0, min(limit - self.seams.clock.monotonic(), _LONGEST_WAIT))):
            raise _Repeat(TimeoutError("another thread of this process writes"))
        try:
            if self._taken() is not None:
                raise _Repeat(TimeoutError("the application has a transaction open on the only connection"))
            outer, local.writing = local.writing, threading.get_ident()
            try:
                yield
            finally:
                local.writing = outer
        finally:
            local.writer.release()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            connection = self.engine.connect()
        except (exc.OperationalError, exc.TimeoutError, exc.InterfaceError) as error:
            raise _Repeat(getattr(error, "orig", None) or error) from error
        try:
            if not self._process().checked:
                # The first look may meet the recovery of a file whose last user was killed: busy, so it is repeated.
                with self._translated(connection):
                    self._check_server(connection)
            connection.begin()
            yield connection
        finally:
            _close(connection)

    @contextmanager
    def _translated(self, connection: Connection) -> Iterator[None]:
        """Turn driver errors into ours at this border, with the original as the cause."""
        try:
            yield
        except (SolidObjectsError, _Repeat, _Refused):
            raise
        except Exception as error:
            driver_error = getattr(error, "orig", None) or error
            fault = self._fault(driver_error)
            if fault is Fault.DISCONNECTED:
                connection.invalidate()
                self.dispose()
            if fault in (Fault.CONFLICT, Fault.DISCONNECTED, Fault.DUPLICATE):
                raise _Repeat(driver_error) from error
            if fault is Fault.MISSING_TABLE:
                raise SchemaMissing(f"A table is missing in {self.url.render_as_string(hide_password=True)}") from error
            raise

    def is_repeatable(self, error: BaseException) -> bool:
        """Whether a unit that ended with this error may simply run again: a lost conflict or connection."""
        return self._fault(getattr(error, "orig", None) or error) in (Fault.CONFLICT, Fault.DISCONNECTED)

    def is_missing_table(self, error: BaseException) -> bool:
        return self._fault(getattr(error, "orig", None) or error) is Fault.MISSING_TABLE

    def _fault(self, error: BaseException) -> Fault:
        return Fault.DISCONNECTED if isinstance(error, ConnectionError) else self.dialect.classify(error)

    def _process(self) -> _PerProcess:
        if self._local.pid != os.getpid():
            # A forked child: the parent's connections must not even be closed here.
            inherited = self._local.engine
            self._local = _PerProcess()
            if inherited is not None and self._shared_engine is None:
                inherited.dispose(close=False)
        return self._local

    def _make_engine(self) -> Engine:
        if self._shared_engine is not None:
            engine = self._shared_engine()
            take_turns(engine, lambda: self._process().writer)
            return engine
        options: dict[str, Any] = {} if "poolclass" in self._options else self._pool_options()
        if self.dialect.isolation_level is not None:
            options["isolation_level"] = self.dialect.isolation_level
        options |= self._options
        engine = sqlalchemy.create_engine(self.url, connect_args=self.connect_args, **options)

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: Any) -> None:
            self.dialect.prepare_connection(connection)

        return engine

    def _pool_options(self) -> dict[str, Any]:
        return {
            "pool_size": self._settings.pool_size,
            "max_overflow": self._settings.max_overflow,
            # Short, since a unit that found none waits again until the caller's own deadline.
            "pool_timeout": 1,
        }

    def _check_server(self, connection: Connection) -> None:
        self.dialect.check_server(self.engine, connection.dialect.server_version_info or ())
        if self.is_memory:
            # The app's own connection: our cascades depend on it, and it cannot be set inside a transaction.
            connection.exec_driver_sql("PRAGMA foreign_keys = ON")
            connection.rollback()
        elif self.dialect.single_writer:
            mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
            connection.rollback()
            if mode != "wal":
                _log.warning(
                    "SQLite is in journal mode %s: readers block writers. Run `flask solid upgrade` once.", mode
                )
        self._process().checked = True


class _Refused(Exception):
    """The unit was rolled back at its commit, by a constraint that it would break again."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Repeat(Exception):
    """The unit was rolled back and may run again."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _close(connection: Connection) -> None:
    """Roll back what is open and return the connection; one that died is left to the pool.

    What the unit returned or raised is known without it, so a failing rollback must not take its place.
    """
    try:
        connection.close()
    except exc.DBAPIError as error:
        _log.debug("A connection was lost before its rollback: %s", type(error.orig).__name__)
        if not connection.closed:
            connection.invalidate()
            connection.close()


@contextmanager
def _cursor(connection: Connection) -> Iterator[Any]:
    cursor = connection.connection.cursor()
    try:
        yield cursor
    finally:
        cursor.close()
