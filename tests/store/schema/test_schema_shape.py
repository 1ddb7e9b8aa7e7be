"""The shape of the tables: the same from both sources, and every difference named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, MetaData, Table, inspect

from flask_solid_objects.errors import InvalidSchema
from flask_solid_objects.store.schema import check, upgrade
from flask_solid_objects.store.tables import build_tables

MakeEngine = Callable[[], Engine]


def reflected(engine: Engine, prefix: str) -> dict[str, Any]:
    """Read the whole shape of the tables from the catalogue of the database."""
    inspector = inspect(engine)

    def plain(value: Any) -> Any:
        if isinstance(value, sqlalchemy.types.TypeEngine):
            return value.compile(dialect=engine.dialect)
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items() if key != "comment"}
        return value

    def by_name(items: list[Any]) -> list[Any]:
        return sorted((plain(item) for item in items), key=lambda item: str(item["name"]))

    return {
        table: {
            # By name: a column that a later migration adds stands last.
            "columns": by_name(inspector.get_columns(table)),
            "key": inspector.get_pk_constraint(table)["constrained_columns"],
            "indexes": by_name(inspector.get_indexes(table)),
            "uniques": by_name(inspector.get_unique_constraints(table)),
            "checks": by_name(inspector.get_check_constraints(table)),
            "foreign_keys": by_name(inspector.get_foreign_keys(table)),
            "options": plain(inspector.get_table_options(table)),
        }
        for table in sorted(table.name for table in build_tables(MetaData(), prefix).all)
    }


def create_from_metadata(engine: Engine, prefix: str = "solid_objects_") -> None:
    metadata = MetaData()
    build_tables(metadata, prefix)
    metadata.create_all(engine)


def drop_index(engine: Engine, name: str, table: str) -> None:
    owner = f" ON {table}" if engine.dialect.name in ("mysql", "mariadb") else ""
    run(engine, f"DROP INDEX {name}{owner}")


def run(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def replace_check(table: Table, name: str, condition: str | None) -> None:
    table.constraints -= {constraint for constraint in table.constraints if constraint.name == name}
    if condition is not None:
        table.append_constraint(sqlalchemy.CheckConstraint(condition, name=name))


@pytest.mark.parametrize("prefix", ["solid_objects_", "shop_", "a_very_long_prefix_with_more_than_24_"])
def test_migrations_and_metadata_agree(make_engine: MakeEngine, prefix: str) -> None:
    """Tables made by the migrations and by the metadata read the same from the catalogue."""
    migrated, created = make_engine(), make_engine()

    upgrade(migrated, prefix)
    create_from_metadata(created, prefix)

    assert reflected(migrated, prefix) == reflected(created, prefix)


def test_upgrade_refuses_another_shape(engine: Engine) -> None:
    """Every difference is named with its table and column or index, and nothing is changed."""
    create_from_metadata(engine)
    drop_index(engine, "idx_so_messages_caused_by", "solid_objects_messages")
    drop_index(engine, "idx_so_redrives_active_scope", "solid_objects_redrives")
    run(
        engine,
        "DROP TABLE solid_objects_broadcasts",
        "ALTER TABLE solid_objects_dead_letters DROP COLUMN exception_class",
        "ALTER TABLE solid_objects_instances DROP COLUMN has_backlog",
        "ALTER TABLE solid_objects_instances ADD COLUMN has_backlog INTEGER NOT NULL DEFAULT 7",
        "CREATE UNIQUE INDEX app_idx ON solid_objects_messages (operation)",
    )
    tables = inspect(engine).get_table_names()

    with pytest.raises(InvalidSchema) as caught:
        upgrade(engine)

    text = str(caught.value)
    assert "solid_objects_broadcasts is missing" in text
    assert "solid_objects_dead_letters.exception_class is missing" in text
    assert "solid_objects_messages should have the index idx_so_messages_caused_by on (caused_by)" in text
    assert "solid_objects_redrives should have the unique index idx_so_redrives_active_scope" in text
    assert "solid_objects_instances.has_backlog has the default 7 and should have 0" in text
    assert "solid_objects_messages has a unique index app_idx on (operation)" in text
    assert inspect(engine).get_table_names() == tables
    assert check(engine).problems == caught.value.differences


def test_check_sees_other_types_checks_and_cascades(engine: Engine) -> None:
    """A table of the right name and columns is still wrong when its types, checks or cascades are."""
    metadata = MetaData()
    tables = build_tables(metadata)
    tables.effects.c.effect_id.type = sqlalchemy.Integer()
    tables.effects.c.max_attempts.nullable = True
    replace_check(tables.effects, "chk_so_effects_status", None)
    replace_check(tables.reminders, "chk_so_reminders_status", "status IN ('scheduled', 'paused', 'completed')")
    replace_check(tables.messages, "chk_so_messages_max_attempts", "max_attempts >= 0")
    for key in tables.ready_messages.foreign_key_constraints:
        key.ondelete = None
    metadata.create_all(engine)

    text = "\n".join(check(engine).differences)

    assert "solid_objects_effects.effect_id is INTEGER" in text
    assert "solid_objects_effects.max_attempts should refuse NULL" in text
    assert "solid_objects_effects should have the check chk_so_effects_status" in text
    assert "solid_objects_reminders has the check chk_so_reminders_status" in text
    assert "solid_objects_messages has the check chk_so_messages_max_attempts" in text
    assert "solid_objects_ready_messages should have the foreign key fk_so_ready_message" in text
    assert "ON DELETE CASCADE" in text


def test_check_sees_how_tables_are_stored(engine: Engine) -> None:
    """Ids that repeat on SQLite, and an engine without transactions on MySQL, are differences."""
    metadata = MetaData()
    tables = build_tables(metadata)
    tables.administration_events.dialect_options["sqlite"]["autoincrement"] = False
    for dialect in ("mysql", "mariadb"):
        tables.redrives.dialect_options[dialect]["engine"] = "MyISAM"
    metadata.create_all(engine)

    differences = check(engine).differences

    if engine.dialect.name == "sqlite":
        assert "solid_objects_administration_events.id should be AUTOINCREMENT" in differences[0]
    elif engine.dialect.name != "postgresql":
        assert "solid_objects_redrives is kept by MyISAM" in differences[0]
