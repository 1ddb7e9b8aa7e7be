"""Where the runtime announces what happened, and from where it goes to logs, signals, observers and exporters.

One object per runtime. Announcing never raises on account of who listens, and costs about a microsecond when nobody
does. What belongs to a commit is announced after it: an announcement is a fact.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from blinker import Signal

from flask_solid_objects import signals
from flask_solid_objects.errors import TooManyObservers
from flask_solid_objects.intents import current_turn
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.telemetry.catalog import CATALOG, Entry
from flask_solid_objects.telemetry.event import Event
from flask_solid_objects.telemetry.logs import is_logged, write_line
from flask_solid_objects.values import ActorKey, Claim, Enqueued, Lease, NewMessage, StoredMessage

MOST_OBSERVERS = 1_000

Exporter: TypeAlias = Callable[[dict[str, Any]], object]
Observer: TypeAlias = Callable[[Event], object]


@dataclass(frozen=True, slots=True, eq=False)
class _Observing:
    observer: Observer
    names: frozenset[str]


class Events:
    """What happens in one runtime, told to whoever listens.

    :param sender: who the signals say that they come from: the application.
    :param exporters: get envelopes; the list may grow.
    """

    def __init__(self, *, adapter: str, sender: object = None, exporters: Sequence[Exporter] = ()) -> None:
        self._adapter, self._sender, self._exporters = adapter, sender, exporters
        self._observing: dict[ActorKey, tuple[_Observing, ...]] = {}
        self._lock = threading.Lock()

    def announce(self, name: str, **data: Any) -> None:
        """Tell what happened, in the words of the catalog.

        ``actor`` is a key. A ``message`` stands for all that is told of one, a ``claim`` for its actor and message, a
        ``lease`` for its incarnation, owner and generation.
        """
        entry, signal = _SUBJECTS[name]
        if (
            signal.receivers
            or _every.receivers
            or self._exporters
            or (self._observing and _actor_of(data) in self._observing)
            or is_logged(entry.level)
        ):
            self._tell(self._event(name, entry, data))

    def announce_after(self, tx: Transaction, name: str, **data: Any) -> None:
        """The same once the transaction has committed; nothing when it does not."""
        tx.after_commit(partial(self.announce, name, **data))

    def wants(self, name: str) -> bool:
        """Whether anybody would hear of it, for what costs something to find out."""
        entry, signal = _SUBJECTS[name]
        listens = signal.receivers or _every.receivers or self._exporters or self._observing
        return bool(listens) or is_logged(entry.level)

    def announce_enqueued(self, new: NewMessage, enqueued: Enqueued) -> None:
        """Tell of a message that was stored, unless it was there already."""
        if not enqueued.existing:
            self.announce(
                "message.enqueued",
                actor=new.key,
                instance_id=enqueued.instance_id,
                message_id=enqueued.message_id,
                request_id=enqueued.request_id,
                operation=new.operation,
                delivery_mode=new.delivery_mode,
                sequence=enqueued.sequence,
                attempt=0,
            )

    # -- observers ----------------------------------------------------------------------------

    def observe(self, actor: ActorKey, observer: Observer, names: Collection[str]) -> Callable[[], None]:
        """Hear of one actor in this process; call what is returned to stop.

        :raises TooManyObservers: as many as are allowed observe already.
        """
        observing = _Observing(observer, frozenset(names))
        with self._lock:
            if sum(map(len, self._observing.values())) >= MOST_OBSERVERS:
                raise TooManyObservers(MOST_OBSERVERS)
            self._observing[actor] = (*self._observing.get(actor, ()), observing)

        def stop() -> None:
            with self._lock:
                left = tuple(each for each in self._observing.get(actor, ()) if each is not observing)
                if left:
                    self._observing[actor] = left
                else:
                    self._observing.pop(actor, None)

        return stop

    # -- telling ------------------------------------------------------------------------------

    def _event(self, name: str, entry: Entry, data: dict[str, Any]) -> Event:
        claim: Claim | None = data.pop("claim", None)
        actor: ActorKey | None = data.pop("actor", None) if claim is None else claim.key
        actor_type = actor.actor_type if actor is not None else data.pop("actor_type", None)
        message: StoredMessage | None = data.pop("message", None) if claim is None else claim.message
        lease: Lease | None = data.pop("lease", None)
        if message is not None:
            data = _told_of(message) | data
        if lease is not None:
            told = {"instance_id": lease.instance_id, "owner_id": lease.owner, "generation": lease.generation}
            data = told | data
        return Event(
            name=name,
            level=entry.level,
            occurred_at=datetime.now(UTC),
            adapter=self._adapter,
            actor_type=actor_type,
            actor_id=None if actor is None else actor.actor_id,
            data=MappingProxyType(data),
        )

    def _tell(self, event: Event) -> None:
        """Give the event to everybody; who raises keeps nothing from the others, nor from the runtime.

        Nobody who listens is actor code, wherever it is announced.
        """
        token = current_turn.set(None)
        try:
            for outlet, give in self._outlets(event):
                try:
                    give()
                except (Exception, SystemExit) as error:
                    self._failed(event, outlet, error)
        finally:
            current_turn.reset(token)

    def _outlets(self, event: Event) -> Iterator[tuple[str, Callable[[], object]]]:
        if is_logged(event.level):
            yield "log", partial(write_line, event)
        for signal in (_SUBJECTS[event.name][1], _every):
            if signal.receivers and not signal.is_muted:
                for receiver in signal.receivers_for(self._sender):
                    yield "signal", partial(_send, receiver, self._sender, event)
        if self._observing and event.actor_type is not None and event.actor_id is not None:
            key = ActorKey(actor_type=event.actor_type, actor_id=event.actor_id)
            for each in self._observing.get(key, ()):
                if not each.names or event.name in each.names:
                    yield "observer", partial(each.observer, event)
        for exporter in tuple(self._exporters):
            yield "exporter", partial(_export, exporter, event)

    def _failed(self, event: Event, outlet: str, error: BaseException) -> None:
        """Tell of it once: whoever fails at this event too is only logged, and without the log not at all."""
        if event.name != "instrumentation.failed":
            self.announce("instrumentation.failed", event=event.name, outlet=outlet, error=type(error).__name__)
        elif outlet != "log":
            entry = CATALOG[event.name]
            data = {"event": event.name, "outlet": outlet, "error": type(error).__name__}
            with suppress(Exception):
                write_line(self._event(event.name, entry, data))


def _export(exporter: Exporter, event: Event) -> None:
    exporter(event.envelope())


def _send(receiver: Callable[..., object], sender: object, event: Event) -> None:
    if inspect.iscoroutinefunction(receiver):
        raise TypeError("A receiver of these signals is a plain function: the runtime has no event loop.")
    receiver(sender, event=event)


def _actor_of(data: Mapping[str, Any]) -> ActorKey | None:
    claim: Claim | None = data.get("claim")
    return data.get("actor") if claim is None else claim.key


def _told_of(message: StoredMessage) -> dict[str, Any]:
    return {
        "instance_id": message.instance_id,
        "message_id": message.id,
        "request_id": message.request_id,
        "operation": message.operation,
        "delivery_mode": message.delivery_mode,
        "sequence": message.sequence,
        "attempt": message.attempt,
    }


_every = signals.every
_SUBJECTS: Mapping[str, tuple[Entry, Signal]] = {
    name: (entry, getattr(signals, name.replace(".", "_"))) for name, entry in CATALOG.items()
}
