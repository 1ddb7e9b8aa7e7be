"""The first tables.

This description is frozen: it says what the first release made, whatever the package says later. Every step
skips what is there already: MySQL and MariaDB commit each of them on its own, so that after a crash the whole
migration runs again.
"""

from __future__ import annotations

import hashlib
from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql, postgresql

revision = "solid_objects_0001"
down_revision = None
branch_labels = ("solid_objects",)
depends_on = None


def upgrade() -> None:
    for step in STEPS:
        step()


def downgrade() -> None:
    for step in reversed(STEPS):
        op.drop_table(table(step.__name__), if_exists=True)


def processes() -> None:
    create(
        "processes",
        identity("id", 36),
        text("kind", 64),
        text("hostname", 255),
        *bigint("pid"),
        *moment("started_at", "last_heartbeat_at"),
        *json("metadata"),
        text("shutdown_state", 32, default="running"),
        *moment("shutdown_requested_at", "stopped_at", nullable=True),
        *both_times(),
        check("process_shutdown", "shutdown_state IN ('running', 'draining', 'stopped')"),
    )
    index("processes", "processes_liveness", "shutdown_state", "last_heartbeat_at")
    index("processes", "processes_kind", "kind", "shutdown_state")


def instances() -> None:
    create(
        "instances",
        number(),
        *name("actor_type"),
        *key("actor_id"),
        *json("state"),
        *integer("state_version", default=1),
        *bigint("state_revision", default=0),
        *json("observable_revisions", nullable=True),
        *bigint("next_message_sequence", default=1),
        *json("completed_idempotency_keys", nullable=True),
        text("activation_owner_id", 36, nullable=True),
        text("activation_token", 36, nullable=True),
        *moment("activation_expires_at", nullable=True),
        *bigint("activation_generation", default=0),
        *moment("activated_at", "last_used_at", "last_claimed_at", nullable=True),
        *bigint("grouped_until", nullable=True),
        *moment("touched_at", "ready_at", nullable=True),
        *flag("has_backlog"),
        *moment("paused_at", "parked_until", nullable=True),
        *integer("parked_count", default=0),
        *json("parked_error", nullable=True),
        *both_times(),
        check("instances_state_version", "state_version > 0"),
        check("instances_sequence", "next_message_sequence > 0"),
        check("instances_generation", "activation_generation >= 0"),
        check(
            "instances_activation_owner",
            "activation_owner_id IS NULL AND activation_token IS NULL"
            " OR activation_owner_id IS NOT NULL AND activation_token IS NOT NULL",
        ),
        foreign_key("instances_owner", "activation_owner_id", "processes", "RESTRICT"),
    )
    index("instances", "instances_identity", "actor_type", "actor_id", unique=True)
    index("instances", "instances_ready", "actor_type", "ready_at", "id")
    index("instances", "instances_lease", "activation_expires_at", "last_claimed_at", "id")
    index("instances", "instances_owner", "activation_owner_id")
    index("instances", "instances_cleanup", "last_used_at", "id")


def messages() -> None:
    create(
        "messages",
        number(),
        *bigint("instance_id"),
        *name("actor_type"),
        *key("actor_id"),
        *name("operation"),
        text("delivery_mode", 32),
        *json("arguments"),
        *bigint("sequence"),
        *integer("attempt_count", default=0),
        *integer("max_attempts"),
        text("request_id", 36),
        *key("idempotency_key", nullable=True),
        *bigint("revision", "reminder_id", "reminder_generation", "caused_by", nullable=True),
        *json("trace_context", "result", "error", "rejection", nullable=True),
        *moment("enqueued_at", "available_at"),
        *moment("started_at", "completed_at", "rejected_at", "last_failed_at", nullable=True),
        *both_times(),
        check("messages_sequence", "sequence > 0"),
        check("messages_attempt_count", "attempt_count >= 0"),
        check("messages_max_attempts", "max_attempts > 0"),
        check("messages_delivery_mode", "delivery_mode IN ('async', 'sync', 'internal')"),
        foreign_key("messages_instance", "instance_id", "instances", "CASCADE"),
    )
    index("messages", "messages_instance_sequence", "instance_id", "sequence", unique=True)
    index("messages", "messages_actor_sequence", "actor_type", "actor_id", "sequence", unique=True)
    index("messages", "messages_request", "request_id", unique=True)
    index("messages", "messages_idempotency", "instance_id", "idempotency_key", unique=True)
    index("messages", "messages_cleanup", "completed_at", "id")
    index("messages", "messages_rejected", "rejected_at", "id")
    index("messages", "messages_caused_by", "caused_by")


