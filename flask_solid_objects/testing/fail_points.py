"""Named steps of the runtime at which a test raises an error or holds a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flask_solid_objects.seams import Checkpoints, Seams

# How long a step is held when the test forgets to release it.
_LONGEST_HOLD = 30.0


class FailPoint:
    """A step that raises; ``reached`` counts how often it did."""

    def __init__(self, name: str, error: BaseException | type[BaseException], times: int) -> None:
        self.name = name
        self.reached = 0
        self._error, self._times = error, times

    def take(self, name: str) -> BaseException | None:
        """The error of this arrival, decided under the lock of all points."""
        if name != self.name or self.reached >= self._times:
            return None
        self.reached += 1
        return self._error() if isinstance(self._error, type) else self._error


class Held:
    """A step at which the first thread to arrive waits until it is released."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._taken, self._reached, self._released = False, threading.Event(), threading.Event()

    def wait_reached(self, timeout: float = 10.0) -> None:
        """Wait until somebody is held here.

        :raises AssertionError: nobody came in time.
        """
        if not self._reached.wait(timeout):
            raise AssertionError(f"Nobody reached {self.name!r} in {timeout} s.")

    def release(self) -> None:
        """Let go whoever is held, and hold nobody any more."""
        self._released.set()

    def take(self, name: str) -> bool:
        """Whether this arrival is held, decided under the lock of all points."""
        if name != self.name or self._taken or self._released.is_set():
            return False
        self._taken = True
        return True

    def wait_released(self) -> None:
        self._reached.set()
        if not self._released.wait(_LONGEST_HOLD):
            raise AssertionError(f"{self.name!r} was held for {_LONGEST_HOLD} s without a release().")


class FailPoints(Checkpoints):
    """Stands before the checkpoints that an application was made with, and obeys what its tests set."""

    def __init__(self, behind: Checkpoints) -> None:
        self._behind = behind
        self._lock = threading.Lock()
        self._points: list[FailPoint] = []
        self._holds: list[Held] = []
        self._raised: list[BaseException] = []

    @classmethod
    def of(cls, seams: Seams) -> FailPoints:
        """Those of an application, which are put in their place by its first test that needs them."""
        current = seams.checkpoints
        if not isinstance(current, FailPoints):
            current = seams.checkpoints = cls(current)
        return current

    def reach(self, name: str, **data: object) -> None:
        self._behind.reach(name, **data)
        with self._lock:
            held = [each for each in self._holds if each.take(name)]
            error = next((error for error in (point.take(name) for point in self._points) if error is not None), None)
            if error is not None:
                self._raised.append(error)
        for each in held:
            each.wait_released()
        if error is not None:
            raise error

    @contextmanager
    def fail(self, name: str, error: BaseException | type[BaseException], times: int) -> Iterator[FailPoint]:
        point = FailPoint(name, error, times)
        with self._lock:
            self._points.append(point)
        try:
            yield point
        finally:
            with self._lock:
                self._points.remove(point)
                if not self._points:
                    self._raised.clear()
        if not point.reached:
            raise AssertionError(f"Nothing reached the step {name!r}, so that it raised no error; is it written right?")

    @contextmanager
    def hold(self, name: str) -> Iterator[Held]:
        held = Held(name)
        with self._lock:
            self._holds.append(held)
        try:
            yield held
        finally:
            held.release()
            with self._lock:
                self._holds.remove(held)

    @property
    def raised(self) -> list[BaseException]:
        """The errors that came from fail points, and not from what is tested."""
        with self._lock:
            return list(self._raised)
