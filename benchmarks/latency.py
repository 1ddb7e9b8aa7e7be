"""How long a message that one process sends takes to start in another, while the machine is idle."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import MetaData

from benchmarks.subject import Subject
from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.runtime.runtime import RoleCounts, Runtime
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.sessions import SessionOutbox
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import build_tables

ROUNDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """From the return of ``send()`` in one process to the start of the operation in another; milliseconds."""

    adapter: str
    p50_ms: float
    p95_ms: float
    worst_ms: float


class Watch(Actor):
    """Notes when it ran, by the clock that all processes of a machine share."""

    ran_at: float = 0.0

    @operation
    def look(self) -> None:
        self.ran_at = time.time()


def make_runtime(url: sqlalchemy.URL, redis_url: str | None) -> tuple[Runtime, Registry]:
    settings = replace(Settings(), table_prefix=Subject.prefix, redis_url=redis_url)
    database = Database(url, settings=settings)
    registry = Registry(make_reference=make_reference)
    registry.register(type("Watch", (Watch,), {"__module__": __name__}))
    store = Store(build_tables(MetaData(), Subject.prefix), database.dialect, settings)
    events = Events(adapter=database.dialect.name)
    core = Core(database=database, store=store, settings=settings, registry=registry, events=events)
    runtime = Runtime(core, SessionOutbox())
    registry.current_runtime = lambda: runtime
    return runtime, registry


def measure(url: sqlalchemy.URL, redis_url: str | None = None) -> Latency:
    """Start a worker process, let it become idle, and send it one message after another."""
    subject = Subject(url)
    text = url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "benchmarks.latency", text, redis_url or ""]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    runtime, registry = make_runtime(url, redis_url)
    try:
        assert worker.stdout is not None
        worker.stdout.readline()
        actor = make_reference(registry, registry.get("Watch"), "a")
        took = [_one(actor) for _ in range(ROUNDS)][3:]
        took.sort()
        return Latency(
            adapter=runtime.wake_ups.capability.adapter,
            p50_ms=round(took[len(took) // 2], 2),
            p95_ms=round(took[int(len(took) * 0.95)], 2),
            worst_ms=round(took[-1], 2),
        )
    finally:
        worker.communicate("stop\n", timeout=30)
        runtime.close()
        subject.close()


def _one(actor: Any) -> float:
    """Wait until the worker has backed off to its idle interval, then send."""
    pause = threading.Event()
    pause.wait(0.8)
    message = actor.look.send()
    sent_at = time.time()
    while message.status().value != "completed":
        pause.wait(0.002)
    ran_at: float = actor.snapshot().ran_at
    return max(0.0, (ran_at - sent_at) * 1000)


def work(url: str, redis_url: str) -> None:
    """The other process: one worker until a line comes in."""
    runtime, _ = make_runtime(sqlalchemy.make_url(url), redis_url or None)
    supervisor = runtime.supervisor(RoleCounts(workers=1, effects=0, reminders=0, broadcasts=0))
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    runtime.wake_ups.wait_probed(5)
    print("ready", flush=True)
    sys.stdin.readline()
    supervisor.stop()
    thread.join()
    runtime.close()


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2])
