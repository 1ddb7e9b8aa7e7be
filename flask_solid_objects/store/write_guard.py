"""Keep actor code from writing to the application's database: a turn may run twice, its own writes would too.

Two belts on every engine of the application: its statements are read before they reach the database, and connections
that are taken out by actor code are read-only until they are given back. Reads are free (promise 4).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event

from flask_solid_objects.errors import ApplicationWriteForbidden
from flask_solid_objects.store.statements import is_write
from flask_solid_objects.values import CurrentTurn, current_turn

_MARK = "solid_objects_read_only"


def guard(engine: Engine) -> None:
    """Watch an engine of the application; the runtime's own is another one."""
    event.listen(engine, "before_cursor_execute", _before_execute)
    event.listen(engine, "checkout", _on_checkout)
    event.listen(engine, "checkin", _on_checkin)


def _before_execute(
    _connection: Any, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool
) -> None:
    turn = current_turn.get()
    if turn is not None and is_write(statement, context):
        raise forbidden(turn)


def forbidden(turn: CurrentTurn) -> ApplicationWriteForbidden:
    return ApplicationWriteForbidden(turn.key.actor_type, turn.key.actor_id, turn.operation)


def _on_checkout(connection: Any, record: Any, _proxy: Any) -> None:
    if current_turn.get() is None:
        return
    if _set_read_only(connection, True):
        record.info[_MARK] = True


def _on_checkin(connection: Any, record: Any) -> None:
    if record.info.pop(_MARK, False) and connection is not None:
        _set_read_only(connection, False)


def _set_read_only(connection: Any, on: bool) -> bool:
    """The second belt, where the driver has one that is undone without a trace; True when it was set."""
    module = type(connection).__module__.partition(".")[0]
    if module == "psycopg":
        connection.read_only = True if on else None
        return True
    if module == "sqlite3":
        connection.execute(f"PRAGMA query_only = {'ON' if on else 'OFF'}")
        return True
    return False
