"""The tables of what a turn leaves to be done later: reminders, effects and broadcasts.

A claim here is only a name: when the process goes, the row is free again.
"""

from __future__ import annotations

from sqlalchemy import Column, Double, MetaData, Numeric, Table
from sqlalchemy.schema import BLANK_SCHEMA

from flask_solid_objects.store import columns as c
from flask_solid_objects.store.columns import NUMBERED_TABLE_OPTIONS, TABLE_OPTIONS, Names


def reminders_table(metadata: MetaData, names: Names, processes: Table, instances: Table) -> Table:
    return Table(
        names.table("reminders"),
        metadata,
        c.number_key(),
        c.bigint("instance_id"),
        c.public_name("actor_type"),
        c.chosen_key("actor_id"),
        # Names hold a key that the application chose, which may end in spaces.
        c.chosen_key("name"),
        c.public_name("operation"),
        c.chosen_key("key", nullable=True),
        c.json("arguments"),
        c.timestamp("next_run_at"),
        Column("interval_seconds", Numeric(20, 6), nullable=True),
        c.string("cron", 191, nullable=True),
        c.string("timezone", 64, nullable=True),
        c.bigint("generation", default=0),
        c.bigint("occurrence", default=0),
        c.string("missed_policy", 32, default="latest"),
        c.string("status", 32, default="scheduled"),
        c.integer("attempt_count", default=0),
        c.json("error", nullable=True),
        c.uuid("claimed_by", nullable=True),
        c.timestamp("claimed_at", nullable=True),
        *c.record_times(),
        names.unique("reminders_name", "instance_id", "name"),
        names.index("reminders_due", "status", "next_run_at", "id"),
        names.index("reminders_claim", "claimed_by", "claimed_at"),
        names.check("reminders_occurrence", c.at_least("occurrence", 0)),
        names.check("reminders_interval", c.absent_or("interval_seconds", c.more_than_zero("interval_seconds"))),
        names.check("reminders_missed_policy", c.one_of("missed_policy", "latest", "all")),
        names.check("reminders_attempt_count", c.at_least("attempt_count", 0)),
        names.check("reminders_status", c.one_of("status", "scheduled", "paused", "completed", "dead")),
        names.foreign_key("reminders_instance", "instance_id", instances.c.id, "CASCADE"),
        names.foreign_key("reminders_process", "claimed_by", processes.c.id, "SET NULL"),
        schema=BLANK_SCHEMA,
        **NUMBERED_TABLE_OPTIONS,
    )


def effects_table(metadata: MetaData, names: Names, processes: Table, instances: Table, messages: Table) -> Table:
    return Table(
        names.table("effects"),
        metadata,
        c.number_key(),
        c.bigint("message_id"),
        c.bigint("instance_id"),
        c.uuid("effect_id"),
        c.public_name("name"),
        # Null for work outside; otherwise a hash of the receiving actor, whose messages are delivered in order of id.
        c.public_name("target", nullable=True),
        c.json("arguments"),
        c.public_name("success_operation", nullable=True),
        c.public_name("failure_operation", nullable=True),
        c.string("status", 32, default="pending"),
        c.integer("attempt_count", default=0),
        c.integer("max_attempts"),
        c.timestamp("available_at"),
        c.uuid("claimed_by", nullable=True),
        c.timestamp("claimed_at", nullable=True),
        c.json("result", nullable=True),
        c.json("error", nullable=True),
        c.timestamp("completed_at", nullable=True),
        *c.record_times(),
        names.unique("effects_effect_id", "effect_id"),
        # One probe per name: no effect that has no handler here, and no flood of another kind, is walked over.
        names.index("effects_poll", "status", "name", "available_at", "id"),
        names.index("effects_status", "status", "id"),
        # For the foreign key: MySQL looks at the actor's row whenever the index that serves it changes, so a status
        # must not be in it, and no other index may begin with the column, or it takes either.
        names.index("effects_instance", "instance_id", "id"),
        # The undelivered messages of one pair of actors, in order, without walking those delivered long ago.
        names.index("effects_target", "target", "instance_id", "status", "id"),
        names.index("effects_message", "message_id"),
        names.index("effects_claim", "claimed_by", "claimed_at"),
        names.index("effects_cleanup", "completed_at", "id"),
        names.check("effects_attempt_count", c.at_least("attempt_count", 0)),
        names.check("effects_max_attempts", c.more_than_zero("max_attempts")),
        names.check("effects_status", c.one_of("status", "pending", "processing", "completed", "dead")),
        names.foreign_key("effects_message", "message_id", messages.c.id, "CASCADE"),
        names.foreign_key("effects_instance", "instance_id", instances.c.id, "CASCADE"),
        names.foreign_key("effects_process", "claimed_by", processes.c.id, "SET NULL"),
        schema=BLANK_SCHEMA,
        **NUMBERED_TABLE_OPTIONS,
    )


