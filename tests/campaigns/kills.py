"""Kills that hit: stop a process, see whether it runs a turn, and only then end it; and how long recovery takes."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass

from sqlalchemy import Engine, select

from flask_solid_objects.store.tables import Tables
from tests.processes import Child

_TRIES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A message that a process has claimed, by its token: a later claim of the same message has another one."""

    message_id: int
    token: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """A claim whose process was killed, and when."""

    claimed: Claimed
    killed_at: float


class Killer:
    """Ends one process after another, and watches what becomes of their turns."""

    def __init__(self, engine: Engine, tables: Tables) -> None:
        self._engine, self._tables = engine, tables
        self._dice = random.Random(7)
        self._open: list[Interrupted] = []
        self.interrupted: dict[str, int] = {}
        self.longest_recovery = 0.0

    def kill_one(self, children: list[Child]) -> int:
        """Kill a process that runs a turn, or any one when none is found; its place in the list."""
        place = 0
        for _ in range(_TRIES):
            place = self._dice.randrange(len(children))
            children[place].signal(signal.SIGSTOP)
            if self._claims_of(children[place].pid):
                break
            children[place].signal(signal.SIGCONT)
        killed_at = time.monotonic()
        children[place].kill()
        # Looked at after its death: what it had sent before may still have been committed.
        for claimed in self._claims_of(children[place].pid):
            self._open.append(Interrupted(claimed=claimed, killed_at=killed_at))
            self.interrupted[claimed.kind] = self.interrupted.get(claimed.kind, 0) + 1
        return place

    def watch(self) -> None:
        """Note the time of each interrupted turn that somebody has taken over meanwhile."""
        if not self._open:
            return
        claims = self._tables.claimed_messages
        with self._engine.connect() as connection:
            held = {str(token) for token in connection.execute(select(claims.c.activation_token)).scalars()}
        now = time.monotonic()
        for each in self._open:
            if each.claimed.token not in held:
                self.longest_recovery = max(self.longest_recovery, now - each.killed_at)
        self._open = [each for each in self._open if each.claimed.token in held]

    @property
    def unrecovered(self) -> int:
        return len(self._open)

    def _claims_of(self, pid: int) -> list[Claimed]:
        claims, processes = self._tables.claimed_messages, self._tables.processes
        query = (
            select(claims.c.message_id, claims.c.activation_token, processes.c.kind)
            .join(processes, processes.c.id == claims.c.process_id)
            .where(processes.c.pid == pid)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return [Claimed(message_id=row[0], token=str(row[1]), kind=row[2]) for row in rows]
