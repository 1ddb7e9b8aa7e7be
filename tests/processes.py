"""Real processes for tests: started, waited for by what they print, and ended by their id."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[1]


class Child:
    """A process whose lines are read as they come."""

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def expect(self, text: str, timeout: float = 20.0) -> str:
        """Wait for a line that holds a text."""
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0:
            try:
                line = self._queue.get(timeout=remaining)
            except queue.Empty:
                break
            if line is None:
                raise AssertionError(f"The process ended before it printed {text!r}:\n" + "\n".join(self.lines))
            if text in line:
                return line
        raise AssertionError(f"No {text!r} within {timeout} s:\n" + "\n".join(self.lines))

    def wait(self, timeout: float = 20.0) -> int:
        """Wait for the end, and return the exit code."""
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: no handler, no farewell."""
        self.process.kill()
        self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        # The whole group: a child of the child would hold the pipe open for ever.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            self._queue.put(self.lines[-1])
        self._queue.put(None)


def wait_until(holds: Callable[[], bool], what: str, timeout: float = 20.0) -> None:
    """Look again and again until something holds, for what no event tells about."""
    deadline, pause = time.monotonic() + timeout, threading.Event()
    while not holds():
        if time.monotonic() >= deadline:
            raise AssertionError(f"Not within {timeout} s: {what}")
        pause.wait(0.01)


TERM = signal.SIGTERM
KILLED = -signal.SIGKILL
