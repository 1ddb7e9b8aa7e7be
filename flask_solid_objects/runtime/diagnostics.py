"""What operators may ask of one actor through a reference: hear of it in this process, and how much it has waiting.

The administration policy is asked once, before anything is read or registered.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import datetime

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.telemetry.catalog import CATALOG
from flask_solid_objects.telemetry.event import Event
from flask_solid_objects.telemetry.observation import Observation
from flask_solid_objects.values import Access, ActorDiagnostics, ActorKey, DiagnosticSample

MOST = 100


class Diagnostics:
    """Observers and summaries of single actors."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def observe(
        self, key: ActorKey, callback: Callable[[Event], object], names: tuple[str, ...], context: object
    ) -> Observation:
        """Call a function with the events of an actor that this process announces, of these names or of all.

        :raises Unauthorized, TooManyObservers: nothing was registered.
        """
        if not callable(callback) or inspect.iscoroutinefunction(callback):
            raise TypeError("observe takes a plain function that is called with each event.")
        unknown = sorted(name for name in names if name not in CATALOG)
        if unknown:
            raise ValueError(f"There is no event {', '.join(map(repr, unknown))}; docs/telemetry.md lists them.")
        self._require("observe", key, context)
        return Observation(self._core.events.observe(key, callback, names))

    def summary(self, key: ActorKey, limit: int, context: object) -> ActorDiagnostics:
        """Count what an actor has waiting, up to ``limit`` of each category.

        :raises Unauthorized: nothing was read.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
            raise ValueError(f"limit is a whole number from 1 to {MOST}, not {limit!r}.")
        self._require("inspect", key, context)
        found = self._core.database.read(lambda tx: self._look(tx, key, limit))
        mailbox = found.mailbox
        self._core.events.announce(
            "mailbox.depth",
            actor=key,
            instance_id=found.incarnation,
            count=mailbox.sampled,
            depth=None if mailbox.truncated else mailbox.sampled,
            truncated=mailbox.truncated,
        )
        return found

    def _look(self, tx: Transaction, key: ActorKey, limit: int) -> ActorDiagnostics:
        row, now = self._core.store.views.find(tx, key), tx.now()

        def sample(source: str) -> DiagnosticSample:
            times = [] if row is None else self._core.store.samples.take(tx, source, row.id, limit + 1)
            return _sampled(times, now, limit)

        return ActorDiagnostics(
            actor_type=key.actor_type,
            actor_id=key.actor_id,
            incarnation=None if row is None else row.id,
            revision=None if row is None else row.revision,
            adapter=self._core.database.dialect.name,
            occurred_at=now,
            limit=limit,
            mailbox=sample("mailbox"),
            outbox=sample("outbox"),
            reminders=sample("reminders"),
            retries=sample("retries"),
            recovery_failures=sample("recovery_failures"),
        )

    def _require(self, action: str, key: ActorKey, context: object) -> None:
        identity = json.dumps([key.actor_type, key.actor_id], ensure_ascii=False, separators=(",", ":"))
        access = Access(
            action=action,
            actor_type=key.actor_type,
            actor_id=key.actor_id,
            resource="actor_diagnostics",
            resource_id=identity,
            context=context,
        )
        self._core.policies.require("administration", access)


def _sampled(times: list[datetime], now: datetime, limit: int) -> DiagnosticSample:
    age = max(0, round((now - min(times)).total_seconds() * 1000)) if times else None
    return DiagnosticSample(sampled=min(len(times), limit), truncated=len(times) > limit, oldest_age_milliseconds=age)
