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


def test_retention_by_type_takes_seconds_and_timedeltas() -> None:
    """Each type has an age of its own, and a wrong one is told with the type's name."""
    key = "SOLID_OBJECTS_INSTANCE_RETENTION_BY_ACTOR_TYPE"
    settings = Settings.from_mapping({key: {"Cart": timedelta(days=1), "Session": 60}})
    with pytest.raises(InvalidSettings) as raised:
        Settings.from_mapping({key: {"Cart": 0}})

    assert settings.instance_retention_by_actor_type == {"Cart": 86_400.0, "Session": 60.0}
    assert "'Cart'" in raised.value.problems[key]


def test_dead_letters_are_kept_unless_told_otherwise() -> None:
    """None means for ever, and is the default."""
    key = "SOLID_OBJECTS_DEAD_LETTER_RETENTION"

    assert Settings.from_mapping({}).dead_letter_retention is None
    assert Settings.from_mapping({key: None}).dead_letter_retention is None
    assert Settings.from_mapping({key: timedelta(days=2)}).dead_letter_retention == 172_800.0


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
        ("LEASE_DURATION", True),
        pytest.param("SHUTDOWN_TIMEOUT", 10**400, id="SHUTDOWN_TIMEOUT-huge"),
        ("SHUTDOWN_TIMEOUT", float("inf")),
        ("SHUTDOWN_TIMEOUT", "5"),
        ("SUPERVISOR_RESTART_DELAY", 11),
        ("MAX_ATTEMPTS", 2.5),
        ("RETRY_DELAY", 5),
        ("BIND_KEY", ""),
        ("ENGINE_OPTIONS", []),
        ("SHUTDOWN_TIMEOUT", -1),
        ("DEAD_PROCESS_CLEANUP_INTERVAL", -1),
        ("RETENTION_INTERVAL", -1),
        ("MESSAGE_RETENTION", 0),
        ("MESSAGE_RETENTION", None),
        ("AUDIT_RETENTION", 1e300),
        ("DEAD_LETTER_RETENTION", 0),
        ("PRUNE_BATCH_SIZE", 0),
        ("MESSAGE_RETENTION_BY_ACTOR_TYPE", [("Cart", 1)]),
        ("MESSAGE_RETENTION_BY_ACTOR_TYPE", {"": 1}),
        ("INSTANCE_RETENTION_BY_ACTOR_TYPE", {1: 1}),
        ("INSTANCE_RETENTION_BY_ACTOR_TYPE", {"Cart": None}),
    ],
)
def test_bad_value_is_refused(key: str, value: Any) -> None:
    """A value that cannot work is refused at the start, under its key."""
    with pytest.raises(InvalidSettings) as raised:
        Settings.from_mapping({f"SOLID_OBJECTS_{key}": value})

    assert raised.value.problems


def test_conflicts_are_told_beside_other_mistakes() -> None:
    """A pair that does not fit is in the same error, unless one of the two is wrong already."""
    with pytest.raises(InvalidSettings) as raised:
        Settings.from_mapping(
            {
                "SOLID_OBJECTS_MAX_ATTEMPTS": 0,
                "SOLID_OBJECTS_PROCESS_ALIVE_THRESHOLD": 5,
                "SOLID_OBJECTS_LEASE_DURATION": "short",
                "SOLID_OBJECTS_LEASE_RENEWAL_INTERVAL": 40,
            }
        )

    assert set(raised.value.problems) == {
        "SOLID_OBJECTS_MAX_ATTEMPTS",
        "SOLID_OBJECTS_PROCESS_ALIVE_THRESHOLD",
        "SOLID_OBJECTS_LEASE_DURATION",
    }


def test_redis_url_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """SOLID_OBJECTS_REDIS_URL of the environment counts where the config has none."""
    monkeypatch.setenv("SOLID_OBJECTS_REDIS_URL", "redis://there")

    assert Settings.from_mapping({"SOLID_OBJECTS_WAKE_UP_ADAPTER": "redis"}).redis_url == "redis://there"
    assert Settings.from_mapping({"SOLID_OBJECTS_REDIS_URL": "redis://here"}).redis_url == "redis://here"


def test_an_object_serves_as_adapter() -> None:
    """Anything with signal and watch may wake processes."""

    class Adapter:
        def signal(self) -> None: ...
        def watch(self) -> None: ...

    adapter = Adapter()

    assert Settings.from_mapping({"SOLID_OBJECTS_WAKE_UP_ADAPTER": adapter}).wake_up_adapter is adapter
