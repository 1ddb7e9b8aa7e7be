"""What PostgreSQL answers."""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy import func
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from flask_solid_objects.store.dialects.base import Dialect, Fault

# Shutdown, crash, starting up, and the server's limits for sessions and transactions that idle or last too long.
_ENDED_BY_POSTGRESQL = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04")


class PostgreSQLDialect(Dialect):
    """PostgreSQL through psycopg 3: writable CTEs, wall-clock time of the server."""

    name = "postgresql"
    minimum = (14,)
    has_writable_cte = True
    can_notify = True
    isolation_level = "READ COMMITTED"
    now = func.clock_timestamp(type_=sqlalchemy.DateTime(timezone=True))
    core = PGDialect_psycopg()  # type: ignore[no-untyped-call]

    def begin(self, cursor: Any, milliseconds: int) -> None:
        # Local to the transaction: nothing stays behind on a connection of a transaction pooler.
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", (f"{milliseconds}ms",))

    def may_be_in_transaction(self, connection: Any) -> bool:
        return int(connection.info.transaction_status) != 0

    def limit_statements(self, cursor: Any, seconds: float) -> None:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", (f"{max(1, int(seconds * 1000))}ms",))

    def prepare_connection(self, connection: Any) -> None:
        # JSON stays text, as on the other databases; the typed decoding is ours. A client-side setting.
        from psycopg.types.string import TextLoader  # noqa: PLC0415 - an optional driver

        connection.adapters.register_loader("jsonb", TextLoader)
        connection.adapters.register_loader("json", TextLoader)

    def is_definite_at_commit(self, error: BaseException) -> bool:
        # What the server says in answer to COMMIT, such as a deferred constraint, means that it rolled back.
        return getattr(error, "sqlstate", None) is not None and self.classify(error) is not Fault.DISCONNECTED

    def classify(self, error: BaseException) -> Fault:
        state = getattr(error, "sqlstate", None)
        if state in ("40001", "40P01", "55P03", "57014"):
            return Fault.CONFLICT
        if state in _ENDED_BY_POSTGRESQL or (state is not None and state.startswith("08")):
            return Fault.DISCONNECTED
        if state is None and type(error).__name__ in ("OperationalError", "InterfaceError"):
            # libpq gives no state for what the server did not say: refused, reset, closed.
            return Fault.DISCONNECTED
        if state == "23505":
            return Fault.DUPLICATE
        if state == "42P01":
            return Fault.MISSING_TABLE
        return Fault.OTHER
