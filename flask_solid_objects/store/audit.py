"""What operators did, newest first; written by :mod:`~.administration` in the transaction of each act."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.windows import Page, place_of

_NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One act of an operator; ``filters`` is JSON text."""

    id: int
    action: str
    kind: str
    subject: str | None
    operator: str | None
    filters: str | None
    occurred_at: datetime


class Audit:
    """Reads of ``administration_events``."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._dialect = dialect
        e = tables.administration_events
        page = (
            select(e.c.id, e.c.action, e.c.kind, e.c.subject_id, e.c.actor, e.c.filters, e.c.occurred_at)
            .where(e.c.id < bindparam("before", type_=e.c.id.type))
            .order_by(e.c.id.desc())
            .limit(bindparam("most"))
        )
        self._page = dialect.compile(page)
        self._of_subject = dialect.compile(
            page.where(e.c.kind == bindparam("kind"), e.c.subject_id == bindparam("subject"))
        )

    def page(self, tx: Transaction, *, before: str | None, most: int) -> Page[AuditEvent]:
        return self._made(tx.rows(self._page, before=place_of(before, _NEWEST), most=most + 1), most)

    def of_subject(self, tx: Transaction, kind: str, subject: str, *, most: int) -> list[AuditEvent]:
        """What was done to one actor, reminder, effect, broadcast or message."""
        rows = tx.rows(self._of_subject, kind=kind, subject=subject, before=_NEWEST, most=most)
        # A server may compare texts without regard to case.
        return [event for event in map(self._event, rows) if event.subject == subject]

    def _made(self, rows: list[tuple[Any, ...]], most: int) -> Page[AuditEvent]:
        events = [self._event(row) for row in rows[:most]]
        return Page(rows=events, next=str(events[-1].id) if len(rows) > most else None)

    def _event(self, row: tuple[Any, ...]) -> AuditEvent:
        occurred_at = self._dialect.decode_time(row[6])
        assert occurred_at is not None, "it is NOT NULL"
        return AuditEvent(
            id=row[0],
            action=row[1],
            kind=row[2],
            subject=row[3],
            operator=row[4],
            filters=row[5],
            occurred_at=occurred_at,
        )
