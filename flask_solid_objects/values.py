"""What crosses layers: frozen values without behaviour.

Times are aware datetimes in UTC; JSON that was not decoded yet is text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from sqlalchemy import Connection, orm

    Session: TypeAlias = orm.Session
    AnySession: TypeAlias = orm.Session | orm.scoped_session[Any] | Connection
else:
    AnySession: TypeAlias = object
    Session: TypeAlias = object

DeliveryMode: TypeAlias = Literal["async", "sync", "internal"]
OperationKind: TypeAlias = Literal["operation", "query", "read"]
MissedPolicy: TypeAlias = Literal["latest", "all"]
ReminderStatus: TypeAlias = Literal["scheduled", "paused", "completed", "dead"]
# Whether the work outside was done, as far as its failure tells: surely not, nobody knows, surely.
EffectOutcome: TypeAlias = Literal["rejected", "unknown", "done"]

# What `on_failure` gets as `error`. Its `outcome` decides whether something has to be taken back: "rejected" when the
# function raised Rejected, "done" when it returned what cannot be stored, "unknown" after any other failure. Made by a
# call, since `class` is no name for an attribute.
EffectError = TypedDict(
    "EffectError",
    {
        "class": str,
        "message": str,
        "backtrace": list[str],
        "outcome": EffectOutcome,
        "code": NotRequired[str],
        "details": NotRequired[dict[str, Any]],
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorKey:
    """The identity of an actor: the stable name of its class and the application's id."""

    actor_type: str
    actor_id: str

    def __str__(self) -> str:
        return f"{self.actor_type} {self.actor_id!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Delivery options as given to ``.using(...)``; None is "not given"."""

    timeout: float | None = None
    delay: float | None = None
    at: datetime | None = None
    idempotency_key: str | None = None
    context: object = None
    session: AnySession | None = None
    every: float | timedelta | None = None
    cron: str | None = None
    timezone: str | None = None
    missed: MissedPolicy | None = None
    key: str | None = None


