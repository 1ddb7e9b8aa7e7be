"""One open transaction as the store modules use it: run compiled statements, and one reading of database time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from flask_solid_objects.seams import Checkpoints
from flask_solid_objects.store.dialects import Dialect, Statement


class Transaction:
    """Statements on the driver cursor of a transaction that somebody else begins and ends."""

    __slots__ = ("_after", "_cursor", "_now", "checkpoints", "connection", "dialect")

    def __init__(
        self, cursor: Any, dialect: Dialect, checkpoints: Checkpoints, connection: Connection | None = None
    ) -> None:
        self._cursor = cursor
        self._now: datetime | None = None
        self._after: list[Callable[[], object]] | None = None
        self.dialect = dialect
        self.checkpoints = checkpoints
        # Of the unit of work; only commit actions use it.
        self.connection = connection

    def rows(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        self._run(statement, parameters)
        return list(self._cursor.fetchall())

    def one(self, statement: Statement, **parameters: Any) -> tuple[Any, ...] | None:
        self._run(statement, parameters)
        row: tuple[Any, ...] | None = self._cursor.fetchone()
        return row

    def write(self, statement: Statement, **parameters: Any) -> int:
        """Run a write and return how many rows it matched."""
        self._run(statement, parameters)
        return int(self._cursor.rowcount)

    def insert(self, statement: Statement, **parameters: Any) -> int:
        """Insert one row and return its id."""
        self._run(statement, parameters)
        if statement.returns_id and self.dialect.has_writable_cte:
            return int(self._cursor.fetchone()[0])
        return int(self._cursor.lastrowid)

    def now(self) -> datetime:
        """The database's time, read once per transaction.

        Read it after the last lock was waited for: a lease that is judged by an older time can be taken from
        its holder too late, and a hint that is older than its row hides the row (protocol 3.4).
        """
        if self._now is None:
            self._cursor.execute(self.dialect.now_text)
            self._now = self.dialect.decode_time(self._cursor.fetchone()[0])
            assert self._now is not None
        return self._now

    def at(self, moment: datetime) -> None:
        """Use a time that a statement of this transaction has returned already."""
        self._now = moment

    def after_commit(self, act: Callable[[], object]) -> None:
        """Do something once this transaction is known to be committed; never when it is not."""
        if self._after is None:
            self._after = []
        self._after.append(act)

    def committed(self) -> None:
        """Do what waited for the commit; called by whoever has committed."""
        for act in self._after or ():
            act()

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Let the server end each statement that takes longer."""
        self.dialect.limit_statements(self._cursor, seconds)
        try:
            yield
        finally:
            self.dialect.unlimit_statements(self._cursor)

    def _run(self, statement: Statement, parameters: dict[str, Any]) -> None:
        self._cursor.execute(
            statement.text, {**statement.constants, **parameters} if statement.constants else parameters
        )
