"""The settings of one application: ``SOLID_OBJECTS_*`` keys, read once and checked together."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.settings_rules import BROADCAST_TRANSPORTS, WAKE_UP_ADAPTERS, check

PREFIX = "SOLID_OBJECTS_"
_DAY = 86_400.0
_LONGEST_RETRY_DELAY = 366 * _DAY
# After so many pauses, they grow no further.
_MOST_PAUSES = 50


def default_retry_delay(attempt: int) -> float:
    """1, 2, 4, 8 … seconds after the first, second … failed attempt, a minute at most."""
    return float(min(2 ** (attempt - 1), 60))


def _setting(default: Any, unit: str, rule: str, text: str) -> Any:
    """A field with what the docs and the validation need to know about it."""
    metadata = {"unit": unit, "rule": rule, "text": text}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting under its lower-case name; times in seconds.

    The metadata of each field holds its unit, its rule and one line of help.
    """

    bind_key: str | None = _setting(None, "name", "text", "The Flask-SQLAlchemy bind that holds the tables.")
    table_prefix: str = _setting("solid_objects_", "name", "prefix", "What every table name begins with.")
    strict_policies: bool = _setting(False, "", "boolean", "Deny server code too until a policy is registered.")
    polling_interval: float = _setting(0.1, "seconds", "positive", "How soon a role looks again after work.")
    idle_polling_interval: float = _setting(
        1.0, "seconds", "positive", "The longest pause between two looks of a role."
    )
    sync_polling_interval: float = _setting(0.05, "seconds", "positive", "How often a waiting caller looks.")
    lease_duration: float = _setting(30.0, "seconds", "lease", "How long a lease lasts without renewal; 60 at most.")
    lease_renewal_interval: float = _setting(10.0, "seconds", "positive", "How often a held lease is renewed.")
    max_messages_per_activation_pass: int = _setting(50, "messages", "count", "Turns of one actor before others.")
    max_activation_duration: float = _setting(5.0, "seconds", "positive", "Time for one actor before others.")
    max_mailbox_length: int = _setting(10_000, "messages", "count", "Waiting messages that one actor may have.")
    max_payload_bytes: int = _setting(1024 * 1024, "bytes", "count", "Size of the arguments of a message.")
    max_state_bytes: int = _setting(5 * 1024 * 1024, "bytes", "count", "Size of the state of an actor.")
    warn_state_bytes: int = _setting(64 * 1024, "bytes", "count", "Size of state above which each commit warns.")
    max_result_bytes: int = _setting(1024 * 1024, "bytes", "count", "Size of a result or a rejection.")
    retained_idempotency_keys: int = _setting(64, "keys", "count", "Finished keys that an actor remembers.")
    retained_idempotency_keys_bytes: int = _setting(16 * 1024, "bytes", "count", "Size of that memory.")
    max_attempts: int = _setting(5, "attempts", "count", "How often a message may be started.")
    retry_delay: Callable[[int], float] = _setting(
        default_retry_delay, "seconds", "callable", "The pause after failed attempt n, as a function of n."
    )
    worker_count: int = _setting(1, "workers", "count", "Worker threads of one `flask solid work`.")
    effect_worker_count: int = _setting(1, "workers", "not negative count", "Threads of it that run effects.")
    reminder_scheduler_count: int = _setting(1, "workers", "not negative count", "Threads of it that ring reminders.")
    broadcast_worker_count: int = _setting(1, "workers", "not negative count", "Threads of it that deliver broadcasts.")
    process_heartbeat_interval: float = _setting(
        15.0, "seconds", "positive", "How often a process gives a sign of life."
    )
    process_alive_threshold: float = _setting(60.0, "seconds", "positive", "Silence after which a process is dead.")
    shutdown_timeout: float = _setting(15.0, "seconds", "positive", "How long running turns may finish on TERM.")
    supervisor_monitor_interval: float = _setting(1.0, "seconds", "positive", "How often ended roles are looked for.")
    supervisor_restart_delay: float = _setting(0.1, "seconds", "positive", "The first pause before a role is replaced.")
    supervisor_max_restart_delay: float = _setting(10.0, "seconds", "positive", "The longest such pause.")
    dead_process_cleanup_interval: float = _setting(
        60.0, "seconds", "not negative", "How often the dead are freed; 0: never."
    )
    retention_interval: float = _setting(
        3600.0, "seconds", "not negative", "How often maintenance prunes what is old; 0: never."
    )
    message_retention: float = _setting(30 * _DAY, "seconds", "retention", "How long a finished message is kept.")
    message_retention_by_actor_type: Mapping[str, float] = _setting(
        {}, "seconds by type", "retention by type", "The same for actor types of which it is longer or shorter."
    )
    instance_retention_by_actor_type: Mapping[str, float] = _setting(
        {}, "seconds by type", "retention by type", "How long after its last use an actor is deleted; else never."
    )
    process_retention: float = _setting(7 * _DAY, "seconds", "retention", "How long a stopped process is listed.")
    dead_letter_retention: float | None = _setting(
        None, "seconds", "retention or None", "How long dead letters, effects and broadcasts are kept; None: for ever."
    )
    audit_retention: float = _setting(365 * _DAY, "seconds", "retention", "How long acts of operators are on record.")
    redrive_retention: float = _setting(30 * _DAY, "seconds", "retention", "How long a finished redrive is kept.")
    reminder_retention: float = _setting(30 * _DAY, "seconds", "retention", "How long an ended reminder is kept.")
    prune_batch_size: int = _setting(1000, "rows", "count", "Rows that are looked at before a pruning commits.")
    redrive_batch_size: int = _setting(100, "rows", "count", "Dead rows that a redrive revives before it commits.")
    redrive_batch_pause: float = _setting(0.05, "seconds", "not negative", "Its rest between two batches.")
    broadcast_transport: Any = _setting(
        "automatic",
        "name",
        "broadcast transport",
        "How broadcasts reach other processes: " + ", ".join(BROADCAST_TRANSPORTS) + ", or a function of a list.",
    )
    url_prefix: str | None = _setting("/solid", "path", "path", "Where live views are served; None: nowhere.")
    live_polling_interval: float = _setting(
        1.0, "seconds", "positive", "How often a web process looks for changes that nobody told it of."
    )
    live_heartbeat: float = _setting(25.0, "seconds", "positive", "Silence after which a socket says that it lives.")
    live_recheck_interval: float = _setting(
        300.0, "seconds", "positive", "How often the policy is asked again about an open subscription."
    )
    live_allowed_origins: tuple[str, ...] = _setting(
        (), "origins", "origins", "Origins beside the app's own whose pages may open sockets."
    )
    live_max_sockets: int = _setting(100, "sockets", "not negative count", "Open sockets of one process; then polling.")
    health_lag: float = _setting(
        60.0, "seconds", "positive", "How long a message may be due before the health endpoint calls the lag late."
    )
    dashboard_statement_timeout: float = _setting(
        2.0, "seconds", "positive", "Time that one statement of a dashboard page may take."
    )
    dashboard_value_limit: int = _setting(2_000, "characters", "count", "Length at which the dashboard cuts a value.")
    login_url: str | None = _setting(None, "URL", "text", "Where a page goes whose login has ended.")
    wake_up_adapter: Any = _setting(
        "automatic",
        "name",
        "adapter",
        "How processes wake each other: " + ", ".join(WAKE_UP_ADAPTERS) + ", or an object.",
    )
    redis_url: str | None = _setting(
        None, "URL", "text", "A Redis server for wake-ups and broadcasts; also from the environment."
    )
    pool_size: int = _setting(10, "connections", "count", "Connections that the runtime's own pool keeps.")
    max_overflow: int = _setting(20, "connections", "not negative count", "Connections beyond that under load.")
    engine_options: Mapping[str, Any] = _setting(
        {}, "mapping", "mapping", "More arguments of SQLAlchemy's create_engine."
    )

    def pause_after(self, attempt: int) -> float:
        """Seconds until the next attempt; the default where the application's own function fails or makes no sense.

        A message whose failure could not be recorded would be run for ever.
        """
        try:
            seconds = float(self.retry_delay(attempt))
        except Exception:
            return default_retry_delay(attempt)
        return seconds if 0 <= seconds <= _LONGEST_RETRY_DELAY else default_retry_delay(attempt)

    def pause_after_waiting(self, waited: float) -> float:
        """Seconds until the next look at what has no room yet, which grow as those between attempts do.

        They are told from the seconds waited so far, since waiting for room uses up no attempt.
        """
        passed = 0.0
        for attempt in range(1, _MOST_PAUSES):
            pause = self.pause_after(attempt)
            passed += pause
            if passed > waited:
                return pause
        return self.pause_after(_MOST_PAUSES)

    @classmethod
    def from_mapping(cls, config: Mapping[str, object]) -> Settings:
        """Read ``SOLID_OBJECTS_*`` keys.

        :raises InvalidSettings: naming every key that is wrong or unknown.
        """
        names = {PREFIX + each.name.upper(): each for each in fields(cls)}
        problems: dict[str, str] = {}
        values: dict[str, Any] = {}
        given = {key: value for key, value in config.items() if key.startswith(PREFIX)}
        if "SOLID_OBJECTS_REDIS_URL" not in given and os.environ.get("SOLID_OBJECTS_REDIS_URL"):
            given["SOLID_OBJECTS_REDIS_URL"] = os.environ["SOLID_OBJECTS_REDIS_URL"]
        for key, value in given.items():
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1)
                problems[key] = "is not a setting" + (f"; did you mean {near[0]}?" if near else ".")
                continue
            try:
                values[names[key].name] = check(names[key].metadata["rule"], value)
            except ValueError as error:
                problems[key] = str(error)
        settings = cls(**values)
        problems |= settings._conflicts(problems)
        if problems:
            raise InvalidSettings(problems)
        return settings

    def _conflicts(self, wrong: Mapping[str, str]) -> dict[str, str]:
        """Settings that are right alone and wrong together; without those that compare with a wrong one."""
        problems: dict[str, str] = {}
        for name, other, holds, text in _PAIRS:
            key, other_key = PREFIX + name.upper(), PREFIX + other.upper()
            if not holds(self) and key not in wrong and other_key not in wrong:
                problems[key] = f"{text} {other_key} ({getattr(self, other)})."
        return problems


