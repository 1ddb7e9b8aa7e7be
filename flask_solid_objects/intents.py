"""What runs now in this context, and what it has staged: intents that commit with the turn or vanish with it.

Here is the one ContextVar of the package, the current turn. Arguments are JSON text already, copied at the staging
call, so that later changes of an object cannot reach what was staged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from flask_solid_objects.values import ActorKey, MissedPolicy, Reminder

# The name under which messages to actors travel in the effects outbox.
ACTOR_MESSAGE = "__actor_message__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What an effect opted into: who hears of its abandonment, and of questions about it."""

    on_recovery: str | None
    on_status: str | None
    timeout: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """Work to be done after the commit: an external effect, or with a target a message to an actor."""

    effect_id: str
    name: str
    arguments: str
    max_attempts: int
    target: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    delay: float = 0.0
    recovery: Recovery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReminder:
    """Arm a reminder, or move the one of this name."""

    name: str
    operation: str
    key: str | None
    arguments: str
    next_run_at: datetime
    interval: timedelta | None
    cron: str | None
    timezone: str | None
    missed: MissedPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReminder:
    """Remove the reminder of this name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelReminders:
    """Remove every reminder of this operation."""

    operation: str


ReminderIntent: TypeAlias = SetReminder | CancelReminder | CancelReminders


def folded(intents: Sequence[ReminderIntent]) -> tuple[set[str], set[str], dict[str, SetReminder]]:
    """What a list of intents comes to: operations and names to cancel first, then reminders to set."""
    operations: set[str] = set()
    names: set[str] = set()
    armed: dict[str, SetReminder] = {}
    for intent in intents:
        if isinstance(intent, SetReminder):
            # Taken out first, so that the last of several settings also has the last place.
            armed.pop(intent.name, None)
            armed[intent.name] = intent
        elif isinstance(intent, CancelReminder):
            names.add(intent.name)
            armed.pop(intent.name, None)
        else:
            operations.add(intent.operation)
            armed = {name: each for name, each in armed.items() if each.operation != intent.operation}
    return operations, names, armed


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedAction:
    """A commit action with its arguments, as the caller of the turn will decode them."""

    name: str
    run: Callable[..., object]
    arguments: str
    decode: Callable[[str], Mapping[str, Any]]


@dataclass(slots=True, kw_only=True)
class Stage:
    """What the running turn has staged, in order.

    ``now`` is the database time of its claim; ``read_reminders`` gives the committed ones of this actor by name.
    """

    now: datetime
    payload_limit: int
    max_attempts: int
    read_reminders: Callable[[], Mapping[str, Reminder]]
    outbox: list[OutboxEntry] = field(default_factory=list)
    reminders: list[ReminderIntent] = field(default_factory=list)
    actions: list[StagedAction] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.outbox or self.reminders or self.actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTurn:
    """What runs in this context is actor code: of whom, in which operation or hook, and where it may stage.

    Without a stage nothing can be staged; ``reads`` says that this is because it only reads. ``connection`` is the
    one on which a commit action may write. ``refusals`` are the writes that were refused to it.
    """

    key: ActorKey
    operation: str
    stage: Stage | None = None
    reads: bool = False
    read_reminders: Callable[[], Mapping[str, Reminder]] | None = None
    connection: object = None
    refusals: list[str] = field(default_factory=list)


current_turn: ContextVar[CurrentTurn | None] = ContextVar("flask_solid_objects_current_turn", default=None)
