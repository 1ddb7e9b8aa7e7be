"""Write what a turn has staged, in the transaction that commits it: effects, messages, reminders, broadcasts.

The caller has proven the fence before, under the actor's lock, so that the ids of these rows rise in commit order
(protocol 2.3). Each kind costs one statement, however many rows it has.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flask_solid_objects.intents import OutboxEntry
from flask_solid_objects.store.completion import ObservableChange, Staged
from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.reminders import Reminders
from flask_solid_objects.store.rows import RowInsert
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim, InstanceState


class StagedRows:
    """Inserts into the outbox tables; nothing is read here."""

    def __init__(self, tables: Tables, dialect: Dialect, reminders: Reminders) -> None:
        self._dialect, self._reminders = dialect, reminders
        times = {"created_at": dialect.now, "updated_at": dialect.now}
        self._effects = RowInsert(
            tables.effects,
            dialect,
            [
                *("message_id", "instance_id", "effect_id", "name", "target", "arguments", "max_attempts"),
                *("success_operation", "failure_operation", "available_at"),
            ],
            times,
        )
        self._recoveries = RowInsert(
            tables.effect_recoveries,
            dialect,
            ["effect_id", "instance_id", "recovery_operation", "status_operation", "recovery_timeout"],
            times,
        )
        self._broadcasts = RowInsert(
            tables.broadcasts,
            dialect,
            [
                *("message_id", "instance_id", "broadcast_id", "observable_name", "value", "revision"),
                *("state_version", "activation_generation", "max_attempts", "available_at"),
            ],
            times,
        )

    def write(self, tx: Transaction, claim: Claim, staged: Staged, state: InstanceState | None) -> None:
        """Write all of it; ``state`` is what the turn leaves, which every broadcast stands for."""
        if staged.outbox:
            self.add_effects(tx, claim.message.id, claim.lease.instance_id, staged.outbox)
        if staged.reminders:
            self._reminders.apply(tx, claim.lease.instance_id, claim.key, staged.reminders)
        if staged.changes and state is not None:
            self._add_broadcasts(tx, claim, staged.changes, state, staged.broadcast_attempts)

    def add_effects(self, tx: Transaction, message_id: int, instance_id: int, entries: Sequence[OutboxEntry]) -> None:
        """Add rows to the outbox of an actor, on behalf of one of its messages."""
        now = tx.now()
        rows: list[dict[str, Any]] = [
            {
                "message_id": message_id,
                "instance_id": instance_id,
                "effect_id": entry.effect_id,
                "name": entry.name,
                "target": entry.target,
                "arguments": entry.arguments,
                "max_attempts": entry.max_attempts,
                "success_operation": entry.on_success,
                "failure_operation": entry.on_failure,
                "available_at": self._dialect.encode_time(now + timedelta(seconds=entry.delay) if entry.delay else now),
            }
            for entry in entries
        ]
        self._effects.write(tx, rows)
        bindings = [
            {
                "effect_id": entry.effect_id,
                "instance_id": instance_id,
                "recovery_operation": entry.recovery.on_recovery,
                "status_operation": entry.recovery.on_status,
                "recovery_timeout": entry.recovery.timeout,
            }
            for entry in entries
            if entry.recovery is not None
        ]
        if bindings:
            self._recoveries.write(tx, bindings)

    def _add_broadcasts(
        self, tx: Transaction, claim: Claim, changes: Sequence[ObservableChange], state: InstanceState, attempts: int
    ) -> None:
        now = self._dialect.encode_time(tx.now())
        rows: list[dict[str, Any]] = [
            {
                "message_id": claim.message.id,
                "instance_id": claim.lease.instance_id,
                "broadcast_id": str(uuid.uuid4()),
                "observable_name": change.name,
                "value": change.value,
                "revision": state.revision,
                "state_version": state.version,
                "activation_generation": claim.lease.generation,
                "max_attempts": attempts,
                "available_at": now,
            }
            for change in changes
        ]
        self._broadcasts.write(tx, rows)