def ready_messages() -> None:
    create(
        "ready_messages",
        number(),
        *bigint("message_id", "instance_id", "sequence"),
        *moment("available_at"),
        *flag("delayed", "blocking"),
        *moment("created_at"),
        check("ready_sequence", "sequence > 0"),
        foreign_key("ready_message", "message_id", "messages", "CASCADE"),
        foreign_key("ready_instance", "instance_id", "instances", "CASCADE"),
    )
    index("ready_messages", "ready_message", "message_id", unique=True)
    index("ready_messages", "ready_instance_sequence", "instance_id", "sequence", unique=True)
    index("ready_messages", "ready_poll", "available_at", "instance_id", "sequence")
    index("ready_messages", "ready_order", "instance_id", "delayed", "blocking", "sequence")
    index("ready_messages", "ready_due", "instance_id", "delayed", "blocking", "available_at", "sequence")


def claimed_messages() -> None:
    create(
        "claimed_messages",
        number(),
        *bigint("message_id", "instance_id"),
        text("process_id", 36),
        text("activation_token", 36),
        *bigint("activation_generation"),
        *bigint("through_sequence", nullable=True),
        *moment("claimed_at"),
        check("claimed_generation", "activation_generation > 0"),
        check("claimed_activation_owner", "process_id IS NULL OR activation_token IS NOT NULL"),
        foreign_key("claimed_message", "message_id", "messages", "CASCADE"),
        foreign_key("claimed_instance", "instance_id", "instances", "CASCADE"),
        foreign_key("claimed_process", "process_id", "processes", "RESTRICT"),
    )
    index("claimed_messages", "claimed_message", "message_id", unique=True)
    index("claimed_messages", "claimed_instance", "instance_id", unique=True)
    index("claimed_messages", "claimed_process", "process_id", "claimed_at")


def reminders() -> None:
    create(
        "reminders",
        number(),
        *bigint("instance_id"),
        *name("actor_type"),
        *key("actor_id"),
        *name("name", "operation"),
        *name("key", nullable=True),
        *json("arguments"),
        *moment("next_run_at"),
        sa.Column("interval_seconds", sa.Numeric(20, 6), nullable=True),
        text("cron", 191, nullable=True),
        text("timezone", 64, nullable=True),
        *bigint("generation", "occurrence", default=0),
        text("missed_policy", 32, default="latest"),
        text("status", 32, default="scheduled"),
        *integer("attempt_count", default=0),
        *json("error", nullable=True),
        text("claimed_by", 36, nullable=True),
        *moment("claimed_at", nullable=True),
        *both_times(),
        check("reminders_occurrence", "occurrence >= 0"),
        check("reminders_interval", "interval_seconds IS NULL OR interval_seconds > 0"),
        check("reminders_missed_policy", "missed_policy IN ('latest', 'all')"),
        check("reminders_attempt_count", "attempt_count >= 0"),
        check("reminders_status", "status IN ('scheduled', 'paused', 'completed', 'dead')"),
        foreign_key("reminders_instance", "instance_id", "instances", "CASCADE"),
        foreign_key("reminders_process", "claimed_by", "processes", "SET NULL"),
    )
    index("reminders", "reminders_name", "instance_id", "name", unique=True)
    index("reminders", "reminders_due", "status", "next_run_at", "id")
    index("reminders", "reminders_claim", "claimed_by", "claimed_at")


def effects() -> None:
    create(
        "effects",
        number(),
        *bigint("message_id", "instance_id"),
        text("effect_id", 36),
        *name("name"),
        *name("target", nullable=True),
        *json("arguments"),
        *name("success_operation", "failure_operation", nullable=True),
        text("status", 32, default="pending"),
        *integer("attempt_count", default=0),
        *integer("max_attempts"),
        *moment("available_at"),
        text("claimed_by", 36, nullable=True),
        *moment("claimed_at", nullable=True),
        *json("result", "error", nullable=True),
        *moment("completed_at", nullable=True),
        *both_times(),
        check("effects_attempt_count", "attempt_count >= 0"),
        check("effects_max_attempts", "max_attempts > 0"),
        check("effects_status", "status IN ('pending', 'processing', 'completed', 'dead')"),
        foreign_key("effects_message", "message_id", "messages", "CASCADE"),
        foreign_key("effects_instance", "instance_id", "instances", "CASCADE"),
        foreign_key("effects_process", "claimed_by", "processes", "SET NULL"),
    )
    index("effects", "effects_effect_id", "effect_id", unique=True)
    index("effects", "effects_poll", "status", "available_at", "id")
    index("effects", "effects_target", "instance_id", "target", "id")
    index("effects", "effects_message", "message_id")
    index("effects", "effects_claim", "claimed_by", "claimed_at")
    index("effects", "effects_cleanup", "completed_at", "id")


