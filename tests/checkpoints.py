"""Checkpoints that a test takes hold of: wait until a step is reached, hold it there, or make it fail.

A race test reads: hold A at a step, let B finish, release A, look at the rows. Nothing here sleeps, and whatever
does not happen in time is an AssertionError that names the steps that were reached.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flask_solid_objects.seams import Checkpoints

Match: TypeAlias = Mapping[str, object] | Callable[[Mapping[str, object]], bool] | None

# How long a step is held when the test forgets to release it.
_LONGEST_HOLD = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """One arrival, in the order of all arrivals."""

    name: str
    data: Mapping[str, Any]
    thread: str


class Hold:
    """A step at which the first matching arrivals wait until they are released."""

    def __init__(self, owner: HeldCheckpoints, name: str, match: Match, times: int | None) -> None:
        self._owner = owner
        self._name, self._match, self._times = name, match, times
        self._reached, self._released = threading.Event(), threading.Event()
        self.arrivals: list[Reached] = []

    def wait_reached(self, timeout: float = 10.0) -> Reached:
        """Wait until somebody is held here, and return the first arrival."""
        if not self._reached.wait(timeout):
            raise AssertionError(f"Nobody reached {self._name} in {timeout} s. {self._owner.describe()}")
        return self.arrivals[0]

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()

    def release(self) -> None:
        """Let go whoever is held, and hold nobody any more."""
        self._released.set()

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def takes(self, arrival: Reached) -> bool:
        """Decide under the owner's lock whether this arrival is held."""
        if self._released.is_set() or arrival.name != self._name or not _matches(self._match, arrival.data):
            return False
        if self._times is not None and len(self.arrivals) >= self._times:
            return False
        self.arrivals.append(arrival)
        return True

    def wait_released(self) -> None:
        self._reached.set()
        if not self._released.wait(_LONGEST_HOLD):
            raise AssertionError(f"{self._name} was held for {_LONGEST_HOLD} s. {self._owner.describe()}")


@dataclass(slots=True)
class _Failure:
    name: str
    exception: BaseException | type[BaseException]
    times: int
    match: Match = field(default=None)


class HeldCheckpoints(Checkpoints):
    """Records every step that is reached, in every thread, and obeys the holds and failures that a test sets."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reached: list[Reached] = []
        self._holds: list[Hold] = []
        self._failures: list[_Failure] = []

    def reach(self, name: str, **data: object) -> None:
        arrival = Reached(name=name, data=data, thread=threading.current_thread().name)
        with self._changed:
            self._reached.append(arrival)
            holds = [hold for hold in self._holds if hold.takes(arrival)]
            failure = self._due_failure(arrival)
            self._changed.notify_all()
        for hold in holds:
            hold.wait_released()
        if failure is not None:
            raise failure

    def hold(self, name: str, match: Match = None, *, times: int | None = 1) -> Hold:
        """Hold the next arrivals at a step; by default one, so that those who follow pass.

        :param match: the data that an arrival must carry, or a function of its data.
        """
        hold = Hold(self, name, match, times)
        with self._changed:
            self._holds.append(hold)
        return hold

    def fail(
        self, name: str, exception: BaseException | type[BaseException], times: int = 1, match: Match = None
    ) -> None:
        """Raise at the next arrivals at a step, after any hold of it."""
        with self._changed:
            self._failures.append(_Failure(name, exception, times, match))

    def count(self, name: str, match: Match = None) -> int:
        with self._changed:
            return self._count(name, match)

    def wait_count(self, name: str, count: int = 1, match: Match = None, timeout: float = 10.0) -> None:
        """Wait until a step has been reached so many times, counted from the beginning or the last ``clear``."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: self._count(name, match) >= count, timeout)
        if not arrived:
            raise AssertionError(f"{name} was not reached {count} times in {timeout} s. {self.describe()}")

    @property
    def order(self) -> list[str]:
        """The names of all steps in the order in which they were reached."""
        return [arrival.name for arrival in self.reached]

    @property
    def reached(self) -> list[Reached]:
        with self._changed:
            return list(self._reached)

    def clear(self) -> None:
        """Forget what was reached; holds and failures stay."""
        with self._changed:
            self._reached.clear()

    def release_all(self) -> None:
        """Let everybody go and take all failures back; called when the test is over."""
        with self._changed:
            holds, self._holds, self._failures = self._holds, [], []
        for hold in holds:
            hold.release()

    def describe(self) -> str:
        steps = [f"{arrival.thread}: {arrival.name}" for arrival in self.reached[-40:]]
        return "Reached last: " + ("; ".join(steps) or "nothing") + "."

    def _count(self, name: str, match: Match) -> int:
        return sum(arrival.name == name and _matches(match, arrival.data) for arrival in self._reached)

    def _due_failure(self, arrival: Reached) -> BaseException | type[BaseException] | None:
        for failure in self._failures:
            if failure.times > 0 and failure.name == arrival.name and _matches(failure.match, arrival.data):
                failure.times -= 1
                return failure.exception
        return None


def _matches(match: Match, data: Mapping[str, object]) -> bool:
    if match is None:
        return True
    if callable(match):
        return bool(match(data))
    return all(name in data and data[name] == value for name, value in match.items())
