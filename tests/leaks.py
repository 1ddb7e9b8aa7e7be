"""What a test must not leave behind: threads, checked-out or open connections, application contexts, turns.

The check runs after all other fixtures of the test have been torn down, since theirs are the things to be closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import has_app_context
from flask.globals import app_ctx
from sqlalchemy import event
from sqlalchemy.pool import Pool

from flask_solid_objects.intents import current_turn
from tests.databases import Scratch

# A thread may be past its last act and a server may still be closing: that is no leak yet.
_PATIENCE_SECONDS = 3.0
_GIVEN = pytest.StashKey[Scratch]()


class PoolWatch:
    """Knows which connections are checked out of any pool of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._out: dict[Any, str] = {}
        self._listeners: list[tuple[str, Callable[..., None]]] = [
            ("checkout", self._checked_out),
            ("checkin", self._checked_in),
            ("detach", self._checked_in),
        ]
        for name, listener in self._listeners:
            event.listen(Pool, name, listener)

    def close(self) -> None:
        for name, listener in self._listeners:
            event.remove(Pool, name, listener)

    def out(self) -> dict[Any, str]:
        with self._lock:
            return dict(self._out)

    def forget(self, records: dict[Any, str]) -> None:
        """One leak fails one test, not all that follow."""
        with self._lock:
            for record in records:
                self._out.pop(record, None)

    def _checked_out(self, _connection: object, record: Any, _proxy: object) -> None:
        with self._lock:
            self._out[record] = threading.current_thread().name

    def _checked_in(self, _connection: object, record: Any) -> None:
        with self._lock:
            self._out.pop(record, None)


@pytest.fixture(scope="session")
def pool_watch() -> Iterator[PoolWatch]:
    watch = PoolWatch()
    yield watch
    watch.close()


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest, pool_watch: PoolWatch) -> Iterator[None]:
    """Fail a test that leaves something behind; the mark ``keeps_connections`` allows idle connections."""
    threads, out = set(threading.enumerate()), pool_watch.out()
    yield
    leaks = _contexts()
    leaks += [f"thread {thread.name}" for thread in _left(threads)]
    left = {record: thread for record, thread in pool_watch.out().items() if record not in out}
    pool_watch.forget(left)
    leaks += [f"connection checked out by {thread}" for thread in left.values()]
    scratch = request.node.stash.get(_GIVEN, None)
    if scratch is not None and request.node.get_closest_marker("keeps_connections") is None:
        leaks += [f"open connection to {scratch.name}: {description}" for description in _still_open(scratch)]
    if leaks:
        pytest.fail("The test left behind: " + "; ".join(leaks), pytrace=False)


def remember(node: pytest.Item, scratch: Scratch) -> None:
    """Note which database a test was given."""
    node.stash[_GIVEN] = scratch


def _contexts() -> list[str]:
    found = []
    while has_app_context():
        found.append(f"application context of {app_ctx.app.name}")
        app_ctx.pop()
    if current_turn.get() is not None:
        found.append(f"current turn {current_turn.get()}")
        current_turn.set(None)
    return found


def _left(before: set[threading.Thread]) -> list[threading.Thread]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in threading.enumerate() if thread not in before]


def _still_open(scratch: Scratch) -> list[str]:
    """Ask until nothing is open; a server ends a session a little after its client has gone."""
    deadline, pause = time.monotonic() + _PATIENCE_SECONDS, threading.Event()
    while (found := scratch.open_connections()) and time.monotonic() < deadline:
        pause.wait(0.02)
    return found
