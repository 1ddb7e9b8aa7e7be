"""Store messages without waiting for them: in a transaction of our own, or in the one that the caller owns.

In a caller's transaction everything is checked at once and written when its root transaction commits (protocol 4.11);
nothing is signalled before that. We neither begin, commit, roll back nor retry there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flask_solid_objects.actors.message import Message
from flask_solid_objects.errors import (
    ActorDestroyed,
    CallEnqueueTimeout,
    CallUnresolved,
    CommitUnknown,
    DatabaseDeadlineExceeded,
)
from flask_solid_objects.payloads import decode
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.sessions import PendingSends, SessionOutbox
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import AnySession, Enqueued, NewMessage

# A send has no timeout option; it waits this long for its locks.
SEND_SECONDS = 30.0


@dataclass(slots=True)
class _Pending:
    """A message that was checked and waits for the commit of the caller's transaction."""

    new: NewMessage
    message: Message[Any]
    enqueued: Enqueued | None = None


class Sending:
    """Sends of one process."""

    def __init__(self, core: Core, wake_ups: WakeUps, outbox: SessionOutbox) -> None:
        self._core, self._wake_ups, self._outbox = core, wake_ups, outbox
        self._known_types: set[str] = set()
        self._lock = threading.Lock()

    def send(self, new: NewMessage, message: Message[Any]) -> None:
        """Commit one message in its own transaction, then give the wake-up.

        :raises MailboxFull, IdempotencyConflict, CallEnqueueTimeout: nothing was written.
        """
        enqueued = self._admit(new)
        message._assign(id=enqueued.message_id, sequence=enqueued.sequence, instance_id=enqueued.instance_id)
        self._sent(new, enqueued)

    def send_with(self, session: AnySession, new: NewMessage, message: Message[Any]) -> None:
        """Let the message commit and roll back with the caller's transaction."""
        pending = PendingSends(write=self._write_all, committed=self._committed, rolled_back=self._rolled_back)
        self._outbox.add(session, _Pending(new, message), pending)

    def _admit(self, new: NewMessage) -> Enqueued:
        admission, repeated = self._core.store.admission, False
        deadline = self._core.seams.clock.monotonic() + SEND_SECONDS
        while True:
            try:
                admit = partial(admission.admit, new=new, claimant=None, repeated=repeated)
                return self._core.database.transact("send", admit, deadline=deadline)
            except CommitUnknown as error:
                self._core.events.announce("commit.unknown", act="send", actor=new.key)
                repeated = True
                if self._core.seams.clock.monotonic() >= deadline:
                    raise self._unresolved(new) from error
            except DatabaseDeadlineExceeded as error:
                if repeated:
                    raise self._unresolved(new) from error
                self._core.events.announce(
                    "call.enqueue_timeout", actor=new.key, operation=new.operation, timeout=SEND_SECONDS
                )
                raise CallEnqueueTimeout(
                    timeout=SEND_SECONDS,
                    actor_type=new.key.actor_type,
                    actor_id=new.key.actor_id,
                    operation=new.operation,
                ) from error

    @staticmethod
    def _unresolved(new: NewMessage) -> CallUnresolved:
        return CallUnresolved(
            request_id=new.request_id,
            actor_type=new.key.actor_type,
            actor_id=new.key.actor_id,
            operation=new.operation,
        )

    def _write_all(self, cursor: Any, items: Sequence[Any]) -> None:
        """Write the sends of a committing transaction: existing actors in the order of their ids, then new ones.

        The identities are resolved before the first lock is taken; one that proves to be gone moves to the end.
        """
        database, store = self._core.database, self._core.store
        database.dialect.join(cursor)
        tx = Transaction(cursor, database.dialect, self._core.seams.checkpoints)
        existing: list[tuple[int, _Pending]] = []
        absent: list[_Pending] = []
        for pending in items:
            instance = store.instances.find(tx, pending.new.key)
            if instance is None:
                absent.append(pending)
            else:
                existing.append((instance.id, pending))
        # The sort is stable: several messages to one actor keep the order in which they were sent.
        for instance_id, pending in sorted(existing, key=lambda pair: pair[0]):
            known = replace(pending.new, instance_id=instance_id)
            try:
                enqueued = store.admission.admit(tx, known, None)
            except ActorDestroyed:
                absent.append(pending)
            else:
                self._number(pending, enqueued)
        for pending in sorted(absent, key=lambda pending: (pending.new.key.actor_type, pending.new.key.actor_id)):
            self._number(pending, store.admission.admit(tx, pending.new, None))

    @staticmethod
    def _number(pending: _Pending, enqueued: Enqueued) -> None:
        message, pending.enqueued = pending.message, enqueued
        message._assign(id=enqueued.message_id, sequence=enqueued.sequence, instance_id=enqueued.instance_id)

    def _committed(self, items: Sequence[Any]) -> None:
        for pending in items:
            self._wake_ups.signal(instance_id=pending.message.instance_id, work=True)
            assert pending.enqueued is not None, "what was committed has its number"
            self._core.events.announce_enqueued(pending.new, pending.enqueued)
            self._warn_without_worker(pending.new.key.actor_type)

    @staticmethod
    def _rolled_back(items: Sequence[Any]) -> None:
        for pending in items:
            pending.message._assign(id=None, sequence=None, instance_id=None)

    def _sent(self, new: NewMessage, enqueued: Enqueued) -> None:
        self._wake_ups.signal(instance_id=enqueued.instance_id, work=True)
        self._core.events.announce_enqueued(new, enqueued)
        self._warn_without_worker(new.key.actor_type)

    def _warn_without_worker(self, actor_type: str) -> None:
        """Say once per type when no live worker knows it: the message would wait without a word."""
        with self._lock:
            if actor_type in self._known_types:
                return
            self._known_types.add(actor_type)
        threshold, store = self._core.settings.process_alive_threshold, self._core.store
        try:
            running = self._core.database.read(lambda tx: store.processes.running(tx, threshold))
        except Exception as error:
            # The message is stored already: a look that only serves a warning must not fail its send.
            self._core.events.announce("send.unobserved", actor_type=actor_type, error=type(error).__name__)
            return
        for process in running:
            labels = decode(process.metadata)
            types = labels.get("types") if isinstance(labels, dict) else None
            if process.kind == "worker" and not process.is_stale and isinstance(types, list) and actor_type in types:
                return
        self._core.events.announce("send.no_worker", actor_type=actor_type, remedy="start `flask solid work`")
