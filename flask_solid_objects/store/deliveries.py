"""Messages from actor to actor in the outbox: which pair has one due, and what becomes of the pair's next ones.

Only the lowest undelivered message of a pair may be delivered (protocol 8.1). The receiver's row is locked before the
rows of the pair, so that two deliveries of one pair take turns; enqueueing and completion share one transaction, so
that nothing here is ever claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select, update

from flask_solid_objects.intents import ACTOR_MESSAGE
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A sending incarnation and its receiver; ``arguments`` of one of its messages name that."""

    instance_id: int
    target: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One undelivered message."""

    id: int
    effect_id: str
    message_id: int
    arguments: str
    attempts: int
    max_attempts: int
    available_at: datetime
    created_at: datetime


class Deliveries:
    """Statements on ``effects`` whose target is an actor."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        e = tables.effects
        self._dialect = dialect
        self._due = dialect.compile(
            select(e.c.instance_id, e.c.target, e.c.arguments)
            .where(
                e.c.status == "pending",
                e.c.name == ACTOR_MESSAGE,
                e.c.available_at <= bindparam("now", type_=e.c.available_at.type),
            )
            .order_by(e.c.available_at, e.c.id)
            .limit(bindparam("most"))
        )
        pair = (e.c.instance_id == bindparam("w_instance_id"), e.c.target == bindparam("w_target"))
        pending = (*pair, e.c.status == "pending")
        self._next = dialect.compile(
            select(
                *(e.c.id, e.c.effect_id, e.c.message_id, e.c.arguments, e.c.attempt_count, e.c.max_attempts),
                *(e.c.available_at, e.c.created_at),
            )
            .where(*pending)
            .order_by(e.c.id)
            .limit(bindparam("most"))
            .with_for_update()
        )
        self._any = dialect.compile(select(e.c.id).where(*pending).limit(1))
        changed = update(e).values(updated_at=dialect.now)
        completed = changed.values(
            status="completed", attempt_count=e.c.attempt_count + 1, completed_at=dialect.now, error=None
        )
        self._complete = Listed(dialect, e.c.id, lambda ids: completed.where(e.c.id.in_(ids)))
        one = e.c.id == bindparam("w_id")
        counted = {"attempt_count": e.c.attempt_count + 1}
        self._bury = dialect.compile(
            changed.where(one).values(**counted, status="dead", completed_at=dialect.now), "error"
        )
        self._fail = dialect.compile(changed.where(one).values(counted), "error")
        self._refuse = dialect.compile(changed.where(one), "error")
        self._move = dialect.compile(
            changed.where(*pending, e.c.available_at < bindparam("w_until", type_=e.c.available_at.type)),
            "available_at",
        )

    def due(self, tx: Transaction, most: int) -> tuple[list[Pair], bool]:
        """The pairs of the longest due messages, each once, and whether there may be more; nothing is locked."""
        found: dict[tuple[int, str], Pair] = {}
        rows = tx.rows(self._due, now=self._dialect.encode_time(tx.now()), most=most)
        for instance_id, target, arguments in rows:
            found.setdefault((instance_id, target), Pair(instance_id=instance_id, target=target, arguments=arguments))
        return list(found.values()), len(rows) == most

    def has_next(self, tx: Transaction, pair: Pair) -> bool:
        """Whether the pair has an undelivered message; nothing is locked."""
        return tx.one(self._any, **self._pair(pair)) is not None

    def next_of(self, tx: Transaction, pair: Pair, most: int) -> list[Delivery]:
        """Lock the pair's next messages in their order; the receiver's row is locked before."""
        decode = self._dialect.decode_time
        deliveries = []
        for row in tx.rows(self._next, **self._pair(pair), most=most):
            available_at, created_at = decode(row[6]), decode(row[7])
            assert available_at is not None and created_at is not None, "both are NOT NULL"
            deliveries.append(
                Delivery(
                    id=row[0],
                    effect_id=row[1],
                    message_id=row[2],
                    arguments=row[3],
                    attempts=row[4],
                    max_attempts=row[5],
                    available_at=available_at,
                    created_at=created_at,
                )
            )
        return deliveries

    def complete(self, tx: Transaction, delivered: Sequence[Delivery]) -> None:
        """Mark messages delivered; by their ids, since an operator may have revived another one of the pair since."""
        self._complete.write(tx, [delivery.id for delivery in delivered])

    def bury(self, tx: Transaction, delivery: Delivery, error: str) -> None:
        """End a message that can never be delivered; the next of its pair is free."""
        tx.write(self._bury, w_id=delivery.id, error=error)

    def postpone(self, tx: Transaction, pair: Pair, delivery: Delivery, *, until: datetime, error: str) -> None:
        """Try the head again later, and nothing of its pair before, so that a stuck pair is not walked."""
        tx.write(self._fail, w_id=delivery.id, error=error)
        self.hold(tx, pair, until=until)

    def wait(self, tx: Transaction, pair: Pair, delivery: Delivery, *, until: datetime, error: str) -> None:
        """The same for a head that has no room yet, which uses up none of its attempts."""
        tx.write(self._refuse, w_id=delivery.id, error=error)
        self.hold(tx, pair, until=until)

    def hold(self, tx: Transaction, pair: Pair, *, until: datetime) -> None:
        """Move the pair's messages to the time of its head."""
        time: Any = self._dialect.encode_time(until)
        tx.write(self._move, **self._pair(pair), w_until=time, available_at=time)

    @staticmethod
    def _pair(pair: Pair) -> dict[str, Any]:
        return {"w_instance_id": pair.instance_id, "w_target": pair.target}
