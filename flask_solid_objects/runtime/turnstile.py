"""Let the callers of one actor in one process admit one after another, as long as that goes fast.

Callers that admit while another one runs find the actor taken, and then have to wait, look and claim: three more
transactions each. Sixteen callers of one actor made 156 calls a second on SQLite like that, one alone 1,115, and
sixteen with these gates 939.
Nothing rests on it: who does not get through in time goes on without, and is ordered by the database as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from flask_solid_objects.values import ActorKey


class _Gate:
    """One actor's gate, and how many are at it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


class Pass:
    """What a caller holds; it may be given back early, and is when the block ends."""

    __slots__ = ("_lock",)

    def __init__(self, lock: threading.Lock | None) -> None:
        self._lock = lock

    def give_back(self) -> None:
        """Let the next one through; harmless when nothing is held."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


class Turnstile:
    """The gates of one process; one exists only while somebody is at it."""

    def __init__(self) -> None:
        self._gates: dict[ActorKey, _Gate] = {}
        self._guard = threading.Lock()

    @contextmanager
    def at(self, key: ActorKey, seconds: float) -> Iterator[Pass]:
        """Wait for one's turn, at most so long; then go on all the same."""
        with self._guard:
            gate = self._gates.setdefault(key, _Gate())
            gate.users += 1
        held = Pass(gate.lock if gate.lock.acquire(timeout=max(0.0, seconds)) else None)
        try:
            yield held
        finally:
            held.give_back()
            with self._guard:
                gate.users -= 1
                if gate.users == 0:
                    del self._gates[key]

    def __len__(self) -> int:
        return len(self._gates)
