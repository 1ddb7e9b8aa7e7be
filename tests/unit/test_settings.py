"""Settings: read once, checked together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.settings import Settings, default_retry_delay


def test_defaults_are_valid() -> None:
    """Without any key everything has its default."""
    settings = Settings.from_mapping({})

    assert (settings.lease_duration, settings.lease_renewal_interval, settings.max_attempts) == (30.0, 10.0, 5)
    assert [default_retry_delay(attempt) for attempt in (1, 2, 3, 10)] == [1.0, 2.0, 4.0, 60.0]


def test_seconds_or_timedelta() -> None:
    """A time is a number of seconds or a timedelta; other keys are left alone."""
    given = {"SOLID_OBJECTS_LEASE_DURATION": timedelta(seconds=20), "SECRET_KEY": "x"}

    assert Settings.from_mapping(given).lease_duration == 20.0


def test_one_error_names_every_bad_key() -> None:
    """All mistakes are told at once, an unknown key with the nearest known one."""
    with pytest.raises(InvalidSettings) as raised:
        Settings.from_mapping(
            {
                "SOLID_OBJECTS_MAX_ATTEMPTS": 0,
                "SOLID_OBJECTS_POLLING_INTERVAL": float("nan"),
                "SOLID_OBJECTS_LEASE_DURATON": 5,
            }
        )

    assert set(raised.value.problems) == {
        "SOLID_OBJECTS_MAX_ATTEMPTS",
        "SOLID_OBJECTS_POLLING_INTERVAL",
        "SOLID_OBJECTS_LEASE_DURATON",
    }
    assert "SOLID_OBJECTS_LEASE_DURATION" in raised.value.problems["SOLID_OBJECTS_LEASE_DURATON"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("LEASE_DURATION", 61),
        ("LEASE_DURATION", 10),
        ("LEASE_RENEWAL_INTERVAL", 30),
        ("WARN_STATE_BYTES", 10 * 1024 * 1024),
        ("PROCESS_ALIVE_THRESHOLD", 15),
        ("IDLE_POLLING_INTERVAL", 0.01),
        ("WAKE_UP_ADAPTER", "pigeons"),
        ("WAKE_UP_ADAPTER", "redis"),
        ("WAKE_UP_ADAPTER", object()),
        ("TABLE_PREFIX", "Robert'); DROP TABLE"),
        ("TABLE_PREFIX", "x" * 32),
        ("STRICT_POLICIES", 1),
        ("MAX_ATTEMPTS", True),
        ("MAX_ATTEMPTS", 2.5),
        ("RETRY_DELAY", 5),
        ("BIND_KEY", ""),
        ("ENGINE_OPTIONS", []),
        ("SHUTDOWN_TIMEOUT", -1),
        ("DEAD_PROCESS_CLEANUP_INTERVAL", -1),
    ],
)
def test_bad_value_is_refused(key: str, value: Any) -> None:
    """A value that cannot work is refused at the start, under its key."""
    with pytest.raises(InvalidSettings) as raised:
        Settings.from_mapping({f"SOLID_OBJECTS_{key}": value})

    assert raised.value.problems
