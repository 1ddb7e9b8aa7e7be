"""What is stored in the outbox, for tests to look at, and a way to spoil it."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import text

from flask_solid_objects.store.effects import EffectRow
from tests.actors import RuntimeUnderTest


def find_effect(rt: RuntimeUnderTest, effect_id: str) -> EffectRow:
    """The stored effect of an id."""
    row = rt.database.read(lambda tx: rt.store.effects.find(tx, effect_id))
    assert row is not None, f"no effect {effect_id}"
    return row


def error_of(rt: RuntimeUnderTest, effect_id: str) -> dict[str, Any]:
    """The stored error of an effect."""
    error = find_effect(rt, effect_id).error
    assert error is not None
    document: dict[str, Any] = json.loads(error) if isinstance(error, str) else error
    return document


def count(rt: RuntimeUnderTest, table: str, condition: str = "1 = 1") -> int:
    """How many rows a table has."""
    with rt.database.engine.connect() as connection:
        return int(connection.execute(text(f"SELECT COUNT(*) FROM {table} WHERE {condition}")).scalar_one())


def execute(rt: RuntimeUnderTest, statement: str, **values: object) -> int:
    """Change rows behind the runtime's back; how many there were."""
    with rt.database.engine.begin() as connection:
        return connection.execute(text(statement), values).rowcount
