"""Keep actor code from writing to the application's database: a turn may run twice, its own writes would too.

Two belts on every engine of the application: its statements are read before they reach the database, and connections
that are taken out by actor code are read-only until they are given back. Reads are free (promise 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, StaticPool, event

from flask_solid_objects.errors import ApplicationWriteForbidden
from flask_solid_objects.intents import CurrentTurn, current_turn
from flask_solid_objects.store.statements import is_write

_MARK = "solid_objects_read_only"
_ABSENT = object()


def guard(engine: Engine) -> None:
    """Watch an engine of the application; the runtime's own is another one."""
    event.listen(engine, "before_cursor_execute", _before_execute)
    if isinstance(engine.pool, StaticPool):
        # One connection for all threads: made read-only here, it would be so for whoever else writes meanwhile.
        _keep_turn(engine)
        return
    event.listen(engine, "checkout", _on_checkout)
    event.listen(engine, "checkin", _on_checkin)


def _before_execute(connection: Any, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool) -> None:
    turn = current_turn.get()
    # In memory the turn's own transaction is on the application's only engine; a commit action writes there.
    if turn is not None and turn.connection is not connection and is_write(statement, context):
        raise forbidden(turn)


def _keep_turn(engine: Engine) -> None:
    """Let a session of the application that has read in a commit action end without ending the turn's transaction.

    Both are on the only connection; the session of the commit action itself ends its savepoints only.
    """
    dialect: Any = engine.dialect
    dialect.do_rollback, dialect.do_commit = _outside_actions(dialect.do_rollback), _outside_actions(dialect.do_commit)


def _outside_actions(end: Callable[[Any], None]) -> Callable[[Any], None]:
    def end_unless_in_action(connection: Any) -> None:
        turn = current_turn.get()
        if turn is None or turn.connection is None:
            end(connection)

    return end_unless_in_action


def forbidden(turn: CurrentTurn) -> ApplicationWriteForbidden:
    turn.refusals.append(turn.operation)
    return ApplicationWriteForbidden(turn.key.actor_type, turn.key.actor_id, turn.operation)


def _on_checkout(connection: Any, record: Any, _proxy: Any) -> None:
    if current_turn.get() is None:
        return
    driver = _driver(connection)
    if driver == "psycopg":
        record.info[_MARK] = connection.read_only
        connection.read_only = True
    elif driver == "sqlite3":
        record.info[_MARK] = connection.execute("PRAGMA query_only").fetchone()[0]
        connection.execute("PRAGMA query_only = ON")
    # No other driver has a switch that is undone without a trace.


def _on_checkin(connection: Any, record: Any) -> None:
    """Put back what the connection was before; the application may have read-only connections of its own."""
    before = record.info.pop(_MARK, _ABSENT)
    if before is _ABSENT or connection is None:
        return
    if _driver(connection) == "psycopg":
        connection.read_only = before
    else:
        connection.execute(f"PRAGMA query_only = {int(before)}")


def _driver(connection: Any) -> str:
    return type(connection).__module__.partition(".")[0]
