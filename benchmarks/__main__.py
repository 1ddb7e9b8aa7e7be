"""``python -m benchmarks``: every scenario on every database that is there, next to its bare twin in the same run."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import sqlalchemy

from benchmarks.latency import Latency, measure
from benchmarks.scenarios import (
    Result,
    call_cold,
    call_contended,
    call_hot,
    call_many,
    drain,
    send_one,
    snapshot,
)
from benchmarks.subject import Subject

DEFAULTS = {
    "postgresql": "postgresql+psycopg://postgres@127.0.0.1:5432/postgres",
    "mysql": "mysql+pymysql://root@127.0.0.1:3306/test",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", action="append", choices=["sqlite", "postgresql", "mysql"])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement")
    parser.add_argument("--messages", type=int, default=1000, help="messages of each drain")
    parser.add_argument("--latency", action="store_true", help="measure the wake-up of another process too")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.database or ["sqlite", "postgresql", "mysql"]:
            url = place(name, Path(directory))
            results = run(url, arguments.seconds, arguments.messages)
            latencies = measure_latencies(url) if arguments.latency else []
            report[name] = {
                "scenarios": [asdict(each) | {"ratio": round(each.ratio, 3)} for each in results],
                "latency": [asdict(each) for each in latencies],
            }
            if not arguments.json:
                show(name, results, latencies)
    if arguments.json:
        print(json.dumps(report, indent=2))
    return 0


def place(name: str, directory: Path) -> sqlalchemy.URL:
    """Where to measure: the test URL of the environment, or the local server, or a new file."""
    if name == "sqlite":
        return sqlalchemy.URL.create("sqlite", database=str(directory / "bench.sqlite3"))
    return sqlalchemy.make_url(os.environ.get(f"SOLID_TEST_{name.upper()}_URL", DEFAULTS[name]))


def run(url: sqlalchemy.URL, seconds: float, messages: int) -> list[Result]:
    subject = Subject(url)
    scenarios: list[Callable[[], Result]] = [
        lambda: call_hot(subject, url, seconds),
        lambda: call_cold(subject, url, seconds),
        lambda: call_many(subject, url, seconds),
        lambda: call_contended(subject, url, seconds),
        lambda: send_one(subject, url, seconds),
        lambda: drain(subject, url, actors=1, messages=messages),
        lambda: drain(subject, url, actors=100, messages=messages),
        lambda: snapshot(subject, url, seconds),
    ]
    try:
        results = []
        for number, scenario in enumerate(scenarios, 1):
            print(f"\r{url.get_backend_name()} {number}/{len(scenarios)}", end="", file=sys.stderr, flush=True)
            results.append(scenario())
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
        return results
    finally:
        subject.close()


def measure_latencies(url: sqlalchemy.URL) -> list[Latency]:
    found = [measure(url)]
    redis_url = os.environ.get("SOLID_OBJECTS_REDIS_URL", "redis://127.0.0.1:6379")
    if url.get_backend_name() == "mysql":
        found.append(measure(url, redis_url))
    return found


def show(name: str, results: list[Result], latencies: list[Latency]) -> None:
    print(f"\n{name:34} {'ours/s':>9} {'bare/s':>9} {'ratio':>7} {'p50 ms':>8}")
    for each in results:
        print(f"{each.scenario:34} {each.ours:9.0f} {each.bare:9.0f} {each.ratio:7.2f} {each.p50_ms:8.2f}")
    for latency in latencies:
        print(f"another process by {latency.adapter}: p50 {latency.p50_ms} ms, p95 {latency.p95_ms} ms")


if __name__ == "__main__":
    sys.exit(main())
