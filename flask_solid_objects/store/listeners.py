"""Driver-level connections that carry wake-ups: LISTEN and NOTIFY on PostgreSQL, ``data_version`` on SQLite.

Each has a connection of its own outside every pool, since listening is state of a session.
"""

from __future__ import annotations

import selectors
import socket
from typing import Any

from flask_solid_objects.store.database import Database

# A connection that died silently is found within half a minute; what the application sets wins. Nothing here
# reaches the server, so that a pooler in between does not mind.
_LIVELINESS = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class NotifyConnection:
    """Sends notifications, each in its own short transaction, never in the one that enqueued."""

    def __init__(self, database: Database, channel: str | None = None) -> None:
        self._connection = _connect(database)
        self._channel = channel or database.channel

    def notify(self, text: str) -> None:
        self._connection.execute("SELECT pg_notify(%s, %s)", (self._channel, text))

    def close(self) -> None:
        self._connection.close()


class ListenConnection:
    """Receives notifications, until somebody else interrupts it."""

    def __init__(self, database: Database, channel: str | None = None) -> None:
        self._connection = _connect(database)
        try:
            self._connection.execute(f'LISTEN "{channel or database.channel}"')
            self._interrupting, self._interrupted = socket.socketpair()
            self._selector = selectors.DefaultSelector()
            self._selector.register(self._connection.fileno(), selectors.EVENT_READ)
            self._selector.register(self._interrupted, selectors.EVENT_READ)
        except BaseException:
            # Nobody has got this object yet, who could close it.
            self._connection.close()
            raise

    def receive(self, timeout: float) -> list[str]:
        """The texts that have arrived, or that arrive within a time; none when it was interrupted."""
        # What came with the answer to another statement makes nothing readable.
        return self._arrived() or (self._arrived() if self._selector.select(timeout) else [])

    def interrupt(self) -> None:
        """Let this and every later wait return at once; from another thread."""
        self._interrupting.send(b".")

    def check(self) -> None:
        """Ask the server for an answer; a connection that died silently raises here."""
        self._connection.execute("SELECT 1")

    def close(self) -> None:
        self._selector.close()
        self._interrupting.close()
        self._interrupted.close()
        self._connection.close()

    def _arrived(self) -> list[str]:
        return [notification.payload for notification in self._connection.notifies(timeout=0)]


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


def _connect(database: Database) -> Any:
    """A driver connection to PostgreSQL whose every statement is a transaction of its own."""
    dialect = database.engine.dialect
    arguments, options = dialect.create_connect_args(database.url)
    connection: Any = dialect.connect(*arguments, **{**_LIVELINESS, **options, **database.connect_args})
    connection.autocommit = True
    # Behind a transaction pooler the sixth equal statement would look for a prepared one that is not there.
    connection.prepare_threshold = None
    return connection
