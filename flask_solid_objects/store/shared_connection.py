"""A database in memory lives in one connection, which the application's threads share with the units of the runtime.

A unit is therefore kept to its thread: what other threads do on the connection meanwhile waits for its end, which is
near, since no code of the application runs in it but commit actions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Engine

_STEPS = ("do_execute", "do_execute_no_params", "do_executemany", "do_commit", "do_rollback")


def take_turns(engine: Engine, unit: Callable[[], AbstractContextManager[Any]]) -> None:
    """Let each step of the application on this engine wait while another thread holds the lock of units.

    The end of a session that has only read would roll a unit back, and what one writes would be part of it.
    """
    dialect: Any = engine.dialect
    for name in _STEPS:
        setattr(dialect, name, _between_units(getattr(dialect, name), unit))


def _between_units(step: Callable[..., Any], unit: Callable[[], AbstractContextManager[Any]]) -> Callable[..., Any]:
    def wait_and_step(*arguments: Any, **options: Any) -> Any:
        with unit():
            return step(*arguments, **options)

    return wait_and_step
