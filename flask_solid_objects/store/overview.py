"""Numbers of a whole installation: how much waits and since when, what failed, how much was done when.

Every count is capped and uses an index, so that the answer costs the same on a database of any size (hazard H111).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ScalarSelect, bindparam, func, select

from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.windows import MOST_COUNTED, capped


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What there is now; counts are capped at one more than :data:`~.windows.MOST_COUNTED`, ages are times."""

    now: datetime
    actors: int
    held: int
    ready: int
    due: int
    running: int
    oldest_due: datetime | None
    effects_pending: int
    effects_running: int
    effects_dead: int
    oldest_effect: datetime | None
    broadcasts_pending: int
    broadcasts_dead: int
    oldest_broadcast: datetime | None
    reminders_scheduled: int
    reminders_due: int
    reminders_dead: int
    dead_letters: int
    redrives_running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How many messages ended in a stretch of time, each number capped."""

    since: datetime
    completed: int
    rejected: int
    died: int


class Overviews:
    """Statements that count over whole tables, as far as a cap."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._tables, self._dialect = tables, dialect
        self._done: dict[int, Statement] = {}
        i, r, c = tables.instances, tables.ready_messages, tables.claimed_messages
        e, b, n, d = tables.effects, tables.broadcasts, tables.reminders, tables.dead_letters
        self._oldest = dialect.compile(select(func.min(r.c.available_at)))
        now = bindparam("now", type_=r.c.available_at.type)
        self._numbers = dialect.compile(
            select(
                capped(i.c.id),
                capped(i.c.id, i.c.activation_owner_id.is_not(None)),
                capped(r.c.id),
                capped(r.c.id, r.c.available_at <= now),
                capped(c.c.id),
                # Of the whole table: the earliest, if it is due.
                _first(r.c.available_at),
                capped(e.c.id, e.c.status == "pending"),
                capped(e.c.id, e.c.status == "processing"),
                capped(e.c.id, e.c.status == "dead"),
                _earliest(e.c.created_at, e.c.status == "pending"),
                capped(b.c.id, b.c.status == "pending"),
                capped(b.c.id, b.c.status == "dead"),
                _first(b.c.available_at, b.c.status == "pending"),
                capped(n.c.id, n.c.status == "scheduled"),
                capped(n.c.id, n.c.status == "scheduled", n.c.next_run_at <= now),
                capped(n.c.id, n.c.status == "dead"),
                capped(d.c.id),
                capped(tables.redrives.c.id, tables.redrives.c.status == "running"),
            )
        )

    def read(self, tx: Transaction) -> Overview:
        now, decode = tx.now(), self._dialect.decode_time
        row = tx.one(self._numbers, now=self._dialect.encode_time(now))
        assert row is not None, "an aggregate always gives a row"
        oldest = decode(row[5])
        return Overview(
            now=now,
            actors=row[0],
            held=row[1],
            ready=row[2],
            due=row[3],
            running=row[4],
            oldest_due=oldest if oldest is not None and oldest <= now else None,
            effects_pending=row[6],
            effects_running=row[7],
            effects_dead=row[8],
            oldest_effect=decode(row[9]),
            broadcasts_pending=row[10],
            broadcasts_dead=row[11],
            oldest_broadcast=decode(row[12]),
            reminders_scheduled=row[13],
            reminders_due=row[14],
            reminders_dead=row[15],
            dead_letters=row[16],
            redrives_running=row[17],
        )

    def oldest_due(self, tx: Transaction) -> tuple[datetime | None, datetime]:
        """When the message that is due longest became due, if any is, and the time now."""
        row, now = tx.one(self._oldest), tx.now()
        oldest = None if row is None else self._dialect.decode_time(row[0])
        return (oldest if oldest is not None and oldest <= now else None), now

    def done(self, tx: Transaction, edges: Sequence[datetime]) -> list[Done]:
        """What ended between each two neighbouring times."""
        count = len(edges) - 1
        if count < 1:
            return []
        statement = self._done.get(count)
        if statement is None:
            statement = self._done[count] = self._count_done(count)
        given = {f"edge_{n}": self._dialect.encode_time(edge) for n, edge in enumerate(edges)}
        row = tx.one(statement, **given)
        assert row is not None, "an aggregate always gives a row"
        return [
            Done(since=edges[n], completed=row[3 * n], rejected=row[3 * n + 1], died=row[3 * n + 2])
            for n in range(count)
        ]

    def _count_done(self, count: int) -> Statement:
        m, d = self._tables.messages, self._tables.dead_letters
        edges = [bindparam(f"edge_{n}", type_=m.c.completed_at.type) for n in range(count + 1)]
        numbers: list[Any] = []
        for since, until in itertools.pairwise(edges):
            for id_column, at in ((m.c.id, m.c.completed_at), (m.c.id, m.c.rejected_at), (d.c.id, d.c.last_failed_at)):
                numbers.append(capped(id_column, at >= since, at < until))
        return self._dialect.compile(select(*numbers))


def _first(column: Any, *conditions: Any) -> ScalarSelect[Any]:
    return select(func.min(column)).where(*conditions).scalar_subquery()


def _earliest(column: Any, *conditions: Any) -> ScalarSelect[Any]:
    """The earliest of so many rows as are counted, where no index gives it."""
    some = select(column.label("at")).where(*conditions).limit(MOST_COUNTED + 1).subquery()
    return select(func.min(some.c.at)).scalar_subquery()
