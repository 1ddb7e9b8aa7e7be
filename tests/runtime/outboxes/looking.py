"""What tests of outboxes look at: rows as they are stored, what a receiver heard, and functions run beside the test."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import Engine, text

from tests.actors import RuntimeUnderTest


class Beside:
    """A function in a thread, whose error is raised when it is joined."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(function,))
        self._thread.start()

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            function()
        except BaseException as error:
            self._error = error


def outbox(engine: Engine) -> list[tuple[str, int]]:
    """Status and attempts of each row, in the order of the sends."""
    return [(row[0], row[1]) for row in _rows(engine, "SELECT status, attempt_count FROM solid_objects_effects")]


def errors(engine: Engine, table: str = "effects") -> list[str | None]:
    """The class of each row's stored error."""
    found = [row[0] for row in _rows(engine, f"SELECT error FROM solid_objects_{table}")]
    return [None if error is None else as_json(error)["class"] for error in found]


def as_json(value: Any) -> Any:
    """A JSON column as a value, whether the driver has decoded it or not."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except msgspec.DecodeError:
        return value  # text that was decoded already


def heard(rt: RuntimeUnderTest, actor_id: str) -> list[str]:
    """What a receiver heard, in its order."""
    return list(rt.ref("Receiver", actor_id).snapshot().heard)


def make_due(engine: Engine, table: str = "effects", column: str = "available_at") -> None:
    """Let time pass for rows that wait, by moving them instead of clocks."""
    past = "'2020-01-01 00:00:00.000000'"
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE solid_objects_{table} SET {column} = {past}"))


def count(engine: Engine, table: str) -> int:
    """How many rows a table has."""
    return int(_rows(engine, f"SELECT count(*), 1 FROM solid_objects_{table}", "")[0][0])


def _rows(engine: Engine, statement: str, order: str = " ORDER BY id") -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(text(statement + order)))
