"""The index of messages between actors begins with their receiver, so that one index alone serves the foreign key.

With two that begin with instance_id, MySQL and MariaDB choose one of them, not always the same; whenever the status in
it changed, they locked the actor's row, so that a claim of an effect waited for a turn.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import context, op

revision = "solid_objects_0003"
down_revision = "solid_objects_0002"
branch_labels = None
depends_on = None

NOW = ["target", "instance_id", "status", "id"]
BEFORE = ["instance_id", "target", "status", "id"]


def upgrade() -> None:
    replace(NOW)


def downgrade() -> None:
    replace(BEFORE)


def replace(parts: list[str]) -> None:
    effects, name = prefix() + "effects", index("effects_target")
    existing = {each["name"]: each["column_names"] for each in sa.inspect(op.get_bind()).get_indexes(effects)}
    if existing.get(name) == parts:
        return
    if name in existing:
        op.drop_index(name, effects)
    op.create_index(name, effects, parts)


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
