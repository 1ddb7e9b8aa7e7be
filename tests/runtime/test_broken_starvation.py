"""A process that asks for a busy file must look often enough to find it free once."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import CallEnqueueTimeout
from flask_solid_objects.seams import Clock, Seams
from tests import requires
from tests.runtime.conftest import MakeRuntime


class NotedClock(Clock):
    """The real clock, which also keeps how long each pause was."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        super().pause(seconds)


class JumpingClock(Clock):
    """A clock whose pauses take no time, and move it on all the same."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._skipped

    def pause(self, seconds: float) -> None:
        self._skipped += seconds


@requires.single_writer
def test_busy_file_is_asked_for_often(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A file has no queue, so the pauses between two tries stay short however long another process writes."""
    clock = NotedClock()
    rt = make_runtime(seams=Seams(clock=clock))
    rt.journal("a").add(entry="one")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(CallEnqueueTimeout):
            rt.journal("a").add.using(timeout=0.3)(entry="two")
        connection.rollback()

    assert len(clock.pauses) > 10
    assert max(clock.pauses) <= 0.02


@requires.single_writer
def test_busy_file_is_asked_for_as_long_as_the_caller_says(make_runtime: MakeRuntime, engine: Engine) -> None:
    """Thousands of tries later the answer is still the timeout."""
    rt = make_runtime(seams=Seams(clock=JumpingClock()))
    rt.journal("a").add(entry="one")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(CallEnqueueTimeout):
            rt.journal("a").add.using(timeout=60)(entry="two")
        connection.rollback()
