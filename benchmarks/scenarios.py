"""The scenarios: each runs for a while through the runtime, and its twin on the bare driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy

from benchmarks.bare import Bare
from benchmarks.subject import Subject

THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Operations per second of both, and what one of ours took in milliseconds at the median."""

    scenario: str
    ours: float
    bare: float
    p50_ms: float

    @property
    def ratio(self) -> float:
        return self.ours / self.bare if self.bare else 0.0


def call_hot(subject: Subject, url: sqlalchemy.URL, seconds: float) -> Result:
    """One caller, one actor, sequentially."""
    counter = subject.counter("hot")
    counter.increment()
    ours, p50 = timed(lambda _: counter.increment(), seconds)
    return Result(scenario="call, one hot actor", ours=ours, bare=bare_rate(url, 1, Bare.call, seconds), p50_ms=p50)


def call_cold(subject: Subject, url: sqlalchemy.URL, seconds: float) -> Result:
    """The first call of an actor that is made by it."""
    mark = time.monotonic_ns()
    ours, p50 = timed(lambda number: subject.counter(f"cold-{mark}-{number}").increment(), seconds)
    return Result(scenario="call, cold actors", ours=ours, bare=bare_rate(url, 1, Bare.call, seconds), p50_ms=p50)


def call_many(subject: Subject, url: sqlalchemy.URL, seconds: float) -> Result:
    """Sixteen callers on a hundred actors; the twin is one sequential driver connection."""
    counters = [subject.counter(f"many-{number}") for number in range(100)]
    for counter in counters:
        counter.increment()
    ours, p50 = timed_threads(lambda number: counters[number % 100].increment(), seconds)
    return Result(
        scenario=f"call, 100 actors, {THREADS} callers",
        ours=ours,
        bare=bare_rate(url, 100, Bare.call, seconds),
        p50_ms=p50,
    )


def call_contended(subject: Subject, url: sqlalchemy.URL, seconds: float) -> Result:
    """Sixteen callers on one actor."""
    counter = subject.counter("contended")
    counter.increment()
    ours, p50 = timed_threads(lambda _: counter.increment.using(timeout=60)(), seconds)
    return Result(
        scenario=f"call, one hot actor, {THREADS} callers",
        ours=ours,
        bare=bare_rate(url, 1, Bare.call, seconds),
        p50_ms=p50,
    )


def send_one(subject: Subject, url: sqlalchemy.URL, seconds: float) -> Result:
    """One sender; the mailbox is emptied before and after."""
    counter = subject.counter("sent")
    ours, p50 = timed(lambda _: counter.increment.send(), seconds, most=9_000)
    subject.drain()
    return Result(scenario="send, one sender", ours=ours, bare=bare_rate(url, 20, Bare.send, seconds), p50_ms=p50)


def drain(subject: Subject, url: sqlalchemy.URL, *, actors: int, messages: int) -> Result:
    """One worker empties what was sent; the twin takes one message per transaction too."""
    counters = [subject.counter(f"drain-{actors}-{number}") for number in range(actors)]
    for number in range(messages):
        counters[number % actors].increment.send()
    started = time.perf_counter()
    subject.drain()
    ours = messages / (time.perf_counter() - started)
    bare = Bare.connect(url, subject.prefix, actors)
    try:
        for number in range(messages):
            bare.send(number)
        ready = bare.ready()
        started = time.perf_counter()
        for message_id, instance_id in ready:
            bare.drain(message_id, instance_id)
        limit = len(ready) / (time.perf_counter() - started)
    finally:
        bare.close()
    return Result(scenario=f"drain, {actors} actors, one worker", ours=ours, bare=limit, p50_ms=1000 / ours)


def snapshot(subject: Subject, url: sqlalchemy.URL, seconds: float) -> Result:
    """Committed state without a message; the twin is one SELECT."""
    counter = subject.counter("seen")
    counter.increment()
    ours, p50 = timed(lambda _: counter.snapshot().value, seconds)
    return Result(scenario="snapshot", ours=ours, bare=bare_rate(url, 1, Bare.read, seconds), p50_ms=p50)


def timed(act: Callable[[int], object], seconds: float, most: int = 1_000_000) -> tuple[float, float]:
    """Repeat for a while: the rate, and the median in milliseconds."""
    took: list[float] = []
    started = now = time.perf_counter()
    while now - started < seconds and len(took) < most:
        act(len(took))
        after = time.perf_counter()
        took.append(after - now)
        now = after
    return len(took) / (now - started), 1000 * sorted(took)[len(took) // 2]


def timed_threads(act: Callable[[int], object], seconds: float) -> tuple[float, float]:
    """The same from sixteen threads at once."""
    results: list[tuple[float, float]] = []

    def run(first: int) -> None:
        results.append(timed(lambda number: act(first + number * THREADS), seconds))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    medians = sorted(median for _, median in results)
    return sum(rate for rate, _ in results), medians[len(medians) // 2]


def bare_rate(url: sqlalchemy.URL, actors: int, act: Callable[[Bare, int], object], seconds: float) -> float:
    bare = Bare.connect(url, Subject.prefix, actors)
    try:
        rate, _ = timed(lambda number: act(bare, number), seconds)
    finally:
        bare.close()
    return rate
