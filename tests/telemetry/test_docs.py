"""docs/telemetry.md has each event as the catalog has it, and its examples run."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from flask_solid_objects.telemetry.catalog import CATALOG, Entry

TEXT = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()


def row(name: str, entry: Entry) -> str:
    portable = f"`{entry.portable or name}`"
    data = ", ".join(f"`{each}`" for each in entry.data)
    return f"| `{name}` | {entry.meaning} | {data} | {logging.getLevelName(entry.level)} | {portable} |"


def test_every_event_is_documented() -> None:
    """The table is the catalog, in its order: meaning, data, level and portable name."""
    table = TEXT.partition("## All events")[2]
    rows = [line for line in table.splitlines() if re.match(r"\| `[a-z_]+\.[a-z_]+` \|", line)]

    assert rows == [row(name, entry) for name, entry in CATALOG.items()]
