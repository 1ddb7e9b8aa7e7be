"""How operators act: a policy is asked, the act and its one event share a transaction, and it is done exactly once.

After a lost connection at COMMIT the event itself tells what became of the act: its id is looked up once the rows of
the act are locked again, which waits for a commit that is still on its way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from flask_solid_objects.errors import ActUnresolved, CommitUnknown, DatabaseDeadlineExceeded
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Access, ActorKey

_L = TypeVar("_L")
_T = TypeVar("_T")
_SECONDS = 30.0
_LONGEST_SUBJECT = 191


class Record(Protocol):
    """Writes the event of an act, in the transaction of the act."""

    def __call__(self, *, kind: str, subject: str, filters: str | None = None) -> None: ...


@dataclass(slots=True)
class _Try(Generic[_T]):
    """One run of an act, and the events that it has written."""

    events: list[tuple[int, str]] = field(default_factory=list)
    result: _T | None = None


class Acts:
    """Acts of operators on one runtime.

    :param browser: a browser can reach them, so that without a policy they are denied.
    """

    def __init__(self, core: Core, *, browser: bool = False) -> None:
        self._core, self._browser = core, browser

    def read(self, work: Callable[[Transaction], _T]) -> _T:
        """Read for an operator; one in front of a browser loads the database for a short time only (hazard H111).

        :raises DatabaseDeadlineExceeded: a browser's read took longer.
        """
        if self._browser:
            return self._core.database.read_within(self._core.settings.dashboard_statement_timeout, work)
        return self._core.database.read(work)

    def require(
        self,
        action: str,
        resource: str,
        context: object,
        *,
        key: ActorKey | None = None,
        resource_id: str | None = None,
    ) -> None:
        """Ask the administration policy.

        :raises Unauthorized: it was denied; nothing was read or written.
        """
        access = self._access(action, resource, context, key, resource_id)
        self._core.policies.require("administration", access, browser=self._browser)

    def allows(
        self,
        action: str,
        resource: str,
        context: object,
        *,
        key: ActorKey | None = None,
        resource_id: str | None = None,
    ) -> bool:
        """Whether :meth:`require` would pass; for what a page offers."""
        access = self._access(action, resource, context, key, resource_id)
        return self._core.policies.allows("administration", access, browser=self._browser)

    @staticmethod
    def _access(action: str, resource: str, context: object, key: ActorKey | None, resource_id: str | None) -> Access:
        return Access(
            action=action,
            actor_type=key.actor_type if key else None,
            actor_id=key.actor_id if key else None,
            resource=resource,
            resource_id=subject_of(key) if key else resource_id,
            context=context,
        )

    def perform(
        self,
        action: str,
        context: object,
        lock: Callable[[Transaction], _L],
        act: Callable[[Transaction, _L, Record], _T],
    ) -> _T:
        """Do something once, however often its commit is lost.

        :param lock: locks the rows that the act changes, and says what they are; it runs again after a lost commit.
        :param act: does it, and records it; its errors leave nothing behind.
        :raises ActUnresolved: the database stayed away until the deadline.
        """
        clock = self._core.seams.clock
        deadline, doubtful, tries = clock.monotonic() + _SECONDS, list[_Try[_T]](), list[_Try[_T]]()

        def unit(tx: Transaction) -> _T:
            locked, now = lock(tx), _Try[_T]()
            done = next((each for each in doubtful if self._is_done(tx, action, each)), None)
            if done is not None:
                return done.result  # type: ignore[return-value]
            tries.append(now)
            now.result = act(tx, locked, self._record(tx, action, context, now))
            return now.result

        while True:
            tries.clear()
            try:
                return self._core.database.transact("administration", unit, deadline=deadline)
            except CommitUnknown as error:
                self._core.events.announce("commit.unknown", act=action)
                # Only the last one has got as far as its commit.
                doubtful += tries[-1:]
                if clock.monotonic() >= deadline:
                    raise ActUnresolved(action) from error
            except DatabaseDeadlineExceeded as error:
                if not doubtful:
                    raise
                raise ActUnresolved(action) from error

    def _record(self, tx: Transaction, action: str, context: object, now: _Try[_T]) -> Record:
        def record(*, kind: str, subject: str, filters: str | None = None) -> None:
            subject = subject[:_LONGEST_SUBJECT]
            event_id = self._core.store.administration.audit(
                tx, action=action, kind=kind, subject=subject, operator=operator_of(context), filters=filters
            )
            now.events.append((event_id, subject))

        return record

    def _is_done(self, tx: Transaction, action: str, tried: _Try[_T]) -> bool:
        """Whether a try was committed; one that recorded nothing changed nothing, and may run again."""
        has_event = self._core.store.administration.has_event
        return any(has_event(tx, event_id, action=action, subject=subject) for event_id, subject in tried.events)


def subject_of(key: ActorKey) -> str:
    """The audit subject: type and id; what is too long for the column ends in a digest, so that no two are one."""
    text = f"{key.actor_type}/{key.actor_id}"
    if len(text) <= _LONGEST_SUBJECT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: _LONGEST_SUBJECT - 17]}~{digest}"


def operator_of(context: object) -> str | None:
    return None if context is None else str(context)[:255]
