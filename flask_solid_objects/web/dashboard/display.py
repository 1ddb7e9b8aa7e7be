"""How the dashboard writes values: ages, counts, JSON, each the same on every page; templates escape what they get."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup

from flask_solid_objects.store.windows import MOST_COUNTED

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def count(number: int) -> str:
    """A capped count: "10,000+" above the cap."""
    return f"{MOST_COUNTED:,}+" if number > MOST_COUNTED else f"{number:,}"


def span(value: timedelta | float | None) -> str:
    """A length of time in its two greatest units, or in milliseconds."""
    if value is None:
        return "–"
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms"
    if abs(seconds) < 10:
        return f"{seconds:.1f} s"
    whole = int(abs(seconds))
    parts: list[str] = []
    for size, unit in _UNITS:
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {unit}")
    return ("-" if seconds < 0 else "") + " ".join(part for part in parts[:2] if not part.startswith("0 "))


def moment(value: datetime | None, now: datetime) -> Markup:
    """A time as its distance from now, with the exact time for those who point at it."""
    if value is None:
        return Markup('<span class="none">–</span>')
    away = value - now
    words = f"in {span(away)}" if away > timedelta(seconds=1) else f"{span(max(-away, timedelta()))} ago"
    exact = value.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(value.isoformat(), exact, words)


def document(value: Any, limit: int) -> str:
    """A plain JSON value, indented, cut at a limit; a text stands for itself."""
    return cut(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False), limit)


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def size(text: str) -> str:
    """The length of stored JSON, in bytes."""
    number = len(text.encode())
    return f"{number} bytes" if number < 1024 else f"{number / 1024:,.1f} KB"


def stored_error(text: str) -> dict[str, Any]:
    """An error as it is stored: class, message and backtrace; whatever else it is becomes a message."""
    try:
        error = json.loads(text)
    except ValueError:
        error = text
    if not isinstance(error, dict):
        error = {"message": error}
    lines = error.get("backtrace")
    return {
        "class": str(error.get("class") or "Error"),
        "message": str(error.get("message") or ""),
        "backtrace": [str(line) for line in lines] if isinstance(lines, list) else [],
    }
