"""A small app for commands that run as real processes; ``SMALL_APP_URL`` is its database."""

from __future__ import annotations

import os
import threading

from flask import Flask

from flask_solid_objects import Actor, SolidObjects, operation

app = Flask(__name__)
app.config.update(
    SQLALCHEMY_DATABASE_URI=os.environ["SMALL_APP_URL"],
    SOLID_OBJECTS_SHUTDOWN_TIMEOUT=5.0,
    SOLID_OBJECTS_SUPERVISOR_MONITOR_INTERVAL=0.05,
)
solid = SolidObjects(app)


@solid.actor
class Counter(Actor):
    value: int = 0

    @operation
    def increment(self) -> int:
        self.value += 1
        print(f"ran as {os.getpid()}", flush=True)
        return self.value

    @operation
    def hang(self) -> None:
        print("hangs", flush=True)
        threading.Event().wait(60)


@app.get("/")
def index() -> str:
    return str(Counter.ref("a").increment())
