"""The session of commit actions: on the connection of the turn's transaction, which it can neither end nor leave."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, Table, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Mapper, Session
from sqlalchemy.sql import visitors

from flask_solid_objects.errors import CommitActionUnavailable
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.statements import ends_transaction
from flask_solid_objects.store.transaction import Transaction


class CommitSession(Session):
    """A plain session in a savepoint of the turn's transaction.

    Its own commit and rollback end only that savepoint. A table that the application keeps in another database is
    refused: a write there could not commit together with the turn.
    """

    def __init__(self, connection: Connection, dialect: Dialect, bind_keys: Collection[str | None] | None) -> None:
        super().__init__(bind=connection, join_transaction_mode="create_savepoint")
        self._connection, self._dialect = connection, dialect
        self._bind_keys, self._turns = bind_keys, connection.get_transaction()

    def check_open(self) -> None:
        """Make sure that the turn's transaction is still the one that was open in the beginning.

        :raises CommitActionUnavailable: a commit action has ended it, and took no notice of the error, or had none
            since it asked the driver.
        """
        if self._turns is None or not self._turns.is_active:
            raise _unavailable()
        if self._connection.invalidated or self._connection.closed:
            return
        if not self._dialect.may_be_in_transaction(self._connection.connection.driver_connection):
            raise _unavailable()

    def get_bind(self, mapper: Any = None, *, clause: Any = None, **options: Any) -> Any:
        """The turn's connection, whatever is asked for.

        :raises CommitActionUnavailable: the table belongs to another bind.
        """
        if self._bind_keys is not None:
            for table in _tables(mapper, clause):
                key = table.metadata.info.get("bind_key")
                if "bind_key" in table.metadata.info and key not in self._bind_keys:
                    raise CommitActionUnavailable(
                        f"The table {table.name} is in the bind {key!r}, another database than that of the actors, so "
                        "that its rows cannot commit with the turn: keep it in the same database "
                        "(SOLID_OBJECTS_BIND_KEY), or write it in an effect."
                    )
        return super().get_bind(mapper, clause=clause, **options)


@contextmanager
def commit_session(tx: Transaction, bind_keys: Collection[str | None] | None) -> Iterator[CommitSession]:
    """A session on the connection of an open unit of work, whose transaction nobody can end meanwhile.

    :param bind_keys: the application's binds that are this database; None when it has no binds.
    """
    connection = tx.connection
    assert connection is not None, "units of the runtime have one"
    event.listen(connection, "commit", _refuse_commit)
    event.listen(connection, "before_cursor_execute", _refuse_what_ends)
    session = CommitSession(connection, tx.dialect, bind_keys)
    try:
        yield session
    except BaseException:
        # After a deadlock MySQL has no savepoint to go back to; what counts is why.
        with suppress(SQLAlchemyError):
            session.close()
        raise
    else:
        session.close()
    finally:
        event.remove(connection, "commit", _refuse_commit)
        event.remove(connection, "before_cursor_execute", _refuse_what_ends)


def _refuse_commit(connection: Connection) -> None:
    # Whatever comes of the error, SQLAlchemy takes the transaction for ended: make it so, without its work.
    connection.connection.rollback()
    raise _unavailable()


def _refuse_what_ends(_connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
    if ends_transaction(statement):
        raise _unavailable()


def _unavailable() -> CommitActionUnavailable:
    return CommitActionUnavailable(
        "A commit action cannot end the transaction that commits its turn: leave out COMMIT, ROLLBACK and changes of "
        "the schema. context.session may commit and roll back its own work."
    )


def _tables(mapper: Any, clause: Any) -> list[Table]:
    if isinstance(mapper, Mapper):
        return [table for table in mapper.tables if isinstance(table, Table)]
    if mapper is not None and hasattr(mapper, "__mapper__"):
        return [table for table in mapper.__mapper__.tables if isinstance(table, Table)]
    if clause is None:
        return []
    return [each for each in visitors.iterate(clause) if isinstance(each, Table)]


def is_session_error(error: BaseException) -> bool:
    """Whether the session or the database raised it, and not the action itself."""
    return isinstance(error, SQLAlchemyError)
