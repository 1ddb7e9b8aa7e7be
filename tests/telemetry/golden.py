"""The portable contract of events, as other implementations of it have: allowed attributes, and those of each event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DATA = json.loads((Path(__file__).parent / "telemetry-events.json").read_text())
WAITING_ON: dict[str, str] = {
    each["rubyReason"]: each["waitingOn"]
    for each in json.loads((Path(__file__).parent / "sync-timeout.json").read_text())
}
ATTRIBUTES: list[str] = _DATA["attributes"]


@dataclass(frozen=True)
class Entry:
    """The attributes of one event, or of those events of a name that match."""

    name: str
    attributes: frozenset[str]
    match: dict[str, Any]

    def fits(self, envelope: dict[str, Any]) -> bool:
        attributes = envelope["attributes"]
        is_named = envelope["name"] == f"solid_objects.{self.name}"
        return is_named and all(attributes.get(name) == value for name, value in self.match.items())

    def __str__(self) -> str:
        return " ".join([self.name, *self.match.values()])


ENTRIES = [Entry(each["name"], frozenset(each["attributes"]), each.get("match", {})) for each in _DATA["events"]]
