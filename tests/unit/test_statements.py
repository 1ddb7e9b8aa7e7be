"""Statements are compiled at their first use, so each of them is compiled here for every database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import MetaData, make_url

from flask_solid_objects.settings import Settings
from flask_solid_objects.store.dialects import dialect_for
from flask_solid_objects.store.dialects.base import Statement
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import build_tables

URLS = ["sqlite://", "postgresql+psycopg://localhost/app", "mysql+pymysql://localhost/app"]


def statements(holder: Any, seen: set[int]) -> Iterator[Statement]:
    """Every statement that hangs on an object of the store, however deep."""
    if id(holder) in seen:
        return
    seen.add(id(holder))
    if isinstance(holder, Statement):
        yield holder
    elif isinstance(holder, dict):
        for value in holder.values():
            yield from statements(value, seen)
    elif isinstance(holder, list | tuple):
        for value in holder:
            yield from statements(value, seen)
    elif type(holder).__module__.startswith("flask_solid_objects.store"):
        yield from statements(vars(holder) if hasattr(holder, "__dict__") else {}, seen)


@pytest.mark.parametrize("url", URLS)
def test_every_statement_can_be_compiled(url: str) -> None:
    store = Store(build_tables(MetaData()), dialect_for(make_url(url)), Settings())

    texts = [statement.text for statement in statements(store, set())]

    assert len(texts) > 130
    assert all(texts)


def test_a_statement_is_compiled_once_and_only_when_it_is_used() -> None:
    dialect = dialect_for(make_url("sqlite://"))
    tables = build_tables(MetaData())
    statement = dialect.compile(tables.instances.select().where(tables.instances.c.id == 7))
    compiled = statement._compile
    count = 0

    def counted() -> Any:
        nonlocal count
        count += 1
        return compiled()

    statement._compile = counted
    assert count == 0
    assert "FROM solid_objects_instances" in statement.text
    assert list(statement.constants.values()) == [7]
    assert count == 1
