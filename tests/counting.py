"""Count what reaches the driver: statements and transactions of an engine, whoever runs them on whatever cursor.

BEGIN, COMMIT, ROLLBACK and SET TRANSACTION are no statements. A transaction counts when it ends, by COMMIT or
ROLLBACK, after at least one statement; one that is still open counts as well.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, event

# Not counted as statements. SAVEPOINT and RELEASE are: each costs a round trip.
_BOUNDARIES = ("BEGIN", "START TRANSACTION", "COMMIT", "END", "ROLLBACK", "SET TRANSACTION")
_ENDS = ("COMMIT", "END", "ROLLBACK")
_KEY = "flask_solid_objects_counted"


@dataclass(slots=True)
class Measurement:
    """What ran between two moments; ``log`` holds the statements and, in capitals, how transactions ended."""

    statements: int = 0
    transactions: int = 0
    commits: int = 0
    rollbacks: int = 0
    log: list[str] = field(default_factory=list)
    _busy: set[int] = field(default_factory=set)

    def add_statement(self, connection: int, statement: str) -> None:
        self.statements += 1
        self.log.append(statement)
        if connection not in self._busy:
            self._busy.add(connection)
            self.transactions += 1

    def end(self, connection: int, how: str) -> None:
        """A pool rolls back whatever it gets back, so an end counts only after a statement."""
        if connection not in self._busy:
            return
        self._busy.discard(connection)
        self.log.append(how)
        if how == "ROLLBACK":
            self.rollbacks += 1
        else:
            self.commits += 1


class StatementCounter:
    """Counts on every connection of an engine that is checked out from now on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._measurements: list[Measurement] = []
        event.listen(engine, "checkout", self._attach)
        event.listen(engine, "checkin", self._returned)

    def close(self) -> None:
        """Count no more connections; those that are counted already go on into nothing."""
        event.remove(self._engine, "checkout", self._attach)
        event.remove(self._engine, "checkin", self._returned)

    @contextmanager
    def measure(self) -> Iterator[Measurement]:
        """Measure all threads of this engine during a block; blocks may be nested."""
        measurement = Measurement()
        with self._lock:
            self._measurements.append(measurement)
        try:
            yield measurement
        finally:
            with self._lock:
                # By identity: two measurements of nothing are equal.
                self._measurements = [other for other in self._measurements if other is not measurement]

    def _attach(self, connection: Any, record: Any, _proxy: object) -> None:
        watched = record.info.get(_KEY)
        # The record gets a new driver connection after an invalidation.
        if watched is None or watched.connection is not connection:
            watched = record.info[_KEY] = _Watched(connection)
            _instrument(connection, watched.saw)
        if self not in watched.counters:
            watched.counters.append(self)

    def _returned(self, connection: Any, _record: object) -> None:
        # SQLite reads without BEGIN, so nothing else tells that a read is over.
        self.saw(id(connection), "ROLLBACK")

    def saw(self, connection: int, statement: str) -> None:
        with self._lock:
            measurements = list(self._measurements)
            kind = " ".join(statement.split()).removesuffix(";").upper()
            for measurement in measurements:
                if not kind.startswith(_BOUNDARIES) or kind.startswith("ROLLBACK TO"):
                    measurement.add_statement(connection, statement)
                elif kind.startswith(_ENDS):
                    measurement.end(connection, "ROLLBACK" if kind.startswith("ROLLBACK") else "COMMIT")


@dataclass(slots=True, eq=False)
class _Watched:
    """One driver connection and who counts on it: SQLite has room for one observer only."""

    connection: Any
    counters: list[StatementCounter] = field(default_factory=list)

    def saw(self, connection: int, statement: str) -> None:
        for counter in self.counters:
            counter.saw(connection, statement)


def _instrument(connection: Any, saw: Callable[[int, str], None]) -> None:
    """Watch one driver connection; each driver offers another place to look."""
    if isinstance(connection, sqlite3.Connection):
        _watch_sqlite(connection, saw)
        return
    if hasattr(connection, "cursor_factory"):
        names = ("execute", "executemany", "stream", "copy")
        connection.cursor_factory = _watching(connection.cursor_factory, names, saw)
    elif hasattr(connection, "cursorclass"):
        # Its executemany is made of executes.
        connection.cursorclass = _watching(connection.cursorclass, ("execute",), saw)
    else:
        raise TypeError(f"Cannot count the statements of {type(connection).__module__}.{type(connection).__name__}.")
    for name in ("commit", "rollback"):
        _watch_end(connection, name, saw)


def _watch_sqlite(connection: sqlite3.Connection, saw: Callable[[int, str], None]) -> None:
    number = id(connection)

    def trace(statement: str) -> None:
        # Programs inside a statement, such as triggers, are traced as comments.
        if not statement.startswith("--"):
            saw(number, statement)

    connection.set_trace_callback(trace)


def _watching(base: type[Any], names: tuple[str, ...], saw: Callable[[int, str], None]) -> type[Any]:
    """Subclass a cursor, so that the raw cursor of the driver is counted as well."""

    def watched(name: str) -> Callable[..., Any]:
        original = getattr(base, name)

        def method(self: Any, query: Any, *args: Any, **options: Any) -> Any:
            text = query if isinstance(query, str) else str(query)
            if name == "executemany":
                args = (list(args[0]), *args[1:])
            for _ in range(len(args[0]) if name == "executemany" else 1):
                saw(id(self.connection), text)
            return original(self, query, *args, **options)

        return method

    return type(f"Counted{base.__name__}", (base,), {name: watched(name) for name in names if hasattr(base, name)})


def _watch_end(connection: Any, name: str, saw: Callable[[int, str], None]) -> None:
    original = getattr(connection, name)

    def ending() -> None:
        # Before the call: a failing COMMIT was sent all the same.
        saw(id(connection), name.upper())
        original()

    setattr(connection, name, ending)
