"""A process that dies at a named step: ``child.py URL caller|worker STEP``; it is started by the crash tests."""

from __future__ import annotations

import os
import signal
import sys

import sqlalchemy

from flask_solid_objects.seams import Checkpoints, Seams
from tests.actors import RuntimeUnderTest


class DeadlyCheckpoints(Checkpoints):
    """Ends this process without any farewell when it reaches a step."""

    def __init__(self, step: str) -> None:
        self.step = step

    def reach(self, name: str, **data: object) -> None:
        if name == self.step:
            print(f"dies at {name}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)


def main(url: str, role: str, step: str, operation: str) -> None:
    runtime = RuntimeUnderTest(
        sqlalchemy.make_url(url),
        seams=Seams(checkpoints=DeadlyCheckpoints(step)),
        lease_duration=1.0,
        lease_renewal_interval=0.3,
        max_attempts=int(os.environ.get("MAX_ATTEMPTS", "5")),
    )
    journal = runtime.journal("a")
    if role == "caller":
        verb = getattr(journal, operation)
        print("result", verb(entry="crash"), flush=True)
    else:
        runtime.drain()
    runtime.close()
    print("survived", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:5])