def effect_recoveries_table(metadata: MetaData, names: Names, instances: Table) -> Table:
    return Table(
        names.table("effect_recoveries"),
        metadata,
        # No foreign key: the answer to "what became of it" must outlive the pruned effect.
        Column("effect_id", c.uuid_type(), primary_key=True),
        c.bigint("instance_id"),
        c.public_name("recovery_operation", nullable=True),
        c.public_name("status_operation", nullable=True),
        Column("recovery_timeout", Double(), nullable=True),
        c.timestamp("retired_at", nullable=True),
        *c.record_times(),
        names.index("effect_recoveries_instance", "instance_id"),
        names.check("effect_recoveries_timeout", c.absent_or("recovery_timeout", c.more_than_zero("recovery_timeout"))),
        names.foreign_key("effect_recoveries_instance", "instance_id", instances.c.id, "CASCADE"),
        schema=BLANK_SCHEMA,
        **TABLE_OPTIONS,
    )


def broadcasts_table(metadata: MetaData, names: Names, processes: Table, instances: Table, messages: Table) -> Table:
    return Table(
        names.table("broadcasts"),
        metadata,
        c.number_key(),
        c.bigint("message_id"),
        c.bigint("instance_id"),
        c.uuid("broadcast_id"),
        c.public_name("observable_name"),
        c.json("value"),
        c.bigint("revision"),
        c.integer("state_version"),
        c.bigint("activation_generation"),
        c.string("status", 32, default="pending"),
        c.integer("attempt_count", default=0),
        c.integer("max_attempts"),
        c.timestamp("available_at"),
        c.uuid("claimed_by", nullable=True),
        c.timestamp("claimed_at", nullable=True),
        c.json("error", nullable=True),
        c.timestamp("delivered_at", nullable=True),
        *c.record_times(),
        names.unique("broadcasts_id", "broadcast_id"),
        names.unique("broadcasts_observable", "message_id", "observable_name"),
        names.index("broadcasts_poll", "status", "available_at", "id"),
        names.index("broadcasts_instance", "instance_id"),
        names.index("broadcasts_claim", "claimed_by", "claimed_at"),
        names.index("broadcasts_cleanup", "delivered_at", "id"),
        names.check("broadcasts_state_version", c.more_than_zero("state_version")),
        names.check("broadcasts_generation", c.more_than_zero("activation_generation")),
        names.check("broadcasts_attempt_count", c.at_least("attempt_count", 0)),
        names.check("broadcasts_max_attempts", c.more_than_zero("max_attempts")),
        names.check("broadcasts_status", c.one_of("status", "pending", "processing", "delivered", "dead")),
        names.foreign_key("broadcasts_message", "message_id", messages.c.id, "CASCADE"),
        names.foreign_key("broadcasts_instance", "instance_id", instances.c.id, "CASCADE"),
        names.foreign_key("broadcast_process", "claimed_by", processes.c.id, "SET NULL"),
        schema=BLANK_SCHEMA,
        **NUMBERED_TABLE_OPTIONS,
    )
