"""``python -m benchmarks.live``: how soon a page shows a commit, what a socket costs, and how long telling many takes.

The page is in a real Chromium (set ``CHROMIUM`` if it is not /usr/bin/chromium). Each part takes less than a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil  # type: ignore[import-untyped]
import sqlalchemy

from benchmarks.live_clients import Listening, Socket, appeared_at, browser_page, subscription
from benchmarks.scratch import scratch
from flask_solid_objects.store.schema import upgrade

_REDIS = "redis://127.0.0.1:6379"
_GUNICORN = {
    "gthread": ["-k", "gthread", "--threads", "1100", "--worker-connections", "1200"],
    "gevent": ["-k", "gevent", "--worker-connections", "1200"],
}
# Where the change is committed, and how the processes learn of it.
_WAYS = [
    ("sqlite", "the web process", None),
    ("sqlite", "another process", None),
    ("postgresql", "another process", None),
    ("mysql", "another process, polling", None),
    ("mysql", "another process, Redis", _REDIS),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=["latency", "sockets", "fanout"])
    parser.add_argument("--rounds", type=int, default=100, help="changes of each measurement of latency")
    parser.add_argument("--sockets", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    parts = arguments.part or ["latency", "sockets", "fanout"]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    report: dict[str, list[dict[str, Any]]] = {part: [] for part in parts}
    with tempfile.TemporaryDirectory() as directory:
        if "latency" in parts:
            report["latency"] = [latency(*way, arguments.rounds, Path(directory)) for way in _WAYS]
        if "sockets" in parts:
            for worker in _GUNICORN:
                report["sockets"] += memory(worker, arguments.sockets, Path(directory))
        if "fanout" in parts:
            for worker in _GUNICORN:
                report["fanout"] += fan_out(worker, arguments.sockets, Path(directory))
    if arguments.json:
        print(json.dumps(report, indent=2))
        return 0
    for part, rows in report.items():
        print(f"\n{part}: " + ", ".join(rows[0]))
        for row in rows:
            print("  " + "  ".join(str(value) for value in row.values()))
    return 0


def latency(database: str, where: str, redis: str | None, rounds: int, directory: Path) -> dict[str, Any]:
    """From the return of the call to the frame in a socket and to the change of the document; milliseconds."""
    frames, shown = [], []
    with scratch(database, _new(directory / f"{database} {where}")) as url:
        environment = prepared(url, redis)
        with (
            served([sys.executable, "-m", "benchmarks.live_site"], environment) as (port, _),
            committer(environment, port, where) as commit,
        ):
            commit(0)
            watching = Socket(port, subscription(port))
            with browser_page(port) as page:
                time.sleep(1)
                for number in range(1, rounds + 1):
                    listening = Listening([watching])
                    committed = commit(number)
                    shown.append((appeared_at(page, number) - committed) * 1000)
                    frames.append((listening.times()[0] - committed) * 1000)
                    time.sleep(random.uniform(0.02, 0.15))
            watching.close()
    return {
        "database": database,
        "committed in": where,
        "frame p50": _p(frames, 50),
        "frame p99": _p(frames, 99),
        "shown p50": _p(shown, 50),
        "shown p99": _p(shown, 99),
    }


def memory(worker: str, most: int, directory: Path) -> list[dict[str, Any]]:
    """What the process of the server takes for each idle socket, in kB of its own memory."""
    rows = []
    with (
        scratch("sqlite", _new(directory / f"memory {worker}")) as url,
        gunicorn(worker, prepared(url, None)) as (port, pid),
    ):
        item, sockets = subscription(port), [Socket(port, subscription(port))]
        before = _own_memory(pid)
        for count in sorted({min(200, most), most}):
            sockets += [Socket(port, item) for _ in range(count - len(sockets) + 1)]
            time.sleep(2)
            used = (_own_memory(pid) - before) / count
            rows.append({"worker": worker, "sockets": count, "kB per socket": round(used / 1024, 1)})
        for each in sockets:
            each.close()
    return rows


def fan_out(worker: str, most: int, directory: Path) -> list[dict[str, Any]]:
    """From the return of the call to the first, the middle and the last of the sockets: milliseconds, medians of 5."""
    rows = []
    with (
        scratch("sqlite", _new(directory / f"fanout {worker}")) as url,
        gunicorn(worker, prepared(url, None)) as (port, _),
    ):
        sockets: list[Socket] = []
        with committer({}, port, "the web process") as commit:
            commit(0)
            number = 0
            for count in sorted({1, min(100, most), most}):
                item = subscription(port)
                sockets += [Socket(port, item) for _ in range(count - len(sockets))]
                found: list[list[float]] = []
                for _ in range(5):
                    number += 1
                    listening = Listening(sockets)
                    time.sleep(0.5)
                    committed, got = commit(number), listening.times()
                    found.append([(each - committed) * 1000 for each in (got[0], got[len(got) // 2], got[-1])])
                first, middle, last = (round(statistics.median(each), 1) for each in zip(*found, strict=True))
                rows.append({"worker": worker, "watchers": count, "first": first, "middle": middle, "last": last})
        for each in sockets:
            each.close()
    return rows


# -- processes ---------------------------------------------------------------------------------


def prepared(url: sqlalchemy.URL, redis: str | None) -> dict[str, str]:
    """The tables, and the environment of a process that uses them."""
    engine = sqlalchemy.create_engine(url)
    upgrade(engine)
    engine.dispose()
    environment = {**os.environ, "DATABASE_URL": url.render_as_string(hide_password=False)}
    return environment if redis is None else environment | {"SOLID_OBJECTS_REDIS_URL": redis}


@contextmanager
def served(command: list[str], environment: dict[str, str], *, port_last: bool = True) -> Iterator[tuple[int, int]]:
    """A server on a free port of this machine; its port and process."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = int(found.getsockname()[1])
    full = [*command, str(port)] if port_last else [each.format(port=port) for each in command]
    with subprocess.Popen(full, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(20)


@contextmanager
def gunicorn(worker: str, environment: dict[str, str]) -> Iterator[tuple[int, int]]:
    """gunicorn with one worker; its port, and the process of the worker."""
    place = ["-b", "127.0.0.1:{port}", "-w", "1", "benchmarks.live_site:make_app()"]
    command = [sys.executable, "-m", "gunicorn", *_GUNICORN[worker], *place]
    with served(command, environment, port_last=False) as (port, pid):
        yield port, psutil.Process(pid).children()[0].pid


@contextmanager
def committer(environment: dict[str, str], port: int, where: str) -> Iterator[Any]:
    """A function that commits a number, and says when that was done."""
    if where == "the web process":
        yield lambda number: _post(port, number)
        return
    with served([sys.executable, "-m", "benchmarks.live_site"], environment) as (other, _):
        yield lambda number: _post(other, number)


def _new(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _post(port: int, number: int) -> float:
    with urlopen(Request(f"http://127.0.0.1:{port}/set/{number}", method="POST"), timeout=30) as answer:
        return float(answer.read())


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            with urlopen(f"http://127.0.0.1:{port}/") as answer:
                answer.read()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _own_memory(pid: int) -> int:
    return int(psutil.Process(pid).memory_full_info().uss)


def _p(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return round(ordered[max(0, -(-len(ordered) * percent // 100) - 1)], 1)


if __name__ == "__main__":
    sys.exit(main())
