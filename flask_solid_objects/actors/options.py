"""Delivery options: which of them a verb takes, and what each may be; anything else is refused with the remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from flask_solid_objects.values import Options

CALL = frozenset({"timeout", "idempotency_key", "context"})
SEND = frozenset({"delay", "at", "idempotency_key", "context", "session"})
REFERENCE = frozenset({"timeout", "idempotency_key", "context"})
STAGED_SEND = frozenset({"delay", "at", "idempotency_key"})
SCHEDULE = frozenset({"at", "delay", "every", "cron", "timezone", "missed", "key"})
_NAMES = ("timeout", "delay", "at", "idempotency_key", "session", "every", "cron", "timezone", "missed", "key")
_KEY_LENGTH = 191
_MOST_ATTEMPTS = 1_000_000


def checked_options(allowed: frozenset[str], base: Options, given: Mapping[str, Any]) -> Options:
    """Options on top of others.

    :raises TypeError: an option that the verb does not have, or of another type.
    :raises ValueError: a value that an option cannot have.
    """
    for name in given:
        if name not in allowed:
            raise TypeError(f"using() has no option {name!r} here; it has: {', '.join(sorted(allowed))}.")
    values = {
        name: _CHECKS[name](value) if name in _CHECKS and value is not None else value for name, value in given.items()
    }
    options = replace(base, **values)
    if options.delay is not None and options.at is not None:
        raise TypeError("delay and at exclude each other: one is from now on, the other a time.")
    return options


def require(allowed: frozenset[str], options: Options, verb: str) -> None:
    """Refuse options that were given, but that this verb does not take.

    :raises TypeError: naming those that it does.
    """
    for name in _NAMES:
        if getattr(options, name) is not None and name not in allowed:
            raise TypeError(f"{verb} has no option {name!r}; it has: {', '.join(sorted(allowed))}.")


def _seconds(value: object, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number of seconds or a timedelta, not {type(value).__name__}.")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value}.")
    return float(value)


def _timeout(value: object) -> float:
    seconds = _seconds(value, "timeout")
    if seconds <= 0:
        raise ValueError(f"timeout must be more than 0 seconds, not {seconds:g}.")
    return seconds


def checked_wait(value: object) -> float:
    """Seconds to wait for a message; 0 only looks."""
    seconds = _seconds(value, "timeout")
    if seconds < 0:
        raise ValueError(f"timeout must be 0 seconds or more, not {seconds:g}.")
    return seconds


def checked_delay(value: object) -> float:
    """Seconds from now on."""
    seconds = _seconds(value, "delay")
    if not 0 <= seconds <= _LONGEST_DELAY:
        raise ValueError(f"delay must be from 0 seconds to 100 years, not {seconds:g}.")
    return seconds


def checked_attempts(value: object) -> int:
    """How often something may be started."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"max_attempts is a whole number, not {type(value).__name__}.")
    if not 1 <= value <= _MOST_ATTEMPTS:
        raise ValueError(f"max_attempts must be from 1 to {_MOST_ATTEMPTS}, not {value}.")
    return value


def checked_recovery_timeout(value: object) -> float | None:
    """Seconds without a sign of life after which an effect counts as abandoned."""
    if value is None:
        return None
    seconds = _seconds(value, "recovery_timeout")
    if not 0 < seconds <= _LONGEST_DELAY:
        raise ValueError(f"recovery_timeout must be more than 0 seconds and at most 100 years, not {seconds:g}.")
    return seconds


def _at(value: object) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError(f"at is an aware datetime, not {type(value).__name__}.")
    if value.utcoffset() is None:
        raise ValueError("at has no time zone; use datetime.now(UTC) or give it tzinfo=.")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"at is outside of the years 1 to 9999 in UTC: {value}.") from error


def _text_key(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is text, not {type(value).__name__}; use str(...).")
    if not 1 <= len(value) <= _KEY_LENGTH:
        raise ValueError(f"{name} has {len(value)} characters; 1 to {_KEY_LENGTH} are possible.")
    if "\0" in value:
        raise ValueError(f"{name} holds a NUL character, which databases cannot store.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} holds a lone surrogate, which is not text.") from error
    return str.__str__(value)


def checked_key(value: object) -> str | None:
    """The key that tells reminders of one operation apart; whole numbers are taken as their digits."""
    if value is None:
        return None
    return _text_key("key", str(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def _missed(value: object) -> str:
    if value not in ("latest", "all"):
        raise ValueError(f'missed must be "latest" or "all", not {value!r}.')
    return str(value)


_LONGEST_DELAY = timedelta(days=36525).total_seconds()
_CHECKS: Mapping[str, Callable[[object], Any]] = {
    "timeout": _timeout,
    "delay": checked_delay,
    "at": _at,
    "idempotency_key": partial(_text_key, "idempotency_key"),
    "key": checked_key,
    "missed": _missed,
}