def effect_recoveries() -> None:
    create(
        "effect_recoveries",
        identity("effect_id", 36),
        *bigint("instance_id"),
        *name("recovery_operation", "status_operation", nullable=True),
        sa.Column("recovery_timeout", sa.Double(), nullable=True),
        *moment("retired_at", nullable=True),
        *both_times(),
        check("effect_recoveries_timeout", "recovery_timeout IS NULL OR recovery_timeout > 0"),
        foreign_key("effect_recoveries_instance", "instance_id", "instances", "CASCADE"),
    )
    index("effect_recoveries", "effect_recoveries_instance", "instance_id")


def broadcasts() -> None:
    create(
        "broadcasts",
        number(),
        *bigint("message_id", "instance_id"),
        text("broadcast_id", 36),
        *name("observable_name"),
        *json("value"),
        *bigint("revision"),
        *integer("state_version"),
        *bigint("activation_generation"),
        text("status", 32, default="pending"),
        *integer("attempt_count", default=0),
        *integer("max_attempts"),
        *moment("available_at"),
        text("claimed_by", 36, nullable=True),
        *moment("claimed_at", nullable=True),
        *json("error", nullable=True),
        *moment("delivered_at", nullable=True),
        *both_times(),
        check("broadcasts_state_version", "state_version > 0"),
        check("broadcasts_generation", "activation_generation > 0"),
        check("broadcasts_attempt_count", "attempt_count >= 0"),
        check("broadcasts_max_attempts", "max_attempts > 0"),
        check("broadcasts_status", "status IN ('pending', 'processing', 'delivered', 'dead')"),
        foreign_key("broadcasts_message", "message_id", "messages", "CASCADE"),
        foreign_key("broadcasts_instance", "instance_id", "instances", "CASCADE"),
        foreign_key("broadcast_process", "claimed_by", "processes", "SET NULL"),
    )
    index("broadcasts", "broadcasts_id", "broadcast_id", unique=True)
    index("broadcasts", "broadcasts_observable", "message_id", "observable_name", unique=True)
    index("broadcasts", "broadcasts_poll", "status", "available_at", "id")
    index("broadcasts", "broadcasts_instance", "instance_id")
    index("broadcasts", "broadcasts_claim", "claimed_by", "claimed_at")
    index("broadcasts", "broadcasts_cleanup", "delivered_at", "id")


def dead_letters() -> None:
    create(
        "dead_letters",
        number(),
        *bigint("message_id", "instance_id"),
        *name("actor_type"),
        *key("actor_id"),
        *name("operation"),
        *json("arguments"),
        *integer("attempts"),
        text("exception_class", 255),
        sa.Column("exception_message", sa.Text(), nullable=False),
        *json("backtrace"),
        *moment("first_failed_at", "last_failed_at"),
        *bigint("retried_message_id", nullable=True),
        *both_times(),
        check("dead_letters_attempts", "attempts > 0"),
        foreign_key("dead_letters_message", "message_id", "messages", "CASCADE"),
        foreign_key("dead_letters_instance", "instance_id", "instances", "CASCADE"),
        foreign_key("dead_letters_retry", "retried_message_id", "messages", "SET NULL"),
    )
    index("dead_letters", "dead_letters_message", "message_id", unique=True)
    index("dead_letters", "dead_letters_instance", "instance_id")
    index("dead_letters", "dead_letters_actor", "actor_type", "actor_id", "last_failed_at")
    index("dead_letters", "dead_letters_cleanup", "last_failed_at", "id")
    index("dead_letters", "dead_letters_retry", "retried_message_id")


def administration_events() -> None:
    create(
        "administration_events",
        number(),
        text("action", 64),
        text("kind", 32),
        text("subject_id", 191, nullable=True),
        *json("filters", nullable=True),
        text("actor", 255, nullable=True),
        *moment("occurred_at"),
        *both_times(),
    )
    index("administration_events", "admin_events_occurred", "occurred_at", "id")
    index("administration_events", "admin_events_subject", "kind", "subject_id")


def redrives() -> None:
    create(
        "redrives",
        identity("id", 64),
        text("kind", 32),
        *json("filters"),
        text("status", 32, default="running"),
        text("active_scope", 191, nullable=True),
        *integer("moved", default=0),
        *integer("move_limit", nullable=True),
        text("actor", 255, nullable=True),
        *moment("started_at"),
        *moment("finished_at", nullable=True),
        *both_times(),
        check("redrives_moved", "moved >= 0"),
        check("redrives_move_limit", "move_limit IS NULL OR move_limit > 0"),
        check("redrives_status", "status IN ('running', 'completed', 'cancelled')"),
    )
    index("redrives", "redrives_active_scope", "active_scope", unique=True)
    index("redrives", "redrives_poll", "status", "started_at", "id")


