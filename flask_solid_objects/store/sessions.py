"""The application's own sessions: whether one holds uncommitted work, and sends that commit with it.

We neither begin, commit nor roll back there. What is remembered about a transaction lives with its session or
connection and ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from flask_solid_objects.store.statements import is_write

_DIRTY = "solid_objects_dirty"
_CONNECTIONS = "solid_objects_connections"
_OUTBOX = "solid_objects_outbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSends:
    """What is done with the items of one transaction: ``write`` before it commits, ``committed`` after."""

    write: Callable[[Any, Sequence[Any]], None]
    committed: Callable[[Sequence[Any]], None]


@dataclass(slots=True)
class _Batch:
    """The sends of one open transaction, each with the savepoint in which it was made."""

    sends: PendingSends
    items: list[tuple[Any, Any]] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)

    def drop(self, savepoint: Any) -> None:
        self.items = [(item, mark) for item, mark in self.items if mark is not savepoint]

    def move(self, savepoint: Any, parent: Any) -> None:
        self.items = [(item, parent if mark is savepoint else mark) for item, mark in self.items]

    def write(self, cursor: Any) -> None:
        items = [item for item, _ in self.items]
        self.items = []
        if items:
            self.sends.write(cursor, items)
            self.written.extend(items)

    def committed(self) -> None:
        written, self.written = self.written, []
        if written:
            self.sends.committed(written)

    def forget(self) -> None:
        self.items, self.written = [], []


FindEngine: TypeAlias = Callable[[], Engine]


class SessionOutbox:
    """Sends that wait for the commit of the transaction that the application owns.

    :param engine: finds the application's engine of our database, for sessions that have several binds.
    """

    def __init__(self, engine: FindEngine | None = None) -> None:
        self._engine = engine

    def add(self, session: Any, item: Any, sends: PendingSends) -> None:
        """Let an item be written when the root transaction commits; a rolled-back savepoint drops its own."""
        if isinstance(session, scoped_session):
            session = session()
        if isinstance(session, Session):
            batch = self._session_batch(session, sends)
            batch.items.append((item, session.get_nested_transaction() or session.get_transaction()))
            if session.get_transaction() is None:
                session.begin()
                batch.items[-1] = (item, session.get_transaction())
        elif isinstance(session, Connection):
            _ConnectionOutbox.of(session, sends).add(session, item)
        else:
            raise TypeError(
                f"session is a SQLAlchemy Session, scoped_session or Connection, not {type(session).__name__}."
            )

    def _session_batch(self, session: Session, sends: PendingSends) -> _Batch:
        batch: _Batch | None = session.info.get(_OUTBOX)
        if batch is not None:
            return batch
        batch = session.info[_OUTBOX] = _Batch(sends)
        kept = batch

        def before_commit(session: Session) -> None:
            # Also called for each savepoint; only the root's commit makes anything durable.
            if not session.in_nested_transaction() and kept.items:
                session.flush()
                cursor = self._connection(session).connection.cursor()
                try:
                    kept.write(cursor)
                finally:
                    cursor.close()

        def after_commit(session: Session) -> None:
            if not session.in_nested_transaction():
                kept.committed()

        def after_rollback(session: Session) -> None:
            # Before the savepoint ends: its end alone would hand its sends to the parent, as a release does.
            savepoint = session.get_nested_transaction()
            if savepoint is not None:
                kept.drop(savepoint)
            else:
                kept.forget()

        def after_transaction_end(_session: Session, transaction: SessionTransaction) -> None:
            if transaction.nested:
                kept.move(transaction, transaction.parent)

        event.listen(session, "before_commit", before_commit)
        event.listen(session, "after_commit", after_commit)
        event.listen(session, "after_rollback", after_rollback)
        event.listen(session, "after_transaction_end", after_transaction_end)
        return batch

    def _connection(self, session: Session) -> Connection:
        if self._engine is None or isinstance(session.bind, Connection):
            return session.connection()
        return session.connection(bind_arguments={"bind": self._engine()})


class _ConnectionOutbox:
    """The sends of one plain connection.

    Savepoints are numbered in the order in which they begin, so that rolling one back drops what was sent since in
    it or in those within it. Releasing one changes nothing: it cannot be rolled back alone any more.
    """

    def __init__(self, connection: Connection, sends: PendingSends) -> None:
        self._batch = _Batch(sends)
        event.listen(connection, "commit", self._before_commit)
        event.listen(connection, "rollback", lambda _connection: self._batch.forget())
        event.listen(connection, "rollback_savepoint", lambda _connection, name, _context: self._roll_back(name))
        # There is no event after a COMMIT: the next begin, or the return to the pool, is the first that follows it.
        event.listen(connection, "begin", lambda _connection: self._batch.committed())
        if not event.contains(connection.engine, "checkin", _on_checkin):
            event.listen(connection.engine, "checkin", _on_checkin)

    @classmethod
    def of(cls, connection: Connection, sends: PendingSends) -> _ConnectionOutbox:
        found: _ConnectionOutbox | None = connection.info.get(_OUTBOX)
        if found is None:
            found = connection.info[_OUTBOX] = cls(connection, sends)
        return found

    def add(self, connection: Connection, item: Any) -> None:
        if not connection.in_transaction():
            # Begin as any statement would; otherwise the commit would have nothing to do.
            connection.exec_driver_sql("SELECT 1")
        savepoint = connection.get_nested_transaction()
        self._batch.items.append((item, 0 if savepoint is None else _number(savepoint._savepoint)))

    def close(self) -> None:
        """The connection goes back to its pool: what it committed is told, the rest was rolled back."""
        self._batch.committed()
        self._batch.forget()

    def _before_commit(self, connection: Connection) -> None:
        cursor = connection.connection.cursor()
        try:
            self._batch.write(cursor)
        finally:
            cursor.close()

    def _roll_back(self, name: str) -> None:
        number = _number(name)
        self._batch.items = [(item, mark) for item, mark in self._batch.items if mark < number]


def _number(savepoint: str) -> int:
    """The place of a savepoint in the order of those of its connection; SQLAlchemy counts them in their names."""
    return int(savepoint.rpartition("_")[2])


def _on_checkin(_connection: Any, record: Any) -> None:
    outbox: _ConnectionOutbox | None = record.info.pop(_OUTBOX, None)
    if outbox is not None:
        outbox.close()


class SessionWatch:
    """Knows whether the application's session holds uncommitted writes or row locks on one database (design 4.5).

    An open session that has only read is fine. What a savepoint rolled back still counts, since locks may remain.
    """

    def __init__(self, sessions: Any, is_ours: Callable[[Engine], bool]) -> None:
        """Watch from now on, which has to be before the application uses its session.

        :param is_ours: whether an engine is of the database that the actors live in.
        """
        self._sessions, self._is_ours = sessions, is_ours
        event.listen(sessions, "after_begin", _remember_connection)
        event.listen(sessions, "after_transaction_end", _forget_connections)

    def has_uncommitted_work(self) -> bool:
        """True when a call would wait while this thread's session keeps others waiting."""
        if not self._sessions.registry.has():
            return False
        session: Session = self._sessions()
        outbox: _Batch | None = session.info.get(_OUTBOX)
        if outbox is not None and outbox.items:
            return True
        if session.new or session.deleted or any(session.is_modified(each) for each in session.dirty):
            return True
        connections: list[Connection] = session.info.get(_CONNECTIONS, [])
        return any(
            not each.closed and each.info.get(_DIRTY, False) and self._is_ours(each.engine) for each in connections
        )


def _remember_connection(session: Session, _transaction: SessionTransaction, connection: Connection) -> None:
    """The first statement of this connection is still to come, so the engine is watched in time."""
    engine = connection.engine
    if not event.contains(engine, "before_cursor_execute", _mark_dirty):
        event.listen(engine, "before_cursor_execute", _mark_dirty)
        event.listen(engine, "commit", _mark_clean)
        event.listen(engine, "rollback", _mark_clean)
    session.info.setdefault(_CONNECTIONS, []).append(connection)


def _forget_connections(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        session.info.pop(_CONNECTIONS, None)


def _mark_dirty(
    connection: Connection, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool
) -> None:
    if not connection.info.get(_DIRTY, False) and is_write(statement, context):
        connection.info[_DIRTY] = True


def _mark_clean(connection: Connection) -> None:
    connection.info.pop(_DIRTY, None)
