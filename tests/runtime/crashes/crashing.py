"""Start a process that dies at a step, and bring what it left behind to its end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from sqlalchemy import URL

from tests.actors import RuntimeUnderTest
from tests.processes import KILLED, wait_until
from tests.runtime.crashes import child

# Forked from a process that has imported everything and has no thread: 20 ms, against 600 ms for a new interpreter.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([child.__name__])


class Doomed:
    """A process that is on its way to a step; see ``child`` for the roles, or whatever else ``main`` knows."""

    def __init__(
        self, url: URL, role: str, step: str, operation: str = "add", *, main: Callable[..., None] = child.main
    ) -> None:
        self._told, telling = _CONTEXT.Pipe(duplex=False)
        arguments = (telling, url.render_as_string(hide_password=False), role, step, operation)
        self._process = _CONTEXT.Process(target=main, args=arguments)
        self._process.start()
        telling.close()

    def expect(self, text: str, timeout: float = 20.0) -> None:
        """Wait until the process tells this, and nothing else."""
        assert self._told.poll(timeout), f"Nothing within {timeout} s; waiting for {text!r}"
        try:
            told: str = self._told.recv()
        except EOFError:
            told = f"nothing, and ended with {self.wait()}"
        assert told == text

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def wait(self, timeout: float = 20.0) -> int | None:
        """Wait for the end, and return the exit code."""
        self._process.join(timeout)
        return self._process.exitcode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        if self._process.is_alive():
            self.signal(signal.SIGKILL)
        self.wait()
        self._process.close()
        self._told.close()


def crash(url: URL, role: str, step: str, operation: str = "add", *, main: Callable[..., None] = child.main) -> None:
    """Run a process until it is killed at a step."""
    with Doomed(url, role, step, operation, main=main) as doomed:
        doomed.expect(f"is at {step}")

        assert doomed.wait() == KILLED


def recover(rt: RuntimeUnderTest, expected: list[str]) -> float:
    """Work until the actor's entries are these; how long it took in seconds."""
    started = time.monotonic()
    worker = rt.runtime.worker()

    def settled() -> bool:
        worker.run_once()
        return bool(rt.journal("a").snapshot().entries == expected)

    wait_until(settled, f"{expected} in the journal")
    assert rt.journal("a").snapshot().total == len(expected)
    return time.monotonic() - started
