"""All tables, for any metadata and prefix; here the processes and the mailbox, the rest in two neighbours.

Deleting an instance deletes all that belongs to it. Deleting a process is refused while a lease or a claim
names it, because their owner and token are never cleared by a cascade.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from sqlalchemy import MetaData, Table
from sqlalchemy.schema import BLANK_SCHEMA

from flask_solid_objects.store import columns as c
from flask_solid_objects.store.columns import DEFAULT_PREFIX, NUMBERED_TABLE_OPTIONS, TABLE_OPTIONS, Names
from flask_solid_objects.store.tables_outbox import (
    broadcasts_table,
    effect_recoveries_table,
    effects_table,
    reminders_table,
)
from flask_solid_objects.store.tables_record import (
    administration_events_table,
    dead_letters_table,
    redrives_table,
    version_table,
)

_CACHE_KEY = "flask_solid_objects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of one prefix in one metadata; a table stands after those that it refers to."""

    processes: Table
    instances: Table
    messages: Table
    ready_messages: Table
    claimed_messages: Table
    reminders: Table
    effects: Table
    effect_recoveries: Table
    broadcasts: Table
    dead_letters: Table
    administration_events: Table
    redrives: Table
    version: Table

    @property
    def all(self) -> tuple[Table, ...]:
        """Every table, the version table last; create in this order, drop in the reverse."""
        return tuple(getattr(self, field.name) for field in fields(self))


def build_tables(metadata: MetaData, prefix: str = DEFAULT_PREFIX) -> Tables:
    """Add the tables to the metadata, or return those that an earlier call added.

    Application factories run once per test on one metadata, so a second call must not fail. The tables stay in
    the connection's default schema even when the metadata names another.
    """
    cache: dict[str, Tables] = metadata.info.setdefault(_CACHE_KEY, {})
    built = cache.get(prefix)
    # The metadata may have been cleared since.
    if built is None or metadata.tables.get(built.processes.key) is not built.processes:
        built = cache[prefix] = _build(metadata, Names(prefix))
    return built


def _build(metadata: MetaData, names: Names) -> Tables:
    processes = _processes_table(metadata, names)
    instances = _instances_table(metadata, names, processes)
    messages = _messages_table(metadata, names, instances)
    return Tables(
        processes=processes,
        instances=instances,
        messages=messages,
        ready_messages=_ready_messages_table(metadata, names, instances, messages),
        claimed_messages=_claimed_messages_table(metadata, names, processes, instances, messages),
        reminders=reminders_table(metadata, names, processes, instances),
        effects=effects_table(metadata, names, processes, instances, messages),
        effect_recoveries=effect_recoveries_table(metadata, names, instances),
        broadcasts=broadcasts_table(metadata, names, processes, instances, messages),
        dead_letters=dead_letters_table(metadata, names, instances, messages),
        administration_events=administration_events_table(metadata, names),
        redrives=redrives_table(metadata, names),
        version=version_table(metadata, names),
    )


def _processes_table(metadata: MetaData, names: Names) -> Table:
    return Table(
        names.table("processes"),
        metadata,
        c.key_uuid(),
        c.string("kind", 64),
        c.string("hostname", 255),
        c.bigint("pid"),
        c.timestamp("started_at"),
        c.timestamp("last_heartbeat_at"),
        c.json("metadata"),
        c.string("shutdown_state", 32, default="running"),
        c.timestamp("shutdown_requested_at", nullable=True),
        c.timestamp("stopped_at", nullable=True),
        *c.record_times(),
        names.index("processes_liveness", "shutdown_state", "last_heartbeat_at"),
        names.index("processes_kind", "kind", "shutdown_state"),
        names.check("process_shutdown", c.one_of("shutdown_state", "running", "draining", "stopped")),
        schema=BLANK_SCHEMA,
        **TABLE_OPTIONS,
    )


def _instances_table(metadata: MetaData, names: Names, processes: Table) -> Table:
    return Table(
        names.table("instances"),
        metadata,
        c.number_key(),
        c.public_name("actor_type"),
        c.chosen_key("actor_id"),
        c.json("state"),
        c.integer("state_version", default=1),
        c.bigint("state_revision", default=0),
        c.json("observable_revisions", nullable=True),
        c.bigint("next_message_sequence", default=1),
        c.json("completed_idempotency_keys", nullable=True),
        # The lease.
        c.uuid("activation_owner_id", nullable=True),
        c.uuid("activation_token", nullable=True),
        c.timestamp("activation_expires_at", nullable=True),
        c.bigint("activation_generation", default=0),
        c.timestamp("activated_at", nullable=True),
        c.timestamp("last_used_at", nullable=True),
        c.timestamp("last_claimed_at", nullable=True),
        c.bigint("grouped_until", nullable=True),
        # Where to look for work; a time here may be too early, which costs one look.
        c.timestamp("touched_at", nullable=True),
        c.timestamp("ready_at", nullable=True),
        c.flag("has_backlog"),
        # What holds the actor back although it has work.
        c.timestamp("paused_at", nullable=True),
        c.timestamp("parked_until", nullable=True),
        c.integer("parked_count", default=0),
        c.json("parked_error", nullable=True),
        *c.record_times(),
        names.unique("instances_identity", "actor_type", "actor_id"),
        names.index("instances_ready", "actor_type", "ready_at", "id"),
        names.index("instances_lease", "activation_expires_at", "last_claimed_at", "id"),
        names.index("instances_owner", "activation_owner_id"),
        names.index("instances_cleanup", "last_used_at", "id"),
        names.check("instances_state_version", c.more_than_zero("state_version")),
        names.check("instances_sequence", c.more_than_zero("next_message_sequence")),
        names.check("instances_generation", c.at_least("activation_generation", 0)),
        names.check("instances_activation_owner", c.both_or_neither("activation_owner_id", "activation_token")),
        names.foreign_key("instances_owner", "activation_owner_id", processes.c.id, "RESTRICT"),
        schema=BLANK_SCHEMA,
        **NUMBERED_TABLE_OPTIONS,
    )


