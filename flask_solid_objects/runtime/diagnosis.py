"""Why a call had no outcome in time: who holds the actor, what waits before it, and since when nothing moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask_solid_objects.errors import DatabaseDeadlineExceeded
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.instances import Instance
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Enqueued, MessageRecord, MessageStatus

_READ_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a ``CallTimeout`` tells."""

    status: str
    waiting_on: str
    activation: Mapping[str, Any] | None = None
    blocker: Mapping[str, Any] | None = None


def diagnose(core: Core, enqueued: Enqueued) -> Diagnosis:
    """Look once, briefly; a database that cannot be read is a diagnosis of its own."""
    deadline = core.seams.clock.monotonic() + _READ_SECONDS
    try:
        return core.database.read(lambda tx: _look(core, tx, enqueued), deadline=deadline)
    except DatabaseDeadlineExceeded:
        return Diagnosis(status="unknown", waiting_on="database_contention")


def _look(core: Core, tx: Transaction, enqueued: Enqueued) -> Diagnosis:
    record = core.store.mailbox.find(tx, enqueued.message_id)
    instance = core.store.instances.find_by_id(tx, enqueued.instance_id)
    if record is None or instance is None:
        return Diagnosis(status="unknown", waiting_on="unknown")
    blocker = core.store.heads.blocker(tx, instance.id, record.sequence)
    return Diagnosis(
        status=record.status.value,
        waiting_on=_waiting_on(tx, record, instance, has_blocker=blocker is not None),
        activation=_activation(core, tx, instance),
        blocker=blocker,
    )


def _waiting_on(tx: Transaction, record: MessageRecord, instance: Instance, *, has_blocker: bool) -> str:
    """The first reason that applies."""
    reasons = (
        (record.status is MessageStatus.CLAIMED, "message_claimed"),
        (instance.paused_at is not None, "actor_paused"),
        (instance.is_parked(tx.now()), "actor_parked"),
        (has_blocker and instance.owner is None, "earlier_message"),
        (instance.owner is not None, "activation_held"),
        (instance.ready_at is None or instance.ready_at > tx.now(), "not_yet_available"),
        (record.status is MessageStatus.READY, "ready_unclaimed"),
    )
    return next((reason for applies, reason in reasons if applies), "unknown")


def _activation(core: Core, tx: Transaction, instance: Instance) -> dict[str, Any] | None:
    if instance.owner is None:
        return None
    process = core.store.processes.find(tx, instance.owner, core.settings.process_alive_threshold)
    return {
        "owner_id": instance.owner,
        "generation": instance.generation,
        "expires_at": instance.expires_at,
        "process": None
        if process is None
        else {
            "kind": process.kind,
            "hostname": process.hostname,
            "pid": process.pid,
            "last_heartbeat_at": process.last_heartbeat_at,
            "shutdown_state": process.shutdown_state,
        },
    }
