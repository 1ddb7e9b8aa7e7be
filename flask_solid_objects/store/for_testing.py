"""What only tests of an application ask of the tables: everything gone, retries due at once, what was emitted.

Compiled at each use, since no running application needs any of it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, ColumnElement, Table, bindparam, delete, func, select, update

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.effects import EffectRow, Effects
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction


class ForTesting:
    """Statements over all tables of one application."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._tables, self._dialect = tables, dialect

    def has_version(self, tx: Transaction) -> bool:
        """Whether an upgrade made or adopted the tables.

        :raises SchemaMissing: there are none.
        """
        return tx.one(self._dialect.compile(select(self._tables.version.c.version_num))) is not None

    def clear(self, tx: Transaction) -> None:
        """Delete every row, children first; the version of the tables stays."""
        for table in reversed(self._tables.all):
            if table is not self._tables.version:
                tx.write(self._dialect.compile(delete(table)))

    def skip_backoff(self, tx: Transaction) -> int:
        """Make everything due that waits for another attempt; how much there was."""
        t, m = self._tables, self._tables.messages
        attempted = t.ready_messages.c.message_id.in_(select(m.c.id).where(m.c.attempt_count > 0))
        found = self._make_due(tx, t.ready_messages, t.ready_messages.c.available_at, attempted)
        for table in (t.effects, t.broadcasts):
            found += self._make_due(
                tx, table, table.c.available_at, table.c.status == "pending", table.c.attempt_count > 0
            )
        r, i = t.reminders, t.instances
        found += self._make_due(tx, r, r.c.next_run_at, r.c.status == "scheduled", r.c.attempt_count > 0)
        found += self._make_due(tx, i, i.c.parked_until)
        # The hints by which workers find the actors; one that is too early costs only a look.
        now: Any = bindparam("now", type_=i.c.ready_at.type)
        due = select(t.ready_messages.c.instance_id).where(t.ready_messages.c.available_at <= now)
        self._make_due(tx, i, i.c.ready_at, i.c.paused_at.is_(None), i.c.id.in_(due))
        return found

    def last_effect(self, tx: Transaction) -> int:
        """The number of the newest effect; 0 when there is none."""
        row = tx.one(self._dialect.compile(select(func.max(self._tables.effects.c.id))))
        return 0 if row is None or row[0] is None else int(row[0])

    def emitted_after(self, tx: Transaction, number: int) -> list[EffectRow]:
        """Work outside that was emitted after the effect of a number, in order; messages to actors are none."""
        e, effects = self._tables.effects, Effects(self._tables, self._dialect)
        rows = effects.select_rows().where(e.c.id > bindparam("number"), e.c.target.is_(None)).order_by(e.c.id)
        return [effects.row_of(row) for row in tx.rows(self._dialect.compile(rows), number=number)]

    def _make_due(self, tx: Transaction, table: Table, column: Column[Any], *which: ColumnElement[bool]) -> int:
        late = update(table).where(column > bindparam("now", type_=column.type), *which)
        statement = self._dialect.compile(late.values({column: bindparam("now", type_=column.type)}))
        return tx.write(statement, now=self._dialect.encode_time(tx.now()))
