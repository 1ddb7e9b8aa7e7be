"""One event as it leaves the runtime, and its portable form, which systems in other languages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from flask_solid_objects.telemetry.catalog import CATALOG

Scalar: TypeAlias = str | int | float | bool | None

SCHEMA_VERSION = 1
_PREFIX = "solid_objects."


def _plain(value: Any) -> Any:
    return value


def _milliseconds(seconds: float) -> int:
    """Clocks of two machines differ, so that a time that has passed may look negative."""
    return max(0, round(seconds * 1000))


def _camel(text: str) -> str:
    first, *others = text.split("_")
    return first + "".join(each.capitalize() for each in others)


_Conversion: TypeAlias = tuple[str, Callable[[Any], Any]]

# What data is called in an envelope, and what becomes of its value; data that is not here stays in this process.
PORTABLE: dict[str, _Conversion] = {
    "action": ("commitAction", _plain),
    "activation_generation": ("activationGeneration", str),
    "age": ("ageMilliseconds", _milliseconds),
    "attempt": ("attempt", _plain),
    "broadcast_id": ("broadcastId", str),
    "byte_count": ("byteCount", _plain),
    "code": ("code", str),
    "component": ("component", _plain),
    "component_count": ("componentCount", _plain),
    "count": ("count", _plain),
    "delivery_mode": ("deliveryMode", _plain),
    "depth": ("depth", _plain),
    "duration": ("durationMilliseconds", _milliseconds),
    "effect": ("effectName", _plain),
    "effect_id": ("effectId", str),
    "error": ("errorName", _plain),
    "event": ("name", _plain),
    "failures": ("failureCount", _plain),
    "generation": ("generation", str),
    "instance_id": ("instanceId", str),
    "interval": ("currentIntervalMilliseconds", _milliseconds),
    "kind": ("processKind", _plain),
    "lateness": ("latenessMilliseconds", _milliseconds),
    "message_id": ("messageId", str),
    "next_run_at": ("nextRunAt", _plain),
    "observable": ("name", _plain),
    "occurrence": ("occurrence", _plain),
    "operation": ("operation", _plain),
    "outbox": ("outboxKind", _plain),
    "outcome": ("outcome", _plain),
    "owner_id": ("ownerId", str),
    "payload": ("payload", _plain),
    "phase": ("phase", _plain),
    "previous_interval": ("previousIntervalMilliseconds", _milliseconds),
    "previous_run_at": ("previousRunAt", _plain),
    "process_id": ("processId", str),
    "reason": ("reason", _plain),
    "reminder_id": ("reminderId", str),
    "request_id": ("requestId", str),
    "retryable": ("retryable", _plain),
    "revision": ("revision", str),
    "role": ("role", _plain),
    "sequence": ("sequence", str),
    "threshold_bytes": ("thresholdBytes", _plain),
    "timeout": ("timeoutMilliseconds", _milliseconds),
    "truncated": ("truncated", _plain),
    "waiting_on": ("waitingOn", _camel),
}

# Attributes that are measured values: the name of the metric, its kind and its unit.
_METRICS = {
    "durationMilliseconds": ("solid_objects.duration", "histogram", "ms"),
    "latenessMilliseconds": ("solid_objects.reminder.lateness", "histogram", "ms"),
    "ageMilliseconds": ("solid_objects.outbox.age", "histogram", "ms"),
    "depth": ("solid_objects.mailbox.depth", "gauge", "1"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened: its name, when, to which actor if to one, and what docs/telemetry.md lists as its data.

    ``adapter`` is the kind of database: postgresql, mysql or sqlite. Times in ``data`` are seconds.
    """

    name: str
    level: int
    occurred_at: datetime
    adapter: str
    actor_type: str | None
    actor_id: str | None
    data: Mapping[str, Scalar]

    def envelope(self) -> dict[str, Any]:
        """The portable form, ready for JSON; a new dict at every call."""
        name = _PREFIX + (CATALOG[self.name].portable or self.name)
        attributes = self._attributes()
        return {
            "schemaVersion": SCHEMA_VERSION,
            "name": name,
            "occurredAt": self.occurred_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "adapter": self.adapter,
            "actorType": self.actor_type,
            "actorId": self.actor_id,
            "incarnation": attributes.get("instanceId"),
            "revision": attributes.get("revision"),
            "messageId": attributes.get("messageId"),
            "attempt": attributes.get("attempt", 0),
            "attributes": attributes,
            "metrics": self._metrics(name, attributes),
        }

    def _attributes(self) -> dict[str, Scalar]:
        attributes: dict[str, Scalar] = {}
        if self.actor_type is not None:
            attributes["actorType"] = self.actor_type
        if self.actor_id is not None:
            attributes["actorId"] = self.actor_id
        for key, value in self.data.items():
            if key in PORTABLE:
                name, convert = PORTABLE[key]
                attributes[name] = None if value is None else convert(value)
        return attributes

    def _metrics(self, name: str, attributes: Mapping[str, Scalar]) -> list[dict[str, Any]]:
        """Samples, with labels of which there are few: no actor, no message."""
        labels = {"event": name, "adapter": self.adapter, "actorType": self.actor_type or ""}
        samples: list[tuple[str, str, str, Scalar]] = [("solid_objects.events", "counter", "1", 1)]
        samples += [(*metric, attributes.get(attribute)) for attribute, metric in _METRICS.items()]
        return [
            {"name": metric, "kind": kind, "unit": unit, "value": value, "labels": labels}
            for metric, kind, unit, value in samples
            if value is not None
        ]