# Each function is named like its table, and stands after those that its table refers to.
STEPS = (
    processes,
    instances,
    messages,
    ready_messages,
    claimed_messages,
    reminders,
    effects,
    effect_recoveries,
    broadcasts,
    dead_letters,
    administration_events,
    redrives,
)


# -- steps -------------------------------------------------------------------------------------


def create(short: str, first: sa.Column[Any], *elements: sa.Column[Any] | sa.Constraint) -> None:
    options: dict[str, Any] = {"sqlite_autoincrement": isinstance(first.type, sa.BigInteger)}
    for dialect in ("mysql", "mariadb"):
        options |= {f"{dialect}_engine": "InnoDB", f"{dialect}_charset": "utf8mb4", f"{dialect}_collate": "utf8mb4_bin"}
    op.create_table(table(short), first, *elements, if_not_exists=True, **options)


def index(owner: str, short: str, *columns: str, unique: bool = False) -> None:
    # Asked first, because MySQL has no IF NOT EXISTS here.
    if not sa.inspect(op.get_bind()).has_index(table(owner), marked("idx", short)):
        op.create_index(marked("idx", short), table(owner), list(columns), unique=unique)


def check(short: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=marked("chk", short))


def foreign_key(short: str, column: str, target: str, on_delete: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{table(target)}.id"], name=marked("fk", short), ondelete=on_delete)


def table(short: str) -> str:
    return prefix() + short


def prefix() -> str:
    # In a chain of the application's own, where nobody says which, it is the default.
    return str(context.config.attributes.get("solid_objects_prefix", "solid_objects_"))


def marked(kind: str, short: str) -> str:
    """Name an index or constraint; these names are shared by a whole schema, so each prefix has its own."""
    if prefix() == "solid_objects_":
        marker = "so_"
    elif prefix() != "so_" and len(prefix()) <= 24:
        marker = prefix()
    else:
        marker = f"{prefix()[:8]}_{hashlib.sha256(prefix().encode()).hexdigest()[:8]}_"
    return op.f(f"{kind}_{marker}{short}")


# -- columns -----------------------------------------------------------------------------------


def number() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True)


def bigint(*columns: str, nullable: bool = False, default: int | None = None) -> list[sa.Column[Any]]:
    return [sa.Column(c, sa.BigInteger(), nullable=nullable, server_default=literal(default)) for c in columns]


def integer(*columns: str, nullable: bool = False, default: int | None = None) -> list[sa.Column[Any]]:
    return [sa.Column(c, sa.Integer(), nullable=nullable, server_default=literal(default)) for c in columns]


def flag(*columns: str) -> list[sa.Column[Any]]:
    return [sa.Column(c, sa.Boolean(create_constraint=False), nullable=False, server_default="0") for c in columns]


def identity(column: str, length: int) -> sa.Column[str]:
    return sa.Column(column, sa.String(length), primary_key=True)


def text(column: str, length: int, *, nullable: bool = False, default: str | None = None) -> sa.Column[str]:
    return sa.Column(column, sa.String(length), nullable=nullable, server_default=default)


def name(*columns: str, nullable: bool = False) -> list[sa.Column[Any]]:
    exact = mysql.VARCHAR(191, charset="utf8mb4", collation="utf8mb4_bin")
    return [sa.Column(c, sa.String(191).with_variant(exact, "mysql", "mariadb"), nullable=nullable) for c in columns]


def key(*columns: str, nullable: bool = False) -> list[sa.Column[Any]]:
    exact = mysql.VARBINARY(764)
    return [sa.Column(c, sa.String(191).with_variant(exact, "mysql", "mariadb"), nullable=nullable) for c in columns]


def json(*columns: str, nullable: bool = False) -> list[sa.Column[Any]]:
    plain = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    kind = sa.JSON().with_variant(postgresql.JSONB(), "postgresql").with_variant(plain, "mysql", "mariadb")
    return [sa.Column(c, kind, nullable=nullable) for c in columns]


def moment(*columns: str, nullable: bool = False) -> list[sa.Column[Any]]:
    kind = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    return [sa.Column(c, kind, nullable=nullable) for c in columns]


def both_times() -> list[sa.Column[Any]]:
    return moment("created_at", "updated_at")


def literal(value: int | None) -> sa.TextClause | None:
    return None if value is None else sa.text(str(value))
