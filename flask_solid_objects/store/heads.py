"""Which waiting message of an actor runs next (protocol 2.2), found without walking those that are not due.

b is the lowest blocking sequence. Eligible are waiting messages up to b; the head is the lowest eligible one
that is immediate or due. What is computed here is also what the hints of the actor's row are made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ScalarSelect, bindparam, false, func, or_, select, true

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.instances import Instance
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction

_NO_SEQUENCE = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The waiting messages of one actor, summed up: what can run now, what next, whether any is in order."""

    head: int | None
    next_due: datetime | None
    in_order: bool
    stuck: int | None = None

    def ready_at(self, now: datetime) -> datetime | None:
        """The hint for finding this actor: now, later, or nothing to find."""
        return now if self.head is not None else self.next_due


class Heads:
    """Statements that look at ``ready_messages`` of one locked actor."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        r, m, c = tables.ready_messages, tables.messages, tables.claimed_messages
        before = (m.c.instance_id == bindparam("instance_id"), m.c.sequence < bindparam("sequence"))
        named = select(m.c.id, m.c.sequence, m.c.operation).where(*before).order_by(m.c.sequence).limit(1)
        self._running_before = dialect.compile(named.join(c, c.c.message_id == m.c.id))
        in_order = or_(r.c.delayed == false(), r.c.blocking == true())
        self._waiting_before = dialect.compile(named.join(r, r.c.message_id == m.c.id).where(in_order))
        self._dialect = dialect
        mine = r.c.instance_id == bindparam("instance_id")
        delayed, prompt = r.c.delayed == true(), r.c.delayed == false()
        blocking, free = r.c.blocking == true(), r.c.blocking == false()

        def first(column: Any, *conditions: Any) -> ScalarSelect[Any]:
            return select(func.min(column)).where(mine, *conditions).scalar_subquery()

        self._summary = dialect.compile(
            select(
                first(r.c.sequence, prompt, free),
                first(r.c.sequence, prompt, blocking),
                first(r.c.sequence, delayed, blocking),
                first(r.c.available_at, delayed, free),
            )
        )
        now, below = r.c.available_at <= bindparam("now"), r.c.sequence < bindparam("blocked_at")
        self._details = dialect.compile(
            select(
                first(r.c.sequence, delayed, free, now, below),
                first(r.c.available_at, delayed, free, r.c.available_at > bindparam("now"), below),
                first(r.c.available_at, r.c.sequence == bindparam("blocked_at")),
            )
        )

    def look(self, tx: Transaction, instance_id: int) -> Waiting:
        """Sum up the waiting messages as of this transaction's time."""
        row = tx.one(self._summary, instance_id=instance_id)
        assert row is not None, "an aggregate always gives a row"
        prompt, blockers = row[0], [sequence for sequence in row[1:3] if sequence is not None]
        blocked_at = min(blockers, default=None)
        if blocked_at is None and row[3] is None:
            return Waiting(head=prompt, next_due=None, in_order=prompt is not None)
        return self._look_closer(tx, instance_id, prompt, blocked_at)

    def blocker(self, tx: Transaction, instance_id: int, sequence: int) -> dict[str, Any] | None:
        """The lowest message that runs or waits in order before a sequence; for diagnostics, without a lock."""
        for statement, status in ((self._running_before, "claimed"), (self._waiting_before, "ready")):
            row = tx.one(statement, instance_id=instance_id, sequence=sequence)
            if row is not None:
                return {"message_id": row[0], "sequence": row[1], "operation": row[2], "status": status}
        return None

    def _look_closer(self, tx: Transaction, instance_id: int, prompt: int | None, blocked_at: int | None) -> Waiting:
        now, decode = tx.now(), self._dialect.decode_time
        limit = _NO_SEQUENCE if blocked_at is None else blocked_at
        row = tx.one(self._details, instance_id=instance_id, now=self._dialect.encode_time(now), blocked_at=limit)
        assert row is not None, "an aggregate always gives a row"
        due, next_due, blocker_due = row[0], decode(row[1]), decode(row[2])
        heads = [sequence for sequence in (prompt, due) if sequence is not None and sequence < limit]
        times = [time for time in (next_due,) if time is not None]
        if blocked_at is not None and blocker_due is not None:
            if blocker_due <= now:
                heads.append(blocked_at)
            else:
                times.append(blocker_due)
        return Waiting(
            head=min(heads, default=None),
            next_due=min(times, default=None),
            in_order=prompt is not None or blocked_at is not None,
            stuck=blocked_at,
        )


def hints_after_arrival(
    instance: Instance, *, due: datetime, in_order: bool, now: datetime
) -> tuple[datetime | None, bool]:
    """Hints of a locked row to which a waiting message was added: only lowered and set (protocol 4.2 to 4.4)."""
    backlog = instance.has_backlog or in_order
    if instance.paused_at is not None:
        return None, backlog
    if instance.is_parked(now):
        return instance.ready_at, backlog
    return (due if instance.ready_at is None else min(instance.ready_at, due)), backlog


def hints_from(instance: Instance, waiting: Waiting, now: datetime) -> tuple[datetime | None, bool]:
    """Hints recomputed from all waiting rows of a locked actor, which may also raise or clear them."""
    if instance.paused_at is not None:
        return None, waiting.in_order
    ready_at = waiting.ready_at(now)
    if ready_at is not None and instance.parked_until is not None and instance.parked_until > ready_at:
        ready_at = instance.parked_until
    return ready_at, waiting.in_order