def _messages_table(metadata: MetaData, names: Names, instances: Table) -> Table:
    return Table(
        names.table("messages"),
        metadata,
        c.number_key(),
        c.bigint("instance_id"),
        c.public_name("actor_type"),
        c.chosen_key("actor_id"),
        c.public_name("operation"),
        c.string("delivery_mode", 32),
        c.json("arguments"),
        c.bigint("sequence"),
        c.integer("attempt_count", default=0),
        c.integer("max_attempts"),
        c.uuid("request_id"),
        c.chosen_key("idempotency_key", nullable=True),
        c.bigint("revision", nullable=True),
        # These outlive what they point at, so they are not foreign keys.
        c.bigint("reminder_id", nullable=True),
        c.bigint("reminder_generation", nullable=True),
        c.timestamp("reminder_due_at", nullable=True),
        c.integer("missed_count", nullable=True),
        c.bigint("caused_by", nullable=True),
        c.json("trace_context", nullable=True),
        c.json("result", nullable=True),
        c.json("error", nullable=True),
        c.json("rejection", nullable=True),
        c.timestamp("enqueued_at"),
        c.timestamp("available_at"),
        c.timestamp("started_at", nullable=True),
        c.timestamp("completed_at", nullable=True),
        c.timestamp("rejected_at", nullable=True),
        c.timestamp("first_failed_at", nullable=True),
        c.timestamp("last_failed_at", nullable=True),
        *c.record_times(),
        names.unique("messages_instance_sequence", "instance_id", "sequence"),
        names.unique("messages_actor_sequence", "actor_type", "actor_id", "sequence"),
        names.unique("messages_request", "request_id"),
        names.unique("messages_idempotency", "instance_id", "idempotency_key"),
        names.index("messages_cleanup", "completed_at", "id"),
        names.index("messages_rejected", "rejected_at", "id"),
        names.index("messages_caused_by", "caused_by"),
        names.check("messages_sequence", c.more_than_zero("sequence")),
        names.check("messages_attempt_count", c.at_least("attempt_count", 0)),
        names.check("messages_max_attempts", c.more_than_zero("max_attempts")),
        names.check("messages_delivery_mode", c.one_of("delivery_mode", "async", "sync", "internal")),
        names.foreign_key("messages_instance", "instance_id", instances.c.id, "CASCADE"),
        schema=BLANK_SCHEMA,
        **NUMBERED_TABLE_OPTIONS,
    )


def _ready_messages_table(metadata: MetaData, names: Names, instances: Table, messages: Table) -> Table:
    return Table(
        names.table("ready_messages"),
        metadata,
        c.number_key(),
        c.bigint("message_id"),
        c.bigint("instance_id"),
        c.bigint("sequence"),
        c.timestamp("available_at"),
        c.flag("delayed"),
        c.flag("blocking"),
        c.timestamp("created_at"),
        names.unique("ready_message", "message_id"),
        names.unique("ready_instance_sequence", "instance_id", "sequence"),
        names.index("ready_poll", "available_at", "instance_id", "sequence"),
        # The head of a mailbox: the first immediate or blocking row, and the first due among the delayed,
        # each found without walking rows that are not due.
        names.index("ready_order", "instance_id", "delayed", "blocking", "sequence"),
        names.index("ready_due", "instance_id", "delayed", "blocking", "available_at", "sequence"),
        names.check("ready_sequence", c.more_than_zero("sequence")),
        names.foreign_key("ready_message", "message_id", messages.c.id, "CASCADE"),
        names.foreign_key("ready_instance", "instance_id", instances.c.id, "CASCADE"),
        schema=BLANK_SCHEMA,
        **NUMBERED_TABLE_OPTIONS,
    )


def _claimed_messages_table(
    metadata: MetaData, names: Names, processes: Table, instances: Table, messages: Table
) -> Table:
    return Table(
        names.table("claimed_messages"),
        metadata,
        c.number_key(),
        c.bigint("message_id"),
        c.bigint("instance_id"),
        c.uuid("process_id"),
        c.uuid("activation_token"),
        c.bigint("activation_generation"),
        c.bigint("through_sequence", nullable=True),
        c.timestamp("claimed_at"),
        names.unique("claimed_message", "message_id"),
        # At most one turn of an actor runs at a time, whatever the code does.
        names.unique("claimed_instance", "instance_id"),
        names.index("claimed_process", "process_id", "claimed_at"),
        names.check("claimed_generation", c.more_than_zero("activation_generation")),
        names.check("claimed_activation_owner", c.absent_or("process_id", c.is_present("activation_token"))),
        names.foreign_key("claimed_message", "message_id", messages.c.id, "CASCADE"),
        names.foreign_key("claimed_instance", "instance_id", instances.c.id, "CASCADE"),
        names.foreign_key("claimed_process", "process_id", processes.c.id, "RESTRICT"),
        schema=BLANK_SCHEMA,
        **NUMBERED_TABLE_OPTIONS,
    )
