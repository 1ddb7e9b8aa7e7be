"""Log lines from events, in one place; and a formatter that writes every line of a log as one JSON object."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from flask_solid_objects.telemetry.event import Event
from flask_solid_objects.values import ActorKey

_log = logging.getLogger("flask_solid_objects")


def is_logged(level: int) -> bool:
    """Whether a line of this level would go anywhere."""
    return _log.isEnabledFor(level)


def write_line(event: Event) -> None:
    """Log an event: readable text, and its data as ``solid_event`` and ``solid_data`` of the record."""
    details = [f"{name}={value}" for name, value in event.data.items()]
    subject = _subject(event)
    if subject:
        details.insert(0, subject)
    data = _identity(event) | dict(event.data)
    _log.log(
        event.level,
        "%s %s",
        event.name,
        " ".join(details),
        extra={"solid_event": event.name, "solid_data": data},
    )


def _subject(event: Event) -> str:
    if event.actor_type is None:
        return ""
    if event.actor_id is None:
        return f"actor_type={event.actor_type}"
    return f"actor={ActorKey(actor_type=event.actor_type, actor_id=event.actor_id)}"


def _identity(event: Event) -> dict[str, Any]:
    given = {"actor_type": event.actor_type, "actor_id": event.actor_id}
    return {name: value for name, value in given.items() if value is not None}


class JsonFormatter(logging.Formatter):
    """Write a record as one line of JSON: time, level, logger, message, and the event with its data if it is one.

    Give it to any handler: ``handler.setFormatter(JsonFormatter())``. It formats the lines of everybody, not only ours.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        event = getattr(record, "solid_event", None)
        if event is not None:
            line |= {"event": event, "data": getattr(record, "solid_data", {})}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