# What operators do without changing anything.
READS = frozenset({"index", "show", "inspect", "preview", "observe"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a policy is asked about; ``arguments`` are the stored JSON, never live objects."""

    action: str
    actor_type: str | None = None
    actor_id: str | None = None
    operation: str | None = None
    arguments: Mapping[str, Any] | None = None
    resource: str | None = None
    resource_id: str | None = None
    context: object = None

    @property
    def is_read(self) -> bool:
        """Whether an administrative act only looks."""
        return self.action in READS


Policy: TypeAlias = Callable[[Access], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message that is to be stored: checked, encoded, not yet numbered."""

    key: ActorKey
    operation: str
    delivery_mode: DeliveryMode
    arguments: str
    request_id: str
    max_attempts: int
    state_version: int = 1
    idempotency_key: str | None = None
    delay: float | None = None
    at: datetime | None = None
    caused_by: int | None = None
    instance_id: int | None = None
    reminder: RungReminder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to run turns of one incarnation; owner, token and generation are the fence."""

    instance_id: int
    owner: str
    token: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """One durable row of a mailbox, as a turn needs it."""

    id: int
    instance_id: int
    operation: str
    delivery_mode: str
    arguments: str
    sequence: int
    attempt: int
    max_attempts: int
    request_id: str
    idempotency_key: str | None
    enqueued_at: datetime
    reminder: RungReminder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RungReminder:
    """Which ringing of which reminder made a message: its row and generation, when it was due, what it stands for."""

    id: int
    generation: int
    due_at: datetime
    missed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceState:
    """The durable part of an incarnation that a turn reads and its commit replaces."""

    text: str
    version: int
    revision: int
    remembered_keys: str | None = None
    observable_revisions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A message that this process may run now, under a lease; ``now`` is database time of the claim."""

    key: ActorKey
    lease: Lease
    message: StoredMessage
    state: InstanceState
    now: datetime
    parked_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What enqueueing gave: the message's place, and the claim when the caller may run it at once."""

    message_id: int
    instance_id: int
    sequence: int
    request_id: str
    existing: bool = False
    claim: Claim | None = None


class MessageStatus(StrEnum):
    """Where a message is; every message is in exactly one."""

    UNSENT = "unsent"
    READY = "ready"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    REJECTED = "rejected"
    SKIPPED = "skipped"
    DEAD = "dead"


TERMINAL = frozenset({MessageStatus.COMPLETED, MessageStatus.REJECTED, MessageStatus.SKIPPED, MessageStatus.DEAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A message as it is stored now, with its outcome when it has one; JSON is text."""

    id: int
    instance_id: int
    key: ActorKey
    operation: str
    delivery_mode: DeliveryMode
    arguments: str
    sequence: int
    request_id: str
    idempotency_key: str | None
    status: MessageStatus
    attempts: int
    max_attempts: int
    result: str | None
    error: str | None
    rejection: str | None
    enqueued_at: datetime
    available_at: datetime
    completed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a message stands or ended; reading it never raises for a rejected or dead message."""

    status: MessageStatus
    result: Any
    error: Mapping[str, Any] | None
    rejection: Mapping[str, Any] | None
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext:
    """What a handler may know about the message it runs, as ``self.context``.

    ``now`` is the database's time of the claim. ``due_at`` and ``missed`` belong to reminders.
    """

    message_id: int
    request_id: str
    sequence: int
    attempt: int
    enqueued_at: datetime
    idempotency_key: str | None
    now: datetime
    due_at: datetime | None = None
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectContext:
    """What an effect may know about itself; ``id`` is the same at every attempt, so that the outside can tell a repeat.

    ``attempt`` counts from 1; ``source_message_id`` is the message whose turn emitted it.
    """

    id: str
    name: str
    attempt: int
    max_attempts: int
    source_message_id: int
    actor_type: str
    actor_id: str
    enqueued_at: datetime

    @property
    def idempotency_headers(self) -> dict[str, str]:
        """The HTTP header by which many services recognise a repeated request."""
        return {"Idempotency-Key": self.id}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContext:
    """What a commit action gets: a session inside the turn's own transaction, and whose turn it is."""

    session: Session
    message_id: int
    request_id: str
    actor_type: str
    actor_id: str
    activation_generation: int
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """A durable alarm of an actor as it stands; ``every`` or ``cron`` when it recurs.

    ``occurrence`` counts how often it has rung; a ``completed`` or ``dead`` one rings no more.
    """

    operation: str
    key: str | None
    next_run_at: datetime
    every: timedelta | None
    cron: str | None
    timezone: str | None
    missed: MissedPolicy
    occurrence: int
    status: ReminderStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """A committed change of an observable as it travels: who changed and up to which revision, never the value.

    Receivers drop what is not newer by ``(incarnation, revision)``.
    """

    broadcast_id: str
    actor_type: str
    actor_id: str
    incarnation: int
    revision: int
    observable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedTurn:
    """A turn that a caller of this process has just committed: from which revision to which, and what it changed."""

    key: ActorKey
    incarnation: int
    before: int
    revision: int
    observables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorEntry:
    """One line of a list of actors: its incarnation, its identity, and when it was last used."""

    id: int
    actor_type: str
    actor_id: str
    used_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken invariant: its number in the protocol, what it says, and the row that breaks it."""

    invariant: str
    statement: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticSample:
    """How many rows of a category were counted, whether there are more, and how long the oldest has waited."""

    sampled: int
    truncated: bool
    oldest_age_milliseconds: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorDiagnostics:
    """What one actor has waiting: counts and ages up to ``limit`` of each category, and no content.

    Incarnation and revision are None for an actor that was never used.
    """

    actor_type: str
    actor_id: str
    incarnation: int | None
    revision: int | None
    adapter: str
    occurred_at: datetime
    limit: int
    mailbox: DiagnosticSample
    outbox: DiagnosticSample
    reminders: DiagnosticSample
    retries: DiagnosticSample
    recovery_failures: DiagnosticSample


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUpCapability:
    """How this process learns of work: the adapter, its reach, its floor in milliseconds, and why it was chosen."""

    adapter: str
    crosses_processes: bool
    floor_ms: float
    reason: str
