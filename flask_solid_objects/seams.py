"""The two things a test may take hold of: the clock of this process, and named steps of the runtime.

Production uses the defaults, which cost one attribute look-up and an empty call. Leases, due times and
retries never use this clock; they use the database's.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field


class Clock:
    """Monotonic time and interruptible waiting of this process; seconds."""

    def monotonic(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Wait before an immediate repetition, such as after a deadlock."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for an event or a time, whichever is first; True when the event is set."""
        return event.wait(seconds)

    def jitter(self, seconds: float) -> float:
        """Spread a delay over 50 to 150 percent, so that those who collided do not collide again."""
        return seconds * (0.5 + random.random())  # noqa: S311 - not a secret


class Checkpoints:
    """Named steps that a test can wait for, hold, or make raise; here they do nothing.

    The names are written where they are reached, in the form ``subject.step``: ``admit.locked``,
    ``turn.claimed``, ``turn.handled``, ``commit.written``, ``commit.done`` and so on.
    """

    def reach(self, name: str, **data: object) -> None:
        """Announce that this thread is at the named step."""


@dataclass(slots=True, kw_only=True, eq=False)
class Seams:
    """What one runtime was given; two runtimes in one process have their own.

    Tests of an application replace its checkpoints while it runs, so that everybody looks them up here.
    """

    clock: Clock = field(default_factory=Clock)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
