"""What hangs on an actor or on a message: effects, broadcasts, reminders, dead letters; the newest first, so many."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, bindparam

from flask_solid_objects.store.broadcasts import BroadcastRow, Broadcasts
from flask_solid_objects.store.dead_letters import DeadLetter, DeadLetters
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.effects import EffectRow, Effects
from flask_solid_objects.store.reminders import ReminderRow, Reminders
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction


class Belongings:
    """Reads that an index of the parent's id serves."""

    def __init__(
        self,
        tables: Tables,
        dialect: Dialect,
        effects: Effects,
        broadcasts: Broadcasts,
        reminders: Reminders,
        dead_letters: DeadLetters,
    ) -> None:
        self._dialect = dialect
        self._effects, self._broadcasts = effects, broadcasts
        self._reminders, self._dead_letters = reminders, dead_letters
        e, b, r, d = tables.effects, tables.broadcasts, tables.reminders, tables.dead_letters
        self._effects_of_actor = self._newest(effects.select_rows(), e, e.c.instance_id)
        self._effects_of_message = self._newest(effects.select_rows(), e, e.c.message_id)
        self._broadcasts_of_message = self._newest(broadcasts.select_rows(), b, b.c.message_id)
        self._reminders_of_actor = self._newest(reminders.select_rows(), r, r.c.instance_id)
        self._dead_letters_of_actor = self._newest(dead_letters.select_rows(), d, d.c.instance_id)
        self._dead_letter_of_message = dialect.compile(
            dead_letters.select_rows().where(d.c.message_id == bindparam("parent"))
        )

    def effects_of_actor(self, tx: Transaction, instance_id: int, *, most: int) -> list[EffectRow]:
        return [self._effects.row_of(row) for row in tx.rows(self._effects_of_actor, parent=instance_id, most=most)]

    def effects_of_message(self, tx: Transaction, message_id: int, *, most: int) -> list[EffectRow]:
        return [self._effects.row_of(row) for row in tx.rows(self._effects_of_message, parent=message_id, most=most)]

    def broadcasts_of_message(self, tx: Transaction, message_id: int, *, most: int) -> list[BroadcastRow]:
        rows = tx.rows(self._broadcasts_of_message, parent=message_id, most=most)
        return [self._broadcasts.row_of(row) for row in rows]

    def reminders_of_actor(self, tx: Transaction, instance_id: int, *, most: int) -> list[ReminderRow]:
        return [self._reminders.row_of(row) for row in tx.rows(self._reminders_of_actor, parent=instance_id, most=most)]

    def dead_letters_of_actor(self, tx: Transaction, instance_id: int, *, most: int) -> list[DeadLetter]:
        rows = tx.rows(self._dead_letters_of_actor, parent=instance_id, most=most)
        return [self._dead_letters.row_of(row) for row in rows]

    def dead_letter_of_message(self, tx: Transaction, message_id: int) -> DeadLetter | None:
        row = tx.one(self._dead_letter_of_message, parent=message_id)
        return None if row is None else self._dead_letters.row_of(row)

    def _newest(self, rows: Select[*tuple[Any, ...]], table: Table, parent: ColumnElement[int]) -> Statement:
        mine = rows.where(parent == bindparam("parent", type_=parent.type))
        return self._dialect.compile(mine.order_by(table.c.id.desc()).limit(bindparam("most")))
