"""The numbers of the charts: what ended when, past stretches read once, late commits not lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from flask_solid_objects.store.overview import Done
from flask_solid_objects.web.dashboard.charts import HEIGHT, Throughput
from tests.web.dashboard.site import Browser, DashboardSite

_NOW = datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)


class Ended:
    """Messages by the time of their end, and the stretches that were asked for."""

    def __init__(self) -> None:
        self.completed: list[datetime] = []
        self.rejected: list[datetime] = []
        self.died: list[datetime] = []
        self.asked: list[int] = []

    def read(self, now: datetime) -> Callable[[Callable[[datetime], list[datetime]]], list[Done]]:
        def done(make: Callable[[datetime], list[datetime]]) -> list[Done]:
            edges = make(now)
            self.asked.append(len(edges) - 1)
            return [
                Done(
                    since=since,
                    completed=sum(since <= at < until for at in self.completed + self.rejected),
                    rejected=sum(since <= at < until for at in self.rejected),
                    died=sum(since <= at < until for at in self.died),
                )
                for since, until in itertools.pairwise(edges)
            ]

        return done


@pytest.fixture
def ended() -> Ended:
    return Ended()


@pytest.fixture
def minutes() -> Throughput:
    return Throughput("Last hour", _MINUTE, 60)


def test_stretches(ended: Ended, minutes: Throughput) -> None:
    """There are always as many bars, the youngest holds now, and each end counts in its own."""
    ended.completed = [_NOW, _NOW - 59 * _MINUTE, _NOW - 61 * _MINUTE]
    ended.died = [_NOW - 2 * _MINUTE]
    chart = minutes.chart(ended.read(_NOW))

    assert [bar.x for bar in chart.bars] == list(range(60))
    assert (chart.completed, chart.died, chart.greatest) == (2, 1, 1)
    assert [bar.x for bar in chart.bars if bar.completed] == [0, 59]
    assert [bar.x for bar in chart.bars if bar.died] == [57]
    assert chart.bars[-1].title == "12:00 UTC: 1 completed, 0 rejected, 0 dead"


def test_past_stretches_are_read_once(ended: Ended, minutes: Throughput) -> None:
    """What is over for a minute is not read again, and keeps its number though its rows are pruned."""
    ended.completed = [_NOW - 30 * _MINUTE]
    minutes.chart(ended.read(_NOW))
    ended.completed = []
    again = minutes.chart(ended.read(_NOW + _MINUTE))

    assert (ended.asked, again.completed) == ([60, 3], 1)
    assert minutes.chart(ended.read(_NOW + _MINUTE)).completed == 1
    assert minutes.chart(ended.read(_NOW + 31 * _MINUTE)).completed == 0


def test_late_commits(ended: Ended, minutes: Throughput) -> None:
    """A turn whose end is written before its commit shows it is counted, when it shows within a minute."""
    minutes.chart(ended.read(_NOW))
    ended.completed = [_NOW - timedelta(seconds=31)]
    seen = minutes.chart(ended.read(_NOW + timedelta(seconds=29)))

    assert seen.completed == 1
    assert minutes.chart(ended.read(_NOW + 5 * _MINUTE)).completed == 1


def test_after_a_long_time(ended: Ended, minutes: Throughput) -> None:
    """After longer than the chart shows everything is read anew, and the old numbers are forgotten."""
    ended.completed = [_NOW, _NOW + 600 * _MINUTE]
    minutes.chart(ended.read(_NOW))
    later = minutes.chart(ended.read(_NOW + 600 * _MINUTE))

    assert (ended.asked, later.completed, len(later.bars)) == ([60, 60], 1, 60)
    assert len(minutes._known) < 60


def test_a_clock_that_goes_back(ended: Ended, minutes: Throughput) -> None:
    """After a switch to a server whose clock is behind, the bars are those of its time."""
    ended.completed = [_NOW - 5 * _MINUTE]
    minutes.chart(ended.read(_NOW))
    back = minutes.chart(ended.read(_NOW - 3 * _MINUTE))

    assert (len(back.bars), back.completed) == (60, 1)
    assert back.bars[-1].done.since == datetime(2026, 5, 4, 11, 57, tzinfo=UTC)


def test_heights(ended: Ended, minutes: Throughput) -> None:
    """The highest bar is as high as the chart; rejected and dead ones stand on the completed ones."""
    ended.completed = [_NOW] * 2
    ended.rejected = [_NOW]
    ended.died = [_NOW]
    ended.completed += [_NOW - _MINUTE] * 2
    bar, half = minutes.chart(ended.read(_NOW)).bars[-1], minutes.chart(ended.read(_NOW)).bars[-2]

    assert bar.completed + bar.rejected + bar.died == HEIGHT
    assert (bar.completed, half.completed, half.rejected) == (HEIGHT / 2, HEIGHT / 2, 0)


def test_of_the_tables(site: DashboardSite, browser: Browser) -> None:
    """The page counts what the database says: a rejected message is no completed one, and a dead one is neither."""
    account = site.Account.ref("a")
    account.pay(cents=1)
    account.pay(cents=1)
    account.refuse.send()
    account.fail.send(text="x")
    site.drain()
    labels = [given["aria-label"] for tag, given in browser.open("/").elements if given.get("role") == "img"]

    assert labels == [f"{name}: 2 completed, 1 rejected, 1 dead" for name in ("Last hour", "Last day")]
