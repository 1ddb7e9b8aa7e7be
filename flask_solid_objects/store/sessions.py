"""The application's own sessions: whether one holds uncommitted work, and sends that commit with it.

We neither commit nor roll back there. What is remembered about a transaction lies in the ``info`` of its connection,
where it is forgotten with the transaction, however that ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, ExceptionContext, event, exc
from sqlalchemy.orm import Session, SessionTransaction, object_mapper, scoped_session

from flask_solid_objects.store.statements import is_write

_DIRTY = "solid_objects_dirty"
_BATCHES = "solid_objects_sends"
# In the info of a session: the connections of its transaction, and those among them that have sends.
_CONNECTIONS = "solid_objects_connections"
_SENDING = "solid_objects_sending"

FindEngine: TypeAlias = Callable[[], Engine]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSends:
    """What is done with the items of one transaction: ``write`` before it commits, then one of the others."""

    write: Callable[[Any, Sequence[Any]], None]
    committed: Callable[[Sequence[Any]], None]
    rolled_back: Callable[[Sequence[Any]], None]


@dataclass(slots=True)
class _Batch:
    """The sends of one transaction, each with the number of the savepoint in which it was made.

    Savepoints are numbered in the order in which they begin, so that rolling one back drops what was sent since in it
    or in those within it. Releasing one changes nothing: it cannot be rolled back alone any more.
    """

    sends: PendingSends
    items: list[tuple[Any, int]] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)
    failed: bool = False

    def add(self, connection: Connection, item: Any) -> None:
        savepoint = connection.get_nested_transaction()
        self.items.append((item, 0 if savepoint is None else _number(savepoint._savepoint)))

    def write(self, connection: Connection) -> None:
        """Write what waits, in the root transaction, so that no savepoint can undo it any more."""
        if self.failed:
            # The first commit raised; a second one would commit everything but these.
            raise exc.PendingRollbackError("Messages of this transaction could not be written; roll it back.")
        items = [item for item, _ in self.items]
        if not items:
            return
        self.items, self.failed = [], True
        cursor = connection.connection.cursor()
        # Some may be written when another one is refused.
        self.written.extend(items)
        try:
            self.sends.write(cursor, items)
        except connection.dialect.loaded_dbapi.Error as error:
            raise _as_sqlalchemy(connection, error) from error
        finally:
            cursor.close()
        self.failed = False

    def committed(self) -> None:
        if self.failed:
            return
        written, self.written = self.written, []
        if written:
            self.sends.committed(written)

    def rolled_back(self) -> None:
        """Take back what writing has told: they are as unsent as before."""
        written, self.written = self.written, []
        if written:
            self.sends.rolled_back(written)

    def drop(self, savepoint: int) -> None:
        self.items = [(item, made_in) for item, made_in in self.items if made_in < savepoint]


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
            connection = self._connection(session)
            _follow(session, connection)
        elif isinstance(session, Connection):
            connection = session
            if not connection.in_transaction():
                # As any statement would; otherwise the commit would have nothing to do.
                connection.begin()
        else:
            raise TypeError(
                f"session is a SQLAlchemy Session, scoped_session or Connection, not {type(session).__name__}."
            )
        watch_engine(connection.engine)
        batches: dict[SessionOutbox, _Batch] = connection.info.setdefault(_BATCHES, {})
        batches.setdefault(self, _Batch(sends)).add(connection, item)

    def _connection(self, session: Session) -> Connection:
        """The connection on which the session works on our database, in the transaction that is open now."""
        if self._engine is None:
            return session.connection()
        engine, bind = self._engine(), session.bind
        if bind is not None and bind.engine.url == engine.engine.url:
            # A session of the application's own making: on another connection the send would not be atomic with it.
            return session.connection(bind_arguments={"bind": bind})
        return session.connection(bind_arguments={"bind": engine})


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
        if any(self._is_ours(session.get_bind(object_mapper(each)).engine) for each in _unflushed(session)):
            return True
        connections: list[Connection] = session.info.get(_CONNECTIONS, [])
        return any(_has_work(each) and self._is_ours(each.engine) for each in connections)


def watch_engine(engine: Engine) -> None:
    """Follow the transactions of an engine of the application; a second time does nothing."""
    if event.contains(engine, "before_cursor_execute", _mark_dirty):
        return
    event.listen(engine, "before_cursor_execute", _mark_dirty)
    for name in ("begin", "begin_twophase"):
        event.listen(engine, name, _on_begin)
    for name in ("commit", "prepare_twophase"):
        event.listen(engine, name, _on_commit)
    for name in ("rollback", "rollback_twophase"):
        event.listen(engine, name, _on_rollback)
    event.listen(engine, "rollback_savepoint", _on_rollback_savepoint)
    event.listen(engine, "handle_error", _on_error)
    event.listen(engine, "checkin", _on_checkin)


# -- what sessions tell ------------------------------------------------------------------------


def _remember_connection(session: Session, _transaction: SessionTransaction, connection: Connection) -> None:
    """The first statement of this connection is still to come, so the engine is watched in time."""
    watch_engine(connection.engine)
    session.info.setdefault(_CONNECTIONS, []).append(connection)


def _forget_connections(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        session.info.pop(_CONNECTIONS, None)


def _unflushed(session: Session) -> Iterator[object]:
    yield from session.new
    yield from session.deleted
    yield from (each for each in session.dirty if session.is_modified(each))


def _follow(session: Session, connection: Connection) -> None:
    sending: list[Connection] = session.info.setdefault(_SENDING, [])
    if connection not in sending:
        sending.append(connection)
    if not event.contains(session, "before_commit", _before_session_commit):
        event.listen(session, "before_commit", _before_session_commit)
        event.listen(session, "after_commit", _after_session_commit)
        event.listen(session, "after_transaction_end", _after_session_transaction)


def _before_session_commit(session: Session) -> None:
    """Write before the first of several binds commits, so that what is refused here commits nowhere.

    What is sent later than this, by a hook of the application, is written when its connection commits.
    """
    if session.in_nested_transaction():
        return
    for connection in session.info.get(_SENDING, ()):
        # Within a savepoint the session has joined a transaction of someone else, who commits or drops it later.
        if not connection.in_nested_transaction():
            session.flush()
            _on_commit(connection)


def _after_session_commit(session: Session) -> None:
    for connection in session.info.get(_SENDING, ()):
        if not connection.in_transaction():
            for batch in _batches(connection):
                batch.committed()


def _after_session_transaction(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        session.info.pop(_SENDING, None)


# -- what connections tell ---------------------------------------------------------------------


def _mark_dirty(
    connection: Connection, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool
) -> None:
    if not connection.info.get(_DIRTY, False) and is_write(statement, context):
        connection.info[_DIRTY] = True


def _on_begin(connection: Connection, *_: Any) -> None:
    connection.info.pop(_DIRTY, None)
    # There is no event after a COMMIT: the next begin, or the return to the pool, is the first that follows it.
    for batch in _batches(connection):
        batch.committed()


def _on_commit(connection: Connection, *_: Any) -> None:
    for batch in _batches(connection):
        batch.write(connection)


def _on_rollback(connection: Connection, *_: Any) -> None:
    # An invalidated connection has lost its info already, and cannot be asked for it before it is rolled back.
    if not connection.invalidated:
        for batch in connection.info.pop(_BATCHES, {}).values():
            batch.rolled_back()


def _on_error(context: ExceptionContext) -> None:
    """A COMMIT that the database refuses is a rollback, of which no other event tells.

    Where the connection broke at it, nobody knows; the message may be stored under its number.
    """
    if context.statement is None and context.connection is not None and not context.is_disconnect:
        _on_rollback(context.connection)


def _on_rollback_savepoint(connection: Connection, name: str, _context: Any) -> None:
    if not connection.invalidated:
        for batch in _batches(connection):
            batch.drop(_number(name))


def _on_checkin(_connection: Any, record: Any) -> None:
    record.info.pop(_DIRTY, None)
    for batch in record.info.pop(_BATCHES, {}).values():
        batch.committed()


def _as_sqlalchemy(connection: Connection, error: Any) -> Any:
    """A driver's error as the application's commit raises all others, so that its own handlers know it."""
    lost = connection.dialect.is_disconnect(error, connection.connection, None)
    if lost:
        connection.invalidate(error)
    base = connection.dialect.loaded_dbapi.Error
    return exc.DBAPIError.instance(
        "messages of this transaction", None, error, base, connection_invalidated=lost, dialect=connection.dialect
    )


def _batches(connection: Connection) -> list[_Batch]:
    return list(connection.info.get(_BATCHES, {}).values())


def _has_work(connection: Connection) -> bool:
    if connection.closed or connection.invalidated or not connection.in_transaction():
        return False
    return connection.info.get(_DIRTY, False) or any(batch.items for batch in _batches(connection))


def _number(savepoint: str) -> int:
    """The place of a savepoint in the order of those of its connection; SQLAlchemy counts them in their names."""
    return int(savepoint.rpartition("_")[2])
