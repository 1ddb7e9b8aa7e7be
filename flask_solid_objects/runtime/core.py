"""What the parts of one runtime share: database, store, settings, registry, and what the application lends."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeVar

from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import InvalidSettings
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.runtime.redaction import Redactor
from flask_solid_objects.seams import Seams
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.store import Store
from flask_solid_objects.values import CommittedTurn

_T = TypeVar("_T")


class RunActorCode(Protocol):
    """Runs a function the way actor code has to run: a new context, and whatever the application lends to it."""

    def __call__(self, function: Callable[[], _T], /) -> _T: ...


def run_in_new_context(function: Callable[[], _T], /) -> _T:
    """Run actor code without an application: nothing of the caller's context is visible (promise 4)."""
    return contextvars.Context().run(function)


def _no_binds() -> None:
    return None


def ignore(turn: CommittedTurn) -> None:
    """Nobody wants to hear of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The parts that everything in the runtime is built from; it holds no thread and no connection."""

    database: Database
    store: Store
    settings: Settings
    registry: Registry
    events: Events
    policies: Policies = field(default_factory=Policies)
    run_actor_code: RunActorCode = run_in_new_context
    # Whether the caller's own session has uncommitted writes or row locks on this database.
    has_uncommitted_work: Callable[[], bool] = bool
    # The application's binds that are this database; None when it has none.
    commit_binds: Callable[[], frozenset[str | None] | None] = _no_binds
    # Hears of each turn that a caller has committed, in the caller's own context; it must return at once.
    turn_committed: Callable[[CommittedTurn], None] = ignore
    # What takes more out of the values that operators see, by actor type; see runtime/redaction.py.
    redactors: Mapping[str, Redactor] = field(default_factory=lambda: MappingProxyType({}))
    seams: Seams = field(default_factory=Seams)

    def refuse_memory(self) -> None:
        """Roles need a database that more than one connection can see.

        :raises InvalidSettings: it lives in memory.
        """
        if self.database.is_memory:
            raise InvalidSettings(
                {"SQLALCHEMY_DATABASE_URI": "is in memory, where only callers can run; use a file or a server."}
            )
