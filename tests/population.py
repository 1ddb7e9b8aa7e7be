"""Raw rows of a small population, for tests that look at or break the tables without running anything."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Table

from flask_solid_objects.store.dialects import Dialect
from flask_solid_objects.store.tables import Tables

LEASE = 30.0
TOKEN = "token"


def as_stored(connection: Connection, values: dict[str, Any]) -> dict[str, Any]:
    """Plain JSON values as the columns of this database take them: as text where JSON is kept in text."""
    if connection.dialect.name != "mysql":
        return values
    return {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in values.items()}


@dataclass(slots=True)
class Rows:
    """Writes raw rows; times are given in seconds from now."""

    connection: Connection
    tables: Tables
    dialect: Dialect
    now: datetime
    owner: str = ""

    def at(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.now + timedelta(seconds=seconds)

    def add(self, table: Table, **values: Any) -> Any:
        times = {name: self.now for name in ("created_at", "updated_at") if name in table.c}
        result = self.connection.execute(table.insert().values(as_stored(self.connection, times | values)))
        assert result.inserted_primary_key is not None
        return result.inserted_primary_key[0]

    def change(self, table: Table, row_id: int, **values: Any) -> None:
        assert (
            self.connection.execute(
                table.update().where(table.c.id == row_id).values(as_stored(self.connection, values))
            ).rowcount
            == 1
        )

    def delete(self, table: Table, **values: Any) -> None:
        conditions = [table.c[name] == value for name, value in values.items()]
        assert self.connection.execute(table.delete().where(*conditions)).rowcount == 1

    def process(self, **values: Any) -> str:
        process_id = str(uuid.uuid4())
        beats = {"started_at": self.now, "last_heartbeat_at": self.now}
        self.add(
            self.tables.processes, id=process_id, kind="worker", hostname="host", pid=1, metadata={}, **(beats | values)
        )
        return process_id

    def actor(self, actor_id: str, *, following: int, **values: Any) -> int:
        hints = {"state": {}, "next_message_sequence": following, "has_backlog": False}
        key = {"actor_type": "Counter", "actor_id": self.dialect.encode_text(actor_id)}
        return int(self.add(self.tables.instances, **(key | hints | values)))

    def message(self, instance_id: int, sequence: int, *, delay: float = 0, **values: Any) -> int:
        defaults = {"operation": "increment", "delivery_mode": "async", "arguments": {}, "max_attempts": 3}
        times = {"enqueued_at": self.at(-60), "available_at": self.at(delay - 60)}
        key = {
            "instance_id": instance_id,
            "actor_type": "Counter",
            "actor_id": self.dialect.encode_text(f"of {instance_id}"),
        }
        request_id = str(uuid.uuid4())
        return int(
            self.add(
                self.tables.messages,
                **(key | defaults | times | {"sequence": sequence, "request_id": request_id} | values),
            )
        )

    def ready(
        self, instance_id: int, sequence: int, *, due: float = -60, delayed: bool = False, blocking: bool = False
    ) -> int:
        attempts = 1 if blocking else 0
        message_id = self.message(instance_id, sequence, delay=due + 60 if delayed else 0, attempt_count=attempts)
        self.add(
            self.tables.ready_messages,
            message_id=message_id,
            instance_id=instance_id,
            sequence=sequence,
            available_at=self.at(due),
            delayed=delayed,
            blocking=blocking,
        )
        return message_id

    def claimed(self, instance_id: int, sequence: int, **values: Any) -> int:
        message_id = self.message(instance_id, sequence, attempt_count=1)
        claim = {"process_id": self.owner, "activation_token": TOKEN, "activation_generation": 4}
        self.add(
            self.tables.claimed_messages,
            message_id=message_id,
            instance_id=instance_id,
            claimed_at=self.now,
            **(claim | values),
        )
        return message_id

    def completed(self, instance_id: int, sequence: int, **values: Any) -> int:
        return self.message(instance_id, sequence, attempt_count=1, completed_at=self.now, **values)

    def dead(self, instance_id: int, sequence: int) -> int:
        message_id = self.message(instance_id, sequence, attempt_count=3, last_failed_at=self.now)
        self.bury(instance_id, message_id)
        return message_id

    def bury(self, instance_id: int, message_id: int) -> None:
        self.add(
            self.tables.dead_letters,
            message_id=message_id,
            instance_id=instance_id,
            actor_type="Counter",
            operation="increment",
            arguments={},
            attempts=3,
            exception_class="ValueError",
            exception_message="no",
            backtrace=[],
            actor_id=self.dialect.encode_text("a"),
            first_failed_at=self.now,
            last_failed_at=self.now,
        )

    def effect(self, instance_id: int, message_id: int, **values: Any) -> int:
        defaults = {"name": "charge", "arguments": {}, "max_attempts": 3, "available_at": self.now}
        key = {"instance_id": instance_id, "message_id": message_id, "effect_id": str(uuid.uuid4())}
        return int(self.add(self.tables.effects, **(key | defaults | values)))

    def broadcast(self, instance_id: int, message_id: int, revision: int, **values: Any) -> int:
        defaults = {"value": {}, "state_version": 1, "activation_generation": 1, "max_attempts": 3}
        key = {"instance_id": instance_id, "message_id": message_id, "broadcast_id": str(uuid.uuid4())}
        told = {"observable_name": "total", "revision": revision, "available_at": self.now}
        return int(self.add(self.tables.broadcasts, **(key | defaults | told | values)))

    def lease(self, expires: float = LEASE) -> dict[str, Any]:
        return {
            "activation_owner_id": self.owner,
            "activation_token": TOKEN,
            "activation_generation": 4,
            "activation_expires_at": self.at(expires),
        }


@dataclass(slots=True)
class Population:
    """One actor in every state that the protocol allows, and the messages that the faults are planted on."""

    rows: Rows
    idle: int = 0
    busy: int = 0
    waiting: int = 0
    backing_off: int = 0
    first_finished: int = 0
    last_finished: int = 0
    running: int = 0
    queued: int = 0
    overtaker: int = 0
    buried: int = 0
    delivered: int = 0
    told: int = 0

    def settle(self) -> None:
        rows = self.rows
        rows.owner = rows.process()
        self.idle = rows.actor("idle", following=5, activation_generation=4)
        self.first_finished = rows.completed(self.idle, 1)
        rows.completed(self.idle, 2, rejected_at=rows.now, rejection={"code": "no"})
        self.buried = rows.dead(self.idle, 3)
        self.last_finished = rows.completed(self.idle, 4, error={"class": "Skipped"})
        rows.actor("unused", following=1)
        self._settle_working()
        self._settle_waiting()
        self._settle_held_back()
        self._settle_outboxes()

    def _settle_outboxes(self) -> None:
        """Delivered in order, dead in between, revived late, and another pair; broadcasts of two turns."""
        rows = self.rows
        rows.change(rows.tables.instances, self.idle, state_revision=4)
        pair = {"name": "__actor_message__", "target": "receiver"}
        rows.effect(self.idle, self.first_finished, status="dead", attempt_count=3, error={"class": "E"}, **pair)
        revived = {"attempt_count": 1, "error": {"class": "ValueError"}, "completed_at": rows.at(-60)}
        rows.effect(self.idle, self.first_finished, **revived, **pair)
        self.delivered = rows.effect(self.idle, self.first_finished, status="completed", attempt_count=1, **pair)
        rows.effect(self.idle, self.last_finished, **pair)
        rows.effect(self.idle, self.last_finished, **(pair | {"target": "another"}))
        stopped = rows.process(shutdown_state="stopped", stopped_at=rows.at(-121))
        held = rows.effect(self.idle, self.first_finished, status="processing", claimed_by=stopped, effect_id="patient")
        assert held
        rows.add(rows.tables.effect_recoveries, effect_id="patient", instance_id=self.idle, recovery_timeout=86_400.0)
        for name in ("total", "parity"):
            rows.broadcast(self.idle, self.first_finished, 1, observable_name=name)
        self.told = rows.broadcast(self.idle, self.last_finished, 4)

    def _settle_working(self) -> None:
        rows = self.rows
        self.busy = rows.actor("busy", following=4, ready_at=rows.now, has_backlog=True, **rows.lease())
        self.running = rows.claimed(self.busy, 1)
        self.queued = rows.ready(self.busy, 2)
        self.overtaker = rows.ready(self.busy, 3)
        alone = rows.actor("alone", following=3, ready_at=rows.at(600), **rows.lease(expires=-LEASE))
        rows.ready(alone, 1, due=600, delayed=True)
        rows.claimed(alone, 2)

    def _settle_waiting(self) -> None:
        """A delayed message may be overtaken, and behind one in back-off nothing is eligible."""
        rows = self.rows
        self.waiting = rows.actor("waiting", following=4, ready_at=rows.at(300))
        rows.ready(self.waiting, 1, due=300, delayed=True)
        rows.completed(self.waiting, 2)
        rows.ready(self.waiting, 3, due=900, delayed=True)
        self.backing_off = rows.actor("backing off", following=5, ready_at=rows.at(120), has_backlog=True)
        rows.ready(self.backing_off, 1, due=400, delayed=True)
        rows.completed(self.backing_off, 2)
        rows.ready(self.backing_off, 3, due=120, blocking=True)
        rows.ready(self.backing_off, 4)

    def _settle_held_back(self) -> None:
        rows = self.rows
        paused = rows.actor("paused", following=2, paused_at=rows.now, has_backlog=True)
        rows.ready(paused, 1)
        parking = {"parked_until": rows.at(90), "parked_count": 1, "parked_error": {"class": "ValueError"}}
        parked = rows.actor("parked", following=2, ready_at=rows.at(90), has_backlog=True, **parking)
        rows.ready(parked, 1)
