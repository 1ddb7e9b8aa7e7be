"""How a message stands: there is no status column, since where its rows are says it."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, case, exists, literal

from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import MessageStatus


def message_status(tables: Tables) -> ColumnElement[str]:
    """The status of each row of ``messages``."""
    m = tables.messages
    skipped = and_(m.c.completed_at.is_not(None), m.c.error.is_not(None), m.c.rejected_at.is_(None))
    return case(
        (m.c.rejected_at.is_not(None), literal(MessageStatus.REJECTED.value)),
        (skipped, literal(MessageStatus.SKIPPED.value)),
        (m.c.completed_at.is_not(None), literal(MessageStatus.COMPLETED.value)),
        (exists().where(tables.dead_letters.c.message_id == m.c.id), literal(MessageStatus.DEAD.value)),
        (exists().where(tables.claimed_messages.c.message_id == m.c.id), literal(MessageStatus.CLAIMED.value)),
        else_=literal(MessageStatus.READY.value),
    )
