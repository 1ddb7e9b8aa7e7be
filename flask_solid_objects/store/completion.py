"""What the runtime hands to the store at the two ends of a turn: who claims, and how the turn ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flask_solid_objects.intents import OutboxEntry, ReminderIntent, StagedAction
from flask_solid_objects.values import InstanceState


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Who wants to run a message: its process, a fresh token, and the length of the lease in seconds."""

    owner: str
    token: str
    seconds: float

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservableChange:
    """An observable that this turn changed; ``value`` is ``{}`` unless it is shared."""

    name: str
    value: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What commits with a turn beside its state and result."""

    outbox: Sequence[OutboxEntry] = ()
    reminders: Sequence[ReminderIntent] = ()
    actions: Sequence[StagedAction] = ()
    changes: Sequence[ObservableChange] = ()
    broadcast_attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a turn that ended well or said no wants to be stored; JSON is text.

    ``state`` is None when the turn leaves the stored state as it is: a query, a rejection. ``skipped`` is the error
    document of a message that must not run any more.
    """

    state: InstanceState | None
    result: str | None = None
    rejection: str | None = None
    remembered_keys: str | None = None
    staged: Staged | None = None
    skipped: str | None = None

    def instance_columns(self) -> dict[str, Any]:
        """What the turn writes into the row of its actor, beside lease and hints."""
        columns: dict[str, Any] = {}
        if self.state is not None:
            state = self.state
            columns = {"state": state.text, "state_version": state.version, "state_revision": state.revision}
            if self.staged is not None and self.staged.changes:
                columns["observable_revisions"] = state.observable_revisions
        if self.remembered_keys is not None:
            columns["completed_idempotency_keys"] = self.remembered_keys
        return columns

    @property
    def revision(self) -> int | None:
        return None if self.state is None else self.state.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a turn that raised wants to be stored; without a delay it becomes a dead letter."""

    error: str
    retry_seconds: float | None
    remembered_keys: str | None = None
