"""What the dashboard reads: each page is one bounded read, asked of the administration policy first.

The server ends a statement that takes longer than ``SOLID_OBJECTS_DASHBOARD_STATEMENT_TIMEOUT``, so that looking never
loads a database that is in trouble already (hazard H111).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from flask_solid_objects.errors import UnknownDeadLetter, UnknownInstance
from flask_solid_objects.runtime.acts import Acts, subject_of
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.actor_pages import LeaseFilter
from flask_solid_objects.store.administration import InstanceReport
from flask_solid_objects.store.audit import AuditEvent
from flask_solid_objects.store.broadcasts import BroadcastRow
from flask_solid_objects.store.dead_letters import DeadLetter
from flask_solid_objects.store.effects import EffectRow
from flask_solid_objects.store.mailbox_pages import Waiting
from flask_solid_objects.store.overview import Done, Overview
from flask_solid_objects.store.processes import Process
from flask_solid_objects.store.redrives import Redrive
from flask_solid_objects.store.reminders import ReminderRow
from flask_solid_objects.store.timeline import Staged, Turn, TurnDetail
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.windows import MOST_COUNTED, Page
from flask_solid_objects.values import ActorKey

_T = TypeVar("_T")

PAGE = 25
_BESIDE = 10
_CAUSED = 50
# To find the actors that wait longest, each of which may have many messages.
_LOOKED_THROUGH, _LONGEST = 100, 5

Condition: TypeAlias = Literal[
    "running", "paused", "parked", "backing off", "waiting for a worker", "waiting for its time", "idle"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The front page."""

    overview: Overview
    processes: list[Process]
    longest_waiting: list[Waiting]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorPage:
    """One actor; ``head`` runs or is the next to run, ``depth`` is capped."""

    report: InstanceReport
    condition: Condition
    now: datetime
    state: str
    head: Turn | None
    depth: int
    turns: list[Turn]
    next: int | None
    staged: dict[int, Staged]
    reminders: list[ReminderRow]
    effects: list[EffectRow]
    dead_letters: list[DeadLetter]
    history: list[AuditEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """One message, what led to it, and what came of it."""

    detail: TurnDetail
    now: datetime
    cause: Turn | None
    caused: list[Turn]
    effects: list[EffectRow]
    broadcasts: list[BroadcastRow]
    dead_letter: DeadLetter | None


class Browsing:
    """Reads for people in front of a browser; ``context`` goes to the administration policy."""

    def __init__(self, core: Core) -> None:
        # Public: what a page offers and what a form is for is asked of it too.
        self._core, self.acts = core, Acts(core, browser=True)

    def home(self, *, context: object) -> Home:
        self.acts.require("index", "dashboard", context)
        return self._read(self._home)

    def measured(self, *, context: object) -> Home:
        """The numbers of the front page, for a program that watches."""
        self.acts.require("index", "metrics", context)
        return self._read(self._home)

    def done(self, edges: Callable[[datetime], list[datetime]], *, context: object) -> list[Done]:
        """What ended between times that are made from the database's own."""
        self.acts.require("index", "dashboard", context)
        return self._read(lambda tx: self._core.store.overviews.done(tx, edges(tx.now())))

    def actors(
        self,
        *,
        actor_type: str | None = None,
        prefix: str = "",
        lease: LeaseFilter | None = None,
        after: str | None = None,
        context: object,
    ) -> Page[InstanceReport]:
        """Actors of all types, of one type by the beginning of their id, or those that something holds."""
        self.acts.require("index", "actors", context)
        pages = self._core.store.actor_pages

        def read(tx: Transaction) -> Page[InstanceReport]:
            if lease is not None:
                return pages.by_lease(tx, lease, actor_type=actor_type, after=after, most=PAGE)
            if actor_type is not None:
                return pages.of_type(tx, actor_type, prefix=prefix, after=after, most=PAGE)
            return pages.every(tx, after=after, most=PAGE)

        return self._read(read)

    def actor(self, key: ActorKey, *, before: int | None = None, context: object) -> ActorPage:
        """An actor with its newest turns.

        :raises UnknownInstance: it was never used, or is destroyed.
        """
        self.acts.require("show", "actors", context, key=key)
        store = self._core.store

        def read(tx: Transaction) -> ActorPage:
            report, view = store.administration.report(tx, key), store.views.find(tx, key)
            if report is None or view is None:
                raise UnknownInstance(key.actor_type, key.actor_id)
            turns = store.timeline.turns(tx, report.id, before=before, most=PAGE + 1)
            shown, head = turns[:PAGE], self._head(tx, report.id)
            return ActorPage(
                report=report,
                condition=_condition(report, tx.now(), head),
                now=tx.now(),
                state=view.state,
                head=head,
                depth=store.administration.depth(tx, report.id, MOST_COUNTED + 1),
                turns=shown,
                next=shown[-1].sequence if len(turns) > PAGE else None,
                staged=store.timeline.staged(tx, [turn.id for turn in shown]),
                reminders=store.belongings.reminders_of_actor(tx, report.id, most=_BESIDE),
                effects=store.belongings.effects_of_actor(tx, report.id, most=_BESIDE),
                dead_letters=store.belongings.dead_letters_of_actor(tx, report.id, most=_BESIDE),
                history=store.audit.of_subject(tx, "actor", subject_of(key), most=_BESIDE),
            )

        return self._read(read)

    def message(self, message_id: int, *, context: object) -> MessagePage | None:
        """A message with its payloads; None when there is none, or it was pruned."""
        self.acts.require("show", "messages", context, resource_id=str(message_id))
        store = self._core.store

        def read(tx: Transaction) -> MessagePage | None:
            detail = store.timeline.detail(tx, message_id)
            if detail is None:
                return None
            cause = None if detail.turn.caused_by is None else store.timeline.detail(tx, detail.turn.caused_by)
            return MessagePage(
                detail=detail,
                now=tx.now(),
                cause=None if cause is None else cause.turn,
                caused=store.timeline.caused(tx, message_id, most=_CAUSED),
                effects=store.belongings.effects_of_message(tx, message_id, most=_CAUSED),
                broadcasts=store.belongings.broadcasts_of_message(tx, message_id, most=_CAUSED),
                dead_letter=store.belongings.dead_letter_of_message(tx, message_id),
            )

        return self._read(read)

    def mailbox(self, status: Literal["ready", "running"], *, after: str | None, context: object) -> Page[Waiting]:
        """What waits, due longest first, or what runs."""
        self.acts.require("index", "mailbox", context)
        pages = self._core.store.mailbox_pages
        read = pages.ready if status == "ready" else pages.running
        return self._read(lambda tx: read(tx, after=after, most=PAGE))

    def outbox(
        self,
        kind: Literal["effects", "broadcasts", "reminders", "dead_letters"],
        *,
        status: str | None = None,
        actor_type: str | None = None,
        operation: str | None = None,
        exception_class: str | None = None,
        before: int | None = None,
        context: object,
    ) -> Page[Any]:
        """Rows of an outbox, or dead letters, newest first; operation and error class choose among dead letters."""
        dead = {"effects": "effect_dead_letters", "broadcasts": "broadcast_dead_letters"}
        self.acts.require("inspect", dead.get(kind, kind) if status == "dead" else kind, context)
        listing: Any = getattr(self._core.store.outbox_pages, kind)
        filters = {"actor_type": actor_type, "operation": operation, "exception_class": exception_class}

        def read(tx: Transaction) -> Page[Any]:
            page: Page[Any] = listing.page(tx, status=status, filters=filters, before=before, most=PAGE)
            return page

        return self._read(read)

    def redrives(self, *, context: object) -> list[Redrive]:
        """The tasks that were started last."""
        self.acts.require("inspect", "redrives", context)
        return self._read(lambda tx: self._core.store.redrives.page(tx, status=None, most=PAGE))

    def processes(self, *, context: object) -> list[Process]:
        """Everything that is registered and has not stopped."""
        self.acts.require("inspect", "processes", context)
        threshold = self._core.settings.process_alive_threshold
        return self._read(lambda tx: self._core.store.processes.running(tx, threshold))

    def dead_letter(self, dead_letter_id: int, *, context: object) -> DeadLetter:
        """One message that died.

        :raises UnknownDeadLetter: there is none, or it was pruned.
        """
        self.acts.require("inspect", "dead_letters", context)
        found = self._read(lambda tx: self._core.store.dead_letters.find(tx, dead_letter_id))
        if found is None:
            raise UnknownDeadLetter(dead_letter_id)
        return found

    def audit(self, *, before: str | None, context: object) -> Page[AuditEvent]:
        """What operators did, newest first."""
        self.acts.require("index", "audit", context)
        return self._read(lambda tx: self._core.store.audit.page(tx, before=before, most=PAGE))

    def _home(self, tx: Transaction) -> Home:
        store, threshold = self._core.store, self._core.settings.process_alive_threshold
        return Home(
            overview=store.overviews.read(tx),
            processes=store.processes.running(tx, threshold),
            longest_waiting=_first_of_each(store.mailbox_pages.ready(tx, after=None, most=_LOOKED_THROUGH).rows),
        )

    def _head(self, tx: Transaction, instance_id: int) -> Turn | None:
        """Not among the newest turns where many wait."""
        store = self._core.store
        running = store.timeline.running(tx, instance_id)
        sequence = None if running is not None else store.administration.head(tx, instance_id)
        return running if sequence is None else store.timeline.at(tx, instance_id, sequence)

    def _read(self, work: Callable[[Transaction], _T]) -> _T:
        return self._core.database.read_within(self._core.settings.dashboard_statement_timeout, work)


def _first_of_each(waiting: list[Waiting]) -> list[Waiting]:
    """One message of each actor, so that a long mailbox does not hide the others."""
    first: dict[ActorKey, Waiting] = {}
    for each in waiting:
        first.setdefault(each.key, each)
    return list(first.values())[:_LONGEST]


def _condition(report: InstanceReport, now: datetime, head: Turn | None) -> Condition:
    """Why an actor does not run, or that it does: the first that applies."""
    if head is not None and head.status == "claimed":
        return "running"
    if report.paused_at is not None:
        return "paused"
    if report.parked_until is not None and report.parked_until > now:
        return "parked"
    if report.ready_at is None:
        return "idle"
    if report.ready_at <= now:
        return "waiting for a worker"
    return "backing off" if report.has_backlog else "waiting for its time"
