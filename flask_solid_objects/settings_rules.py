"""The rules of single settings: each converts a value, or says in a ValueError what it must be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

WAKE_UP_ADAPTERS = ("automatic", "in_process", "postgresql", "redis", "polling")
BROADCAST_TRANSPORTS = ("automatic", "in_process", "postgresql", "redis")
_MOST_SECONDS = 10**9


def check(rule: str, value: object) -> Any:
    """Convert one value by its rule; the text of a ValueError goes into the error."""
    return _RULES[rule](value)


def _seconds(value: object) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    # An integer beyond every float must not surface as an OverflowError of its own.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST_SECONDS:
        return float(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise ValueError(f"must be a number of seconds or a timedelta, not {value!r}.")
    return value


def _positive(value: object) -> float:
    seconds = _seconds(value)
    if seconds <= 0:
        raise ValueError(f"must be more than 0 seconds, not {value!r}.")
    return seconds


def _lease(value: object) -> float:
    seconds = _positive(value)
    if seconds > 60:
        raise ValueError(f"must be at most 60 seconds, or a crash blocks an actor too long, not {value!r}.")
    return seconds


def _not_negative(value: object) -> float:
    seconds = _seconds(value)
    if seconds < 0:
        raise ValueError(f"must not be negative, not {value!r}.")
    return seconds


def _retention(value: object) -> float:
    seconds = _positive(value)
    # Beyond that a moment so long ago is no date.
    if seconds > _MOST_SECONDS:
        raise ValueError(f"must be at most {_MOST_SECONDS} seconds, not {value!r}.")
    return seconds


def _retention_by_type(value: object) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping of actor types to seconds, not {value!r}.")
    checked: dict[str, float] = {}
    for name, seconds in value.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"must have names of actor types as its keys, not {name!r}.")
        try:
            checked[name] = _retention(seconds)
        except ValueError as error:
            raise ValueError(f"[{name!r}] {error}") from None
    return checked


def _count(value: object, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"must be a whole number of at least {least}, not {value!r}.")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be True or False, not {value!r}.")
    return value


def _text(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"must be a text or None, not {value!r}.")
    return value


def _table_prefix(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", value):
        raise ValueError(
            f"must be a lower-case letter, then letters, digits and underscores (31 at most), not {value!r}."
        )
    return value


def _adapter(value: object) -> Any:
    if isinstance(value, str):
        if value not in WAKE_UP_ADAPTERS:
            raise ValueError(
                f"must be one of {', '.join(WAKE_UP_ADAPTERS)}, or an object with signal and watch, not {value!r}."
            )
    elif not (callable(getattr(value, "signal", None)) and callable(getattr(value, "watch", None))):
        raise ValueError(f"needs the methods signal and watch, which {type(value).__name__} lacks.")
    return value


def _broadcast_transport(value: object) -> Any:
    if isinstance(value, str):
        if value not in BROADCAST_TRANSPORTS:
            raise ValueError(f"must be one of {', '.join(BROADCAST_TRANSPORTS)}, or a function, not {value!r}.")
    elif not callable(value):
        raise ValueError(f"must be a function of a list of broadcasts, not {value!r}.")
    return value


def _path(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not re.fullmatch(r"(/[A-Za-z0-9_.-]+)+", value)):
        raise ValueError(f"must be None or a path such as '/solid', without a slash at its end, not {value!r}.")
    return value


def _origins(value: object) -> tuple[str, ...]:
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise ValueError(f"must be a list of origins such as 'https://example.org', not {value!r}.")
    for each in given:
        if not isinstance(each, str) or not re.fullmatch(r"https?://[^/\s?#]+", each):
            raise ValueError(f"must hold origins such as 'https://example.org', not {each!r}.")
    return tuple(given)


def _callable(value: object) -> Any:
    if not callable(value):
        raise ValueError(f"must be a function of the attempt's number, not {value!r}.")
    return value


def _mapping(value: object) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a mapping, not {value!r}.")
    return dict(value)


_RULES: Mapping[str, Callable[[object], Any]] = {
    "positive": _positive,
    "lease": _lease,
    "not negative": _not_negative,
    "count": _count,
    "not negative count": lambda value: _count(value, 0),
    "boolean": _boolean,
    "text": _text,
    "prefix": _table_prefix,
    "adapter": _adapter,
    "path": _path,
    "origins": _origins,
    "broadcast transport": _broadcast_transport,
    "callable": _callable,
    "mapping": _mapping,
    "retention": _retention,
    "retention or None": lambda value: None if value is None else _retention(value),
    "retention by type": _retention_by_type,
}
