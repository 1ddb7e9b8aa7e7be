"""What the runtime hands to the store at the two ends of a turn: who claims, and how the turn ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

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
class Completion:
    """What a turn that ended well or said no wants to be stored; JSON is text.

    ``state`` is None when the turn leaves the stored state as it is: a query, a rejection.
    """

    state: InstanceState | None
    result: str | None = None
    rejection: str | None = None
    remembered_keys: str | None = None

    @property
    def revision(self) -> int | None:
        return None if self.state is None else self.state.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a turn that raised wants to be stored; without a delay it becomes a dead letter."""

    error: str
    retry_seconds: float | None
    remembered_keys: str | None = None