# A setting, the one that it has to agree with, when they do, and how the error begins.
_PAIRS: tuple[tuple[str, str, Callable[[Settings], bool], str], ...] = (
    (
        "lease_renewal_interval",
        "lease_duration",
        lambda settings: settings.lease_renewal_interval < settings.lease_duration,
        "must be shorter than",
    ),
    (
        "warn_state_bytes",
        "max_state_bytes",
        lambda settings: settings.warn_state_bytes <= settings.max_state_bytes,
        "must not exceed",
    ),
    (
        "process_alive_threshold",
        "process_heartbeat_interval",
        lambda settings: settings.process_alive_threshold > settings.process_heartbeat_interval,
        "must be longer than",
    ),
    (
        "idle_polling_interval",
        "polling_interval",
        lambda settings: settings.idle_polling_interval >= settings.polling_interval,
        "must not be shorter than",
    ),
    (
        "supervisor_max_restart_delay",
        "supervisor_restart_delay",
        lambda settings: settings.supervisor_max_restart_delay >= settings.supervisor_restart_delay,
        "must not be shorter than",
    ),
    (
        "redis_url",
        "wake_up_adapter",
        lambda settings: settings.wake_up_adapter != "redis" or settings.redis_url is not None,
        "is needed for the value of",
    ),
)
