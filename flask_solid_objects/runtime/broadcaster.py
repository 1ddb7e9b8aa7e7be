"""The broadcast role: deliver committed changes to a transport; metadata only, shared values stay in their rows.

Order is best effort, since receivers drop what is not newer by incarnation and revision. Of several undelivered
revisions of one observable only the newest is sent (protocol 8.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, TypeAlias

from flask_solid_objects.errors import CommitUnknown
from flask_solid_objects.runtime.broadcasting import BroadcastTransport
from flask_solid_objects.runtime.claiming import CRASHED
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.process import Keeper
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.turn_ends import error_document
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.broadcasts import BroadcastRow
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Broadcast

_AT_ONCE = 100
_Subject: TypeAlias = tuple[int, str]


class Broadcaster(Role):
    """Delivers batches; a row that fails is tried again alone, and keeps nobody else's back."""

    kind: ClassVar[str] = "broadcast"

    def __init__(self, core: Core, wake_ups: WakeUps, keeper: Keeper, transport: BroadcastTransport) -> None:
        super().__init__(core, wake_ups, keeper)
        self._transport = transport

    def run_once(self) -> bool:
        """Deliver one batch; whether there was one."""
        rows = self._claim()
        if not rows:
            return False
        self._core.seams.checkpoints.reach("broadcast.claimed", rows=rows)
        ends = self._deliver(_newest(rows))
        self._core.seams.checkpoints.reach("broadcast.delivered", rows=rows)
        self._record(rows, ends)
        return True

    def _leave(self) -> None:
        super()._leave()
        self._transport.close()

    def _claim(self) -> list[BroadcastRow]:
        broadcasts, process_id = self._core.store.broadcasts, self.registration.id
        stale = self._core.settings.process_alive_threshold
        if not self._core.database.read(lambda tx: broadcasts.has_work(tx, stale_seconds=stale)):
            return []

        def claim(tx: Transaction) -> list[BroadcastRow]:
            rows = broadcasts.claim(tx, process_id, _AT_ONCE, stale_seconds=stale)
            for row in rows:
                self._core.events.announce_after(
                    tx,
                    "outbox.age",
                    actor=row.actor,
                    instance_id=row.instance_id,
                    message_id=row.message_id,
                    broadcast_id=row.broadcast_id,
                    revision=row.revision,
                    attempt=row.attempts,
                    outbox="broadcast",
                    age=(tx.now() - row.available_at).total_seconds(),
                )
            return rows

        try:
            return self._core.database.transact("claim_broadcasts", claim)
        except CommitUnknown:
            # What was claimed is freed again, uncounted or not: delivering twice harms nobody.
            self._core.database.transact("release_broadcasts", lambda tx: broadcasts.release(tx, process_id))
            return []

    def _deliver(self, rows: Sequence[BroadcastRow]) -> _Ends:
        """Deliver rows that no newer one supersedes, and whose attempts did not all end with their process."""
        broadcasts, ends = self._core.store.broadcasts, _Ends()
        again = [row for row in rows if row.attempts > 1]
        superseded = self._core.database.read(lambda tx: broadcasts.superseded(tx, again)) if again else set()
        wanted = [row for row in rows if row.id not in superseded]
        for row in [row for row in wanted if row.attempts > row.max_attempts]:
            wanted.remove(row)
            ends.failed[_subject(row)] = _Failure(row, "CrashedWorker", CRASHED)
        if not wanted:
            return ends
        try:
            self._transport.deliver([_message(row) for row in wanted])
        except Exception as error:
            if len(wanted) > 1:
                self._deliver_singly(wanted, ends)
            else:
                ends.failed[_subject(wanted[0])] = _Failure(wanted[0], type(error).__name__, error_document(error))
        return ends

    def _deliver_singly(self, rows: Sequence[BroadcastRow], ends: _Ends) -> None:
        """One of the batch may be what the transport refuses; the others must not suffer from it.

        A stop does not wait for as many refusals as there are rows.
        """
        for row in rows:
            if self.is_stopping:
                ends.untried.add(_subject(row))
                continue
            try:
                self._transport.deliver([_message(row)])
            except Exception as error:
                ends.failed[_subject(row)] = _Failure(row, type(error).__name__, error_document(error))

    def _record(self, rows: Sequence[BroadcastRow], ends: _Ends) -> None:
        """Note what became of the batch; an older row than the one of its observable that was tried ends with it."""
        broadcasts, settings, process_id = self._core.store.broadcasts, self._core.settings, self.registration.id
        untried = [row for row in rows if _subject(row) in ends.untried]
        done = [row for row in rows if _subject(row) not in ends.untried and _subject(row) not in ends.failed]
        # An outage fails them all alike, which costs one statement and not one for each.
        alike: dict[tuple[str, int | None], list[BroadcastRow]] = {}
        for row in rows:
            failure = ends.failed.get(_subject(row))
            if failure is not None:
                attempts = None if row.attempts >= row.max_attempts else row.attempts
                alike.setdefault((failure.document, attempts), []).append(row)

        def record(tx: Transaction) -> None:
            broadcasts.deliver(tx, done, process_id)
            broadcasts.hand_back(tx, untried, process_id)
            for (error, attempts), those in alike.items():
                until = None if attempts is None else tx.now() + timedelta(seconds=settings.pause_after(attempts))
                broadcasts.fail(tx, those, process_id, until=until, error=error)

        try:
            self._core.database.transact("record_broadcasts", record)
            self._tell(done, ends.failed.values())
        except CommitUnknown:
            # Done, or claimed for too long soon: then delivered once more, which harms nobody.
            self._core.events.announce("commit.unknown", act="record_broadcasts")

    def _tell(self, delivered: Iterable[BroadcastRow], failures: Iterable[_Failure]) -> None:
        events = self._core.events
        for row in delivered:
            events.announce(
                "broadcast.delivered",
                actor=row.actor,
                instance_id=row.instance_id,
                message_id=row.message_id,
                broadcast_id=row.broadcast_id,
                observable=row.observable,
                revision=row.revision,
                attempt=row.attempts,
            )
        for failure in failures:
            row = failure.row
            events.announce(
                "broadcast.dead" if row.attempts >= row.max_attempts else "broadcast.failed",
                actor=row.actor,
                instance_id=row.instance_id,
                message_id=row.message_id,
                broadcast_id=row.broadcast_id,
                observable=row.observable,
                revision=row.revision,
                attempt=row.attempts,
                error=failure.name,
            )


@dataclass(frozen=True, slots=True)
class _Failure:
    """The row that was tried, the class of its error, and the error's document."""

    row: BroadcastRow
    name: str
    document: str


@dataclass(slots=True)
class _Ends:
    """Of which observables a batch was not delivered: refused, or not tried any more."""

    failed: dict[_Subject, _Failure] = field(default_factory=dict)
    untried: set[_Subject] = field(default_factory=set)


def _subject(row: BroadcastRow) -> _Subject:
    return row.instance_id, row.observable


def _newest(rows: Sequence[BroadcastRow]) -> list[BroadcastRow]:
    found: dict[_Subject, BroadcastRow] = {}
    for row in rows:
        known = found.get(_subject(row))
        if known is None or row.revision > known.revision:
            found[_subject(row)] = row
    return sorted(found.values(), key=lambda row: row.id)


def _message(row: BroadcastRow) -> Broadcast:
    return Broadcast(
        broadcast_id=row.broadcast_id,
        actor_type=row.actor.actor_type,
        actor_id=row.actor.actor_id,
        incarnation=row.instance_id,
        revision=row.revision,
        observable=row.observable,
    )
