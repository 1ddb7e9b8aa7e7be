"""Bars of what was done in the last hour and day: geometry for an SVG that the server draws, no library, no script.

A stretch of time that is over does not change any more, so its numbers are kept in the process and only the youngest
are read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from flask_solid_objects.store.overview import Done
from flask_solid_objects.store.windows import MOST_COUNTED

# A turn writes its end before its commit shows it, so numbers are final only so long after a stretch.
_SETTLED = timedelta(seconds=60)
HEIGHT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One stretch: heights from 0 to :data:`HEIGHT`, stacked from below."""

    x: int
    done: Done
    completed: float
    rejected: float
    died: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Bars of equal width, with the greatest number of a stretch and the sum of all."""

    title: str
    step: timedelta
    bars: list[Bar]
    greatest: int
    completed: int
    rejected: int
    died: int
    is_capped: bool


class Throughput:
    """The numbers of past stretches of one application in this process."""

    def __init__(self, title: str, step: timedelta, count: int) -> None:
        self._title, self._step, self._count = title, step, count
        self._known: dict[datetime, Done] = {}
        self._lock = threading.Lock()

    def chart(self, read: Callable[[Callable[[datetime], list[datetime]]], list[Done]]) -> Chart:
        """Bars up to now.

        :param read: counts between the edges that a function makes from the database's time.
        """
        first: list[datetime] = []

        def edges(now: datetime) -> list[datetime]:
            last = self._floor(now) + self._step
            stretches = [last - self._step * n for n in range(self._count, 0, -1)]
            first[:] = stretches[:1]
            with self._lock:
                for known in [each for each in self._known if each < stretches[0]]:
                    del self._known[known]
                missing = next((each for each in stretches if each not in self._known), stretches[-1])
            settled.append(now - _SETTLED)
            return [each for each in stretches if each >= missing] + [last]

        settled: list[datetime] = []
        fresh = read(edges)
        with self._lock:
            for done in fresh:
                if done.since + self._step <= settled[-1]:
                    self._known[done.since] = done
            kept = [each for each in self._known.values() if not fresh or each.since < fresh[0].since]
        return self._drawn(sorted([*kept, *fresh], key=lambda done: done.since))

    def _floor(self, now: datetime) -> datetime:
        seconds = int(self._step.total_seconds())
        return datetime.fromtimestamp(int(now.timestamp()) // seconds * seconds, UTC)

    def _drawn(self, stretches: Sequence[Done]) -> Chart:
        # A rejected message counts among the completed in the rows.
        completed = [max(0, each.completed - each.rejected) for each in stretches]
        totals = [ok + each.rejected + each.died for ok, each in zip(completed, stretches, strict=True)]
        greatest = max(totals, default=0)
        scale = HEIGHT / greatest if greatest else 0.0
        bars = [
            Bar(
                x=n,
                done=each,
                completed=ok * scale,
                rejected=each.rejected * scale,
                died=each.died * scale,
                title=f"{each.since:%H:%M} UTC: {ok} completed, {each.rejected} rejected, {each.died} dead",
            )
            for n, (each, ok) in enumerate(zip(stretches, completed, strict=True))
        ]
        return Chart(
            title=self._title,
            step=self._step,
            bars=bars,
            greatest=greatest,
            completed=sum(completed),
            rejected=sum(each.rejected for each in stretches),
            died=sum(each.died for each in stretches),
            is_capped=any(each.completed > MOST_COUNTED for each in stretches),
        )
