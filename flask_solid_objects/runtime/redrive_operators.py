"""What operators do with redrives: preview, start, watch and cancel the tasks that the maintenance role runs."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import get_args

from flask_solid_objects.errors import UnknownRedrive
from flask_solid_objects.payloads import encode
from flask_solid_objects.runtime.acts import Acts, Record, operator_of
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.redrives import KINDS, Filters, Redrive, RedriveKind, RedrivePreview, RedriveStatus
from flask_solid_objects.store.transaction import Transaction

_PAGE = 50
_MOST = 2**31 - 1


class RedriveOperators:
    """Redrives of one runtime; ``context`` goes to the administration policy."""

    def __init__(self, core: Core, wake_ups: WakeUps, acts: Acts) -> None:
        self._core, self._wake_ups, self._acts = core, wake_ups, acts

    def preview(
        self,
        kind: RedriveKind,
        *,
        actor_type: str | None = None,
        failed_after: datetime | None = None,
        operation: str | None = None,
        exception_class: str | None = None,
        limit: int | None = None,
        context: object = None,
    ) -> RedrivePreview:
        """How much :meth:`start` with the same arguments would revive now, counted up to a cap.

        :raises ValueError: an argument is wrong.
        """
        self._acts.require("preview", _resource(kind), context)
        filters = _filters(kind, actor_type, failed_after, operation, exception_class)
        _check_limit(limit)
        redrives = self._core.store.redrives
        return self._acts.read(lambda tx: redrives.preview(tx, kind, filters, limit=limit))

    def start(
        self,
        kind: RedriveKind,
        *,
        actor_type: str | None = None,
        failed_after: datetime | None = None,
        operation: str | None = None,
        exception_class: str | None = None,
        limit: int | None = None,
        context: object = None,
    ) -> Redrive:
        """Revive all dead effects, broadcasts or messages in the background; what runs into death again stays dead.

        Of each message that was not sent again yet a copy is sent to the end of its mailbox; those of one actor in the
        order in which they died. One whose mailbox is full stays as it is. While a task of the same kind and filters
        runs, that one is returned.

        :param failed_after: only what died at or after this time.
        :param operation: only messages of this operation.
        :param exception_class: only messages that died of this class, as their dead letters name it.
        :param limit: revive so many at most.
        :raises ValueError: an argument is wrong.
        """
        self._acts.require("redrive", _resource(kind), context)
        filters = _filters(kind, actor_type, failed_after, operation, exception_class)
        _check_limit(limit)
        redrive_id, redrives = str(uuid.uuid4()), self._core.store.redrives

        def lock(tx: Transaction) -> Redrive:
            return redrives.start(tx, redrive_id, kind, filters, limit=limit, operator=operator_of(context))

        def start(_tx: Transaction, redrive: Redrive, record: Record) -> Redrive:
            if redrive.id == redrive_id:
                record(kind=kind, subject=redrive_id, filters=_recorded(redrive))
            return redrive

        return self._acts.perform("redrive.start", context, lock, start)

    def cancel(self, redrive_id: str, *, context: object = None) -> Redrive:
        """End a running task after its batch; what it has revived stays so, and one that has ended is unchanged."""
        self._acts.require("cancel", "redrives", context, resource_id=redrive_id)
        redrives = self._core.store.redrives

        def cancel(tx: Transaction, redrive: Redrive | None, record: Record) -> Redrive:
            if redrive is None:
                raise UnknownRedrive(redrive_id)
            if not redrive.is_running:
                return redrive
            redrives.end(tx, redrive_id, "cancelled")
            record(kind=redrive.kind, subject=redrive_id)
            return redrives.find(tx, redrive_id) or redrive

        return self._acts.perform("redrive.cancel", context, lambda tx: redrives.lock(tx, redrive_id), cancel)

    def find(self, redrive_id: str, *, context: object = None) -> Redrive:
        """How a task stands.

        :raises UnknownRedrive: there is none, or it was pruned.
        """
        self._acts.require("inspect", "redrives", context, resource_id=redrive_id)
        found = self._core.database.read(lambda tx: self._core.store.redrives.find(tx, redrive_id))
        if found is None:
            raise UnknownRedrive(redrive_id)
        return found

    def list(self, *, status: RedriveStatus | None = None, most: int = _PAGE, context: object = None) -> list[Redrive]:
        """The tasks that were started last."""
        self._acts.require("inspect", "redrives", context)
        if status is not None and status not in get_args(RedriveStatus):
            raise ValueError(f"status is one of {', '.join(get_args(RedriveStatus))}, not {status!r}.")
        return self._core.database.read(lambda tx: self._core.store.redrives.page(tx, status=status, most=most))


def _resource(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not {kind!r}.")
    return "dead_letters" if kind == "message" else f"{kind}_dead_letters"


def _filters(
    kind: RedriveKind,
    actor_type: str | None,
    failed_after: datetime | None,
    operation: str | None,
    exception_class: str | None,
) -> Filters:
    if failed_after is not None and failed_after.tzinfo is None:
        raise ValueError("failed_after needs a time zone, such as datetime.now(UTC).")
    if kind != "message" and not (operation is None and exception_class is None):
        raise ValueError(f"operation and exception_class are filters of messages, not of {kind}s: leave them out.")
    return Filters(
        actor_type=actor_type, failed_after=failed_after, operation=operation, exception_class=exception_class
    )


def _check_limit(limit: int | None) -> None:
    if limit is not None and (isinstance(limit, bool) or not 1 <= limit <= _MOST):
        raise ValueError(f"limit is a number from 1 to {_MOST}, not {limit!r}.")


def _recorded(redrive: Redrive) -> str:
    """The filters for the audit log."""
    since = None if redrive.failed_after is None else redrive.failed_after.isoformat()
    filters = {"actor_type": redrive.actor_type, "failed_after": since, "limit": redrive.limit}
    if redrive.kind == "message":
        filters |= {"operation": redrive.operation, "exception_class": redrive.exception_class}
    return encode(filters, path="filters")
