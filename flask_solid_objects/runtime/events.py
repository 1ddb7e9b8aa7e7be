"""The one place where acts of the runtime are announced, and where log lines are made from them.

An event carries identities, counts and class names. Arguments, state, results and error texts never leave by it
(promise 11 of the design).
"""

from __future__ import annotations

import logging

_log = logging.getLogger("flask_solid_objects")

_LEVELS = {
    "activation.failed": logging.WARNING,
    "activation.lost": logging.WARNING,
    "call.timeout": logging.WARNING,
    "call.enqueue_timeout": logging.WARNING,
    "commit.unknown": logging.WARNING,
    "dead_letter.created": logging.ERROR,
    "message.failed": logging.WARNING,
    "process.heartbeat_failed": logging.WARNING,
    "process.pruned": logging.WARNING,
    "process.registered_again": logging.WARNING,
    "recovery.reclaimed": logging.WARNING,
    "redrive.failed": logging.WARNING,
    "redrive.finished": logging.INFO,
    "retention.failed": logging.WARNING,
    "role.failed": logging.ERROR,
    "role.paused": logging.WARNING,
    "send.no_worker": logging.WARNING,
    "state.large": logging.WARNING,
    "supervisor.role_replaced": logging.WARNING,
    "supervisor.started": logging.INFO,
    "supervisor.stopped": logging.INFO,
    "turn.handed_back": logging.INFO,
    "wake_up.failed": logging.WARNING,
    "wake_up.pooled_session": logging.WARNING,
    "effect.failed": logging.WARNING,
    "effect.dead": logging.ERROR,
    "broadcast.failed": logging.WARNING,
    "broadcast.dead": logging.ERROR,
    "delivery.failed": logging.WARNING,
    "delivery.postponed": logging.WARNING,
    "reminder.failed": logging.WARNING,
    "reminder.dead": logging.ERROR,
    "relay.failed": logging.ERROR,
    "relay.paused": logging.WARNING,
    "relay.watcher_failed": logging.ERROR,
    "socket.failed": logging.ERROR,
    "view.failed": logging.ERROR,
    "payload.failed": logging.WARNING,
}


def announce(event: str, **data: object) -> None:
    """Tell what happened; the level follows from the name, DEBUG unless it is listed."""
    level = _LEVELS.get(event, logging.DEBUG)
    if _log.isEnabledFor(level):
        details = " ".join(f"{name}={value}" for name, value in data.items())
        _log.log(level, "%s %s", event, details, extra={"solid_event": event, "solid_data": data})
