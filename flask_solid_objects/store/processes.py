"""The registry of running roles and callers: a row per process and role, with a sign of life.

The identity is a random UUID per start; host name and pid are labels. All times are the database's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, insert, or_, select, update

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One registered role; ``is_stale`` when it is not stopped and has not been heard of for too long."""

    id: str
    kind: str
    hostname: str
    pid: int
    started_at: datetime
    last_heartbeat_at: datetime
    metadata: str
    shutdown_state: str
    stopped_at: datetime | None
    is_stale: bool


class Processes:
    """Statements on ``processes``; heartbeats run in short transactions of their own (protocol 3.2)."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        p = tables.processes
        self._dialect = dialect
        self._insert = dialect.compile(
            insert(p).values(
                started_at=bindparam("now", type_=p.c.started_at.type),
                last_heartbeat_at=bindparam("now", type_=p.c.last_heartbeat_at.type),
                shutdown_state="running",
                created_at=dialect.now,
                updated_at=dialect.now,
            ),
            *("id", "kind", "hostname", "pid", "metadata"),
        )
        mine = p.c.id == bindparam("w_id")
        self._beat = dialect.compile(
            update(p)
            .where(mine, p.c.shutdown_state != "stopped")
            .values(last_heartbeat_at=dialect.now, updated_at=dialect.now)
        )
        self._drain = dialect.compile(
            update(p)
            .where(mine, p.c.shutdown_state == "running")
            .values(shutdown_state="draining", shutdown_requested_at=dialect.now, updated_at=dialect.now)
        )
        self._stop = dialect.compile(
            update(p)
            .where(mine, p.c.shutdown_state != "stopped")
            .values(shutdown_state="stopped", stopped_at=dialect.now, updated_at=dialect.now)
        )
        columns = [
            *(p.c.id, p.c.kind, p.c.hostname, p.c.pid, p.c.started_at, p.c.last_heartbeat_at, p.c.metadata),
            *(p.c.shutdown_state, p.c.stopped_at),
        ]
        running = or_(p.c.shutdown_state == "running", p.c.shutdown_state == "draining")
        self._list = dialect.compile(select(*columns).where(running).order_by(p.c.started_at, p.c.id))
        self._find = dialect.compile(select(*columns).where(p.c.id == bindparam("id")))
        self._stale = dialect.compile(
            select(p.c.id)
            .where(running, p.c.last_heartbeat_at <= bindparam("cutoff", type_=p.c.last_heartbeat_at.type))
            .order_by(p.c.id)
        )

    def register(self, tx: Transaction, *, process_id: str, kind: str, hostname: str, pid: int, metadata: str) -> None:
        now = self._dialect.encode_time(tx.now())
        tx.write(self._insert, id=process_id, kind=kind, hostname=hostname[:255], pid=pid, metadata=metadata, now=now)

    def beat(self, tx: Transaction, process_id: str) -> bool:
        """Record a sign of life; False when somebody declared this process dead, which must register anew."""
        return tx.write(self._beat, w_id=process_id) == 1

    def drain(self, tx: Transaction, process_id: str) -> None:
        tx.write(self._drain, w_id=process_id)

    def stop(self, tx: Transaction, process_id: str) -> bool:
        """Mark it stopped; False when it was already."""
        return tx.write(self._stop, w_id=process_id) == 1

    def stale(self, tx: Transaction, threshold: float) -> list[str]:
        """Processes that were not heard of for ``threshold`` seconds."""
        cutoff = self._dialect.encode_time(tx.now() - timedelta(seconds=threshold))
        return [row[0] for row in tx.rows(self._stale, cutoff=cutoff)]

    def running(self, tx: Transaction, threshold: float) -> list[Process]:
        """Everything that has not stopped, the oldest first."""
        cutoff = tx.now() - timedelta(seconds=threshold)
        return [self._process(row, cutoff) for row in tx.rows(self._list)]

    def find(self, tx: Transaction, process_id: str, threshold: float) -> Process | None:
        row = tx.one(self._find, id=process_id)
        return None if row is None else self._process(row, tx.now() - timedelta(seconds=threshold))

    def _process(self, row: tuple[Any, ...], cutoff: datetime) -> Process:
        started_at, heartbeat_at = self._dialect.decode_time(row[4]), self._dialect.decode_time(row[5])
        assert started_at is not None and heartbeat_at is not None, "both are NOT NULL"
        return Process(
            id=row[0],
            kind=row[1],
            hostname=row[2],
            pid=row[3],
            started_at=started_at,
            last_heartbeat_at=heartbeat_at,
            metadata=row[6],
            shutdown_state=row[7],
            stopped_at=self._dialect.decode_time(row[8]),
            is_stale=row[7] != "stopped" and heartbeat_at <= cutoff,
        )
