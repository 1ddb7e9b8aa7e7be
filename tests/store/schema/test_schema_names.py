"""How tables are built and named, whatever the prefix; without a database."""

from __future__ import annotations

import pytest
from sqlalchemy import MetaData

from flask_solid_objects.store.tables import build_tables


@pytest.mark.parametrize("prefix", ["solid_objects_", "so_", "x", "a" * 24 + "_", "a" * 40 + "_"])
def test_every_name_is_given_and_fits(prefix: str) -> None:
    """No constraint or index is left to be named by a database, and none is longer than PostgreSQL allows."""
    built = build_tables(MetaData(), prefix)

    names = [
        str(getattr(item, "name", None))
        for table in built.all
        for item in [*table.indexes, *(c for c in table.constraints if c is not table.primary_key)]
    ]

    assert "None" not in names
    assert max(map(len, names)) <= 63
    assert len(names) == len(set(names))


def test_prefixes_share_no_name() -> None:
    """Two prefixes can live in one schema, even one that looks like the short form of the default."""
    seen: set[str] = set()
    for prefix in ("solid_objects_", "so_", "shop_", "shop", "a" * 30, "a" * 31):
        names = {str(index.name) for table in build_tables(MetaData(), prefix).all for index in table.indexes}
        assert not names & seen
        seen |= names


def test_every_cascade_has_an_index() -> None:
    """Deleting a row of a parent never scans a child, and no index only repeats the start of another."""
    for table in build_tables(MetaData()).all:
        leads = [tuple(column.name for column in index.columns) for index in table.indexes]
        for key in table.foreign_keys:
            assert key.parent.name in {lead[0] for lead in leads}, f"{table}.{key.parent.name}"
        for lead in leads:
            assert not any(other[: len(lead)] == lead for other in leads if other != lead), f"{table} {lead}"


def test_tables_are_built_once_per_metadata() -> None:
    """An application factory that runs again on the same metadata gets the same tables."""
    metadata = MetaData()
    first = build_tables(metadata)

    assert build_tables(metadata) is first
    assert build_tables(metadata, "other_") is not first

    metadata.clear()

    assert build_tables(metadata) is not first
