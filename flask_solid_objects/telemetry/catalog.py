"""Every event that the runtime announces: its level in the log, what it carries, what it means, its portable name.

An event carries identities, counts and class names. Arguments, state, results and error texts never leave by one
(promise 11 of the design). Whoever announces a name or a piece of data that is not here is refused by a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from logging import DEBUG, ERROR, INFO, WARNING


@dataclass(frozen=True, slots=True)
class Entry:
    """One event; ``portable`` is its name in envelopes, where systems that are written in other languages share one."""

    level: int
    meaning: str
    data: tuple[str, ...] = ()
    portable: str | None = None


_MESSAGE = ("actor", "instance_id", "message_id", "request_id", "operation", "delivery_mode", "sequence", "attempt")
_ACTIVATION = ("actor", "instance_id", "owner_id", "generation")
_ACTION = (*_MESSAGE, "activation_generation", "action")
_EFFECT = ("actor", "instance_id", "message_id", "effect_id", "effect", "attempt")
_BROADCAST = ("actor", "instance_id", "message_id", "broadcast_id", "observable", "revision", "attempt")

# What one piece of data, ``message``, stands for where a message is announced.
MESSAGE_DATA = _MESSAGE[1:]

CATALOG: dict[str, Entry] = {
    # -- messages and turns
    "message.enqueued": Entry(DEBUG, "A message was stored.", _MESSAGE),
    "message.started": Entry(DEBUG, "A process begins a turn with a message that it has claimed.", _MESSAGE),
    "message.completed": Entry(DEBUG, "A turn ended well and was committed.", (*_MESSAGE, "duration", "revision")),
    "message.rejected": Entry(DEBUG, "The actor said no; its state is unchanged.", (*_MESSAGE, "duration", "code")),
    "message.failed": Entry(
        WARNING, "A turn raised; nothing of it was kept.", (*_MESSAGE, "duration", "error", "outcome", "retryable")
    ),
    "message.retry": Entry(DEBUG, "A message that failed waits for its next attempt.", _MESSAGE),
    "message.skipped": Entry(DEBUG, "A reminder was cancelled or moved before its message ran.", _MESSAGE),
    "dead_letter.created": Entry(ERROR, "A message failed for good.", _MESSAGE),
    "recovery.reclaimed": Entry(
        WARNING, "A message was taken back from a process that died or stalled.", (*_MESSAGE, "held_by")
    ),
    "recovery.completed": Entry(DEBUG, "An actor was told of its abandoned effect.", _MESSAGE),
    "recovery.failed": Entry(ERROR, "An actor could not be told of its abandoned effect.", _MESSAGE),
    "turn.handed_back": Entry(INFO, "A message was put back uncounted: its turn was interrupted.", _MESSAGE),
    "commit.unknown": Entry(
        WARNING, "A connection was lost at COMMIT; what became of it is found out.", ("act", "actor", "message_id")
    ),
    "state.large": Entry(
        WARNING, "A committed state is above the soft limit.", ("actor", "instance_id", "byte_count", "threshold_bytes")
    ),
    "actor_code.write_forbidden": Entry(WARNING, "Actor code tried to write to the application's tables.", _MESSAGE),
    # -- activations
    "activation.claimed": Entry(DEBUG, "A process has taken the lease of an actor.", _ACTIVATION),
    "activation.started": Entry(DEBUG, "An actor is loaded into memory.", _ACTIVATION),
    "activation.completed": Entry(DEBUG, "An actor was loaded.", _ACTIVATION),
    "activation.failed": Entry(
        WARNING, "A migration or a hook raised; the actor is parked for a while.", (*_ACTIVATION, "error")
    ),
    "activation.renewed": Entry(DEBUG, "A lease was prolonged during a long turn.", _ACTIVATION),
    "activation.released": Entry(DEBUG, "A process has given the lease of an actor back.", _ACTIVATION),
    "activation.lost": Entry(
        WARNING, "A turn could not be committed: its lease was taken over, or nobody knows.", (*_MESSAGE, "error")
    ),
    "activation.deactivation_failed": Entry(
        WARNING, "An `on_deactivate` hook raised; nothing depends on it.", (*_ACTIVATION, "error")
    ),
    "lease.renewal_failed": Entry(WARNING, "A lease could not be prolonged; it is tried again soon.", ("error",)),
    # -- commit actions
    "commit_action.started": Entry(DEBUG, "A commit action ran; told once its transaction has ended.", _ACTION),
    "commit_action.completed": Entry(DEBUG, "A commit action was committed with its turn.", _ACTION),
    "commit_action.failed": Entry(WARNING, "A commit action raised; its turn was rolled back.", (*_ACTION, "error")),
    # -- effects, and messages between actors
    "effect.enqueued": Entry(DEBUG, "A turn has committed an effect.", _EFFECT[:-1]),
    "effect.completed": Entry(DEBUG, "An effect has ended; a rejection is an end too.", (*_EFFECT, "outcome")),
    "effect.failed": Entry(WARNING, "An effect raised and is tried again.", (*_EFFECT, "error")),
    "effect.dead": Entry(ERROR, "An effect failed for good.", (*_EFFECT, "error")),
    "effect.retired": Entry(WARNING, "An abandoned effect was given up; its actor is told.", _EFFECT),
    "effect.callback_waits": Entry(
        DEBUG, "The mailbox is full; the callback waits in the outbox.", ("actor", "effect_id", "operation")
    ),
    "delivery.failed": Entry(WARNING, "Messages to an actor could not be delivered.", ("instance_id", "error")),
    "delivery.postponed": Entry(
        WARNING, "The receiver's mailbox is full; the message waits for room.", ("actor", "effect_id", "waited")
    ),
    "delivery.repeated": Entry(DEBUG, "The receiver has finished this message before.", ("actor", "effect_id")),
    "outbox.age": Entry(
        DEBUG,
        "An effect or a broadcast is being delivered; its age counts from when it was due.",
        (*_EFFECT, "outbox", "age", "broadcast_id", "revision"),
    ),
    # -- broadcasts and browsers
    "broadcast.enqueued": Entry(
        DEBUG,
        "A turn has committed a change of an observable.",
        ("actor", "instance_id", "message_id", "observable", "revision"),
    ),
    "broadcast.delivered": Entry(DEBUG, "A broadcast was delivered, or a newer one was.", _BROADCAST),
    "broadcast.failed": Entry(WARNING, "A transport failed; the broadcast is tried again.", (*_BROADCAST, "error")),
    "broadcast.dead": Entry(ERROR, "A broadcast failed for good.", (*_BROADCAST, "error")),
    "broadcast.listener_failed": Entry(WARNING, "A listener of this process raised.", ("error",)),
    "realtime.connected": Entry(DEBUG, "A browser subscribed to an actor.", ("actor",)),
    "realtime.disconnected": Entry(DEBUG, "A browser left an actor.", ("actor",)),
    "subscription.rejected": Entry(DEBUG, "A browser's subscription was refused.", ("reason",)),
    "socket.refused": Entry(DEBUG, "A socket was refused before its upgrade.", ("reason",)),
    "socket.closed": Entry(DEBUG, "A browser closed its socket.", ("code",)),
    "socket.failed": Entry(ERROR, "A socket was ended by an error; its page comes back.", ("error",)),
    "socket.gone": Entry(DEBUG, "A socket was closed that was gone already.", ("error",)),
    "component.refreshed": Entry(DEBUG, "A component was rendered anew, or was not.", ("outcome",)),
    "component.batch_refreshed": Entry(DEBUG, "Several components were.", ("component_count", "failures")),
    "payload.failed": Entry(
        WARNING,
        "A payload could not be computed for a viewer.",
        ("actor", "payload", "error"),
        "payload_broadcast.failed",
    ),
    "relay.paused": Entry(WARNING, "The database is away; browsers are told later.", ("error",)),
    "relay.failed": Entry(ERROR, "Telling browsers failed; the next look compares again.", ("error",)),
    "relay.watcher_failed": Entry(ERROR, "One watcher could not be told of a change.", ("actor", "error")),
    "view.failed": Entry(
        ERROR, "What views show could not be read or rendered; changes are told without values.", ("actor", "error")
    ),
    # -- reminders
    "reminder.enqueued": Entry(
        DEBUG,
        "A due reminder has become a message.",
        ("actor", "instance_id", "message_id", "reminder_id", "operation", "occurrence", "attempt", "lateness"),
    ),
    "reminder.replaced": Entry(
        DEBUG,
        "A turn has moved a reminder that was armed.",
        ("actor", "instance_id", "message_id", "operation", "previous_run_at", "next_run_at"),
    ),
    "reminder.failed": Entry(
        WARNING, "A reminder could not ring and is tried again.", ("actor", "operation", "attempt", "error")
    ),
    "reminder.dead": Entry(ERROR, "A reminder could not ring for good.", ("actor", "operation", "attempt", "error")),
    # -- callers
    "call.timeout": Entry(
        WARNING,
        "A call had no outcome in time; its message stays.",
        ("actor", "instance_id", "message_id", "operation", "timeout", "waiting_on"),
        "sync.timeout",
    ),
    "call.enqueue_timeout": Entry(
        WARNING, "A message could not be stored in time.", ("actor", "operation", "timeout"), "sync.enqueue_timeout"
    ),
    "call.transaction_rejected": Entry(
        DEBUG,
        "A call was refused inside the caller's own transaction.",
        ("actor", "operation"),
        "sync.transaction_rejected",
    ),
    "send.no_worker": Entry(
        WARNING, "A message was sent, and no live worker knows its type.", ("actor_type", "remedy")
    ),
    "send.unobserved": Entry(DEBUG, "Whether a worker lives could not be found out.", ("actor_type", "error")),
    "snapshot.read": Entry(DEBUG, "Committed state was read.", ("actor", "instance_id", "revision")),
    "mailbox.depth": Entry(
        DEBUG,
        "Diagnostics have counted a mailbox; the depth is known unless the count was cut.",
        ("actor", "instance_id", "count", "depth", "truncated"),
    ),
    # -- the life of actors and rows
    "actor.destroyed": Entry(DEBUG, "An actor was destroyed.", ("actor", "instance_id")),
    "actor.expired": Entry(DEBUG, "Retention has deleted an actor.", ("actor", "instance_id")),
    "messages.pruned": Entry(DEBUG, "Retention has deleted messages.", ("count",)),
    "instances.pruned": Entry(DEBUG, "Retention has deleted actors.", ("count",)),
    "processes.pruned": Entry(DEBUG, "Retention has deleted rows of stopped processes.", ("count",)),
    "retention.pruned": Entry(DEBUG, "Retention has deleted rows of another kind.", ("kind", "count")),
    "retention.failed": Entry(
        WARNING, "Retention failed; it is tried again later.", ("error",), "supervisor.retention_failed"
    ),
    "redrive.finished": Entry(INFO, "A redrive has ended.", ("redrive_id", "outbox", "count")),
    "redrive.failed": Entry(
        WARNING, "A batch of a redrive failed; it is tried again.", ("error",), "supervisor.redrive_failed"
    ),
    # -- processes
    "process.pruned": Entry(WARNING, "A dead process was deregistered.", ("process_id",)),
    "process.heartbeat_failed": Entry(WARNING, "A sign of life could not be written.", ("role", "error")),
    "process.registered_again": Entry(WARNING, "A process was declared dead, and lives.", ("kind", "process_id")),
    "polling.interval_changed": Entry(
        DEBUG, "A role looks for work more or less often.", ("role", "previous_interval", "interval", "reason")
    ),
    "polling.only_cross_process_wake_up": Entry(
        INFO, "Other processes learn of work by polling only.", ("adapter", "interval")
    ),
    "wake_up.failed": Entry(WARNING, "A wake-up could not be sent or heard.", ("adapter", "phase", "error")),
    "wake_up.foreign": Entry(DEBUG, "Something else was said on the channel of wake-ups.", ("byte_count",)),
    "wake_up.pooled_session": Entry(WARNING, "A pooler swallows notifications; polling finds the work.", ("adapter",)),
    "role.paused": Entry(WARNING, "The database is away; a role waits for it.", ("role", "error")),
    "role.failed": Entry(ERROR, "A role has ended by an error.", ("role", "error")),
    "role.handed_back": Entry(INFO, "What a role still held at the end of the shutdown was freed.", ("role", "count")),
    "supervisor.started": Entry(INFO, "The roles of a process have started.", ("count",)),
    "supervisor.stopped": Entry(INFO, "The roles of a process have stopped.", ("count",)),
    "supervisor.role_replaced": Entry(WARNING, "A role that had ended was started anew.", ("role", "failures", "code")),
    # -- telemetry itself
    "instrumentation.failed": Entry(
        WARNING, "A subscriber, an observer or an exporter raised.", ("event", "outlet", "error")
    ),
}
