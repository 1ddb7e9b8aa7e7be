"""What delivering the outboxes needs: a message knows its reminder and its first failure; effects are found by name.

Frozen like every release's step. Each step looks first at what is there, because MySQL and MariaDB commit each of
them on its own, so that after a crash the whole migration runs again.
"""

from __future__ import annotations

import hashlib
from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "solid_objects_0002"
down_revision = "solid_objects_0001"
branch_labels = None
depends_on = None

NEW_COLUMNS = ("reminder_due_at", "missed_count", "first_failed_at")
# In this order: the first that begins with instance_id serves the foreign key on MySQL.
INDEXES = {
    "effects_instance": ["instance_id", "id"],
    "effects_poll": ["status", "name", "available_at", "id"],
    "effects_target": ["instance_id", "target", "status", "id"],
    "effects_status": ["status", "id"],
}
FORMER_INDEXES: dict[str, list[str]] = {
    "effects_instance": [],
    "effects_poll": ["status", "available_at", "id"],
    "effects_target": ["instance_id", "target", "id"],
    "effects_status": [],
}


def upgrade() -> None:
    moment = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    for name, kind in zip(NEW_COLUMNS, (moment, sa.Integer(), moment), strict=True):
        if name not in columns("messages"):
            op.add_column(table("messages"), sa.Column(name, kind, nullable=True))
    effect_indexes(INDEXES)
    reminder_names(mysql.VARBINARY(764), mysql.VARCHAR(191, charset="utf8mb4", collation="utf8mb4_bin"))


def downgrade() -> None:
    reminder_names(mysql.VARCHAR(191, charset="utf8mb4", collation="utf8mb4_bin"), mysql.VARBINARY(764))
    effect_indexes(FORMER_INDEXES)
    for name in NEW_COLUMNS:
        if name in columns("messages"):
            op.drop_column(table("messages"), name)


def effect_indexes(wanted: dict[str, list[str]]) -> None:
    existing = {each["name"]: each["column_names"] for each in sa.inspect(op.get_bind()).get_indexes(table("effects"))}
    # MySQL needs an index that begins with instance_id for the foreign key, at every moment.
    spare = index("effects_spare")
    if spare not in existing:
        op.create_index(spare, table("effects"), ["instance_id"])
    for short, parts in wanted.items():
        name = index(short)
        if existing.get(name) == parts or (name not in existing and not parts):
            continue
        if name in existing:
            op.drop_index(name, table("effects"))
        if parts:
            op.create_index(name, table("effects"), parts)
    op.drop_index(spare, table("effects"))


def reminder_names(kind: sa.types.TypeEngine[Any], former: sa.types.TypeEngine[Any]) -> None:
    """MySQL and MariaDB ignore trailing spaces in text, but not in bytes; the others never did."""
    if op.get_bind().dialect.name not in ("mysql", "mariadb"):
        return
    for name, nullable in (("name", False), ("key", True)):
        op.alter_column(
            table("reminders"), name, type_=kind, existing_type=former, existing_nullable=nullable, nullable=nullable
        )


def columns(short: str) -> set[str]:
    return {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table(short))}


def table(short: str) -> str:
    return prefix() + short


def prefix() -> str:
    # In a chain of the application's own, where nobody says which, it is the default.
    return str(context.config.attributes.get("solid_objects_prefix", "solid_objects_"))


def index(short: str) -> str:
    """Name an index; these names are shared by a whole schema, so each prefix has its own."""
    if prefix() == "solid_objects_":
        return op.f(f"idx_so_{short}")
    if prefix() != "so_" and len(prefix()) <= 24:
        return op.f(f"idx_{prefix()}{short}")
    return op.f(f"idx_{prefix()[:8]}_{hashlib.sha256(prefix().encode()).hexdigest()[:8]}_{short}")
