"""What a process does that dies or stalls at a named step; ``crashing`` starts it in a role.

The roles: ``caller`` calls an operation, ``worker`` drains, ``quitter`` drains and is interrupted in its first turn,
``recoverer`` takes expired leases over, ``cleaner`` frees what the dead held; these die at the step. ``sleeper`` drains
and is stopped there until it gets CONT; ``hanger`` works under a supervisor, and its turn never goes past the step.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

import sqlalchemy

from flask_solid_objects.cli.work import stop_on_signals
from flask_solid_objects.runtime.runtime import RoleCounts
from flask_solid_objects.seams import Checkpoints, Seams
from tests.actors import RuntimeUnderTest

LEASE = 1.0
RENEWAL = 0.3


class DeadlyCheckpoints(Checkpoints):
    """Ends this process without any farewell when it first reaches a step."""

    def __init__(self, step: str, told: Connection) -> None:
        self.step, self._told = step, told
        self._is_over = False

    def reach(self, name: str, **data: object) -> None:
        if name == self.step and not self._is_over:
            self._is_over = True
            self._told.send(f"is at {name}")
            self.end()

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class QuittingCheckpoints(DeadlyCheckpoints):
    """Interrupts the first turn as Ctrl-C does, and dies at a step of what follows."""

    def reach(self, name: str, **data: object) -> None:
        if name == "turn.claimed":
            raise KeyboardInterrupt
        super().reach(name, **data)


class StoppingCheckpoints(DeadlyCheckpoints):
    """Stops all threads of this process, also those that renew leases, until somebody lets it continue."""

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)


class HangingCheckpoints(DeadlyCheckpoints):
    """Keeps the thread for longer than any test lasts; other threads go on."""

    def end(self) -> None:
        threading.Event().wait(300)


_CHECKPOINTS = {"quitter": QuittingCheckpoints, "sleeper": StoppingCheckpoints, "hanger": HangingCheckpoints}


def main(told: Connection, url: str, role: str, step: str, operation: str) -> None:
    """Act in a role, and tell what happened by short texts."""
    logging.disable()
    runtime = RuntimeUnderTest(
        sqlalchemy.make_url(url),
        seams=Seams(checkpoints=_CHECKPOINTS.get(role, DeadlyCheckpoints)(step, told)),
        lease_duration=LEASE,
        lease_renewal_interval=RENEWAL,
        shutdown_timeout=0.2,
    )
    try:
        act(runtime, role, operation)
        runtime.close()
    except BaseException:
        told.send(traceback.format_exc())
        raise
    told.send("survived")


def act(rt: RuntimeUnderTest, role: str, operation: str) -> None:
    if role == "caller":
        verb: Any = getattr(rt.journal("a"), operation)
        verb(entry="crash")
    elif role == "recoverer":
        rt.recover()
    elif role == "cleaner":
        rt.runtime.operators.clean_up()
    elif role == "hanger":
        supervisor = rt.runtime.supervisor(RoleCounts(workers=1, effects=0, reminders=0, broadcasts=0))
        stop_on_signals(supervisor.stop)
        supervisor.run()
    else:
        rt.drain()
