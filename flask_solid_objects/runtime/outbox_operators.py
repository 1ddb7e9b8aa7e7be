"""What operators do with rows of the outboxes: look at them, and give those that failed for good another life."""

from __future__ import annotations

from typing import Literal, TypeAlias

from flask_solid_objects.errors import UnknownOutboxRow
from flask_solid_objects.runtime.acts import Acts, Record
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.broadcasts import BroadcastRow
from flask_solid_objects.store.effects import EffectRow
from flask_solid_objects.store.transaction import Transaction

WaitingStatus: TypeAlias = Literal["pending", "processing"]
_WAITING: tuple[WaitingStatus, ...] = ("pending", "processing")
_PAGE = 50


class EffectOperators:
    """Effects of one runtime, messages from actor to actor included; ``context`` goes to the administration policy."""

    def __init__(self, core: Core, wake_ups: WakeUps, acts: Acts) -> None:
        self._core, self._wake_ups, self._acts = core, wake_ups, acts

    def waiting(
        self,
        *,
        status: WaitingStatus = "pending",
        actor_type: str | None = None,
        before: int | None = None,
        most: int = _PAGE,
        context: object = None,
    ) -> list[EffectRow]:
        """The newest effects that wait or run; pass the last id as ``before`` for the next page."""
        self._acts.require("inspect", "effects", context)
        return self._page(_known(status), actor_type, before, most)

    def dead(
        self, *, actor_type: str | None = None, before: int | None = None, most: int = _PAGE, context: object = None
    ) -> list[EffectRow]:
        """The newest effects that failed for good; pass the last id as ``before`` for the next page."""
        self._acts.require("inspect", "effect_dead_letters", context)
        return self._page("dead", actor_type, before, most)

    def retry(self, effect_id: str, *, context: object = None) -> EffectRow:
        """Let a dead effect start from the beginning, under the same id; any other is returned as it is.

        :raises UnknownOutboxRow: there is no such effect.
        """
        self._acts.require("retry", "effect_dead_letters", context, resource_id=effect_id)
        store = self._core.store

        def lock(tx: Transaction) -> EffectRow | None:
            found = store.effects.find(tx, effect_id)
            if found is None or store.instances.lock_by_id(tx, found.instance_id) is None:
                return None
            return store.effects.lock(tx, effect_id)

        def retry(tx: Transaction, row: EffectRow | None, record: Record) -> EffectRow:
            if row is None:
                raise UnknownOutboxRow("effect", effect_id)
            record(kind="effect", subject=effect_id)
            return store.outbox_administration.revive_effect(tx, row)

        row = self._acts.perform("effect.retry", context, lock, retry)
        self._wake_ups.signal(instance_id=None, work=True)
        return row

    def _page(self, status: str, actor_type: str | None, before: int | None, most: int) -> list[EffectRow]:
        effects = self._core.store.outbox_administration.effects
        return self._core.database.read(
            lambda tx: effects(tx, status=status, actor_type=actor_type, before=before, most=most)
        )


class BroadcastOperators:
    """Broadcasts of one runtime; ``context`` goes to the administration policy."""

    def __init__(self, core: Core, wake_ups: WakeUps, acts: Acts) -> None:
        self._core, self._wake_ups, self._acts = core, wake_ups, acts

    def waiting(
        self,
        *,
        status: WaitingStatus = "pending",
        actor_type: str | None = None,
        before: int | None = None,
        most: int = _PAGE,
        context: object = None,
    ) -> list[BroadcastRow]:
        """The newest broadcasts that wait or are delivered; pass the last id as ``before`` for the next page."""
        self._acts.require("inspect", "broadcasts", context)
        return self._page(_known(status), actor_type, before, most)

    def dead(
        self, *, actor_type: str | None = None, before: int | None = None, most: int = _PAGE, context: object = None
    ) -> list[BroadcastRow]:
        """The newest broadcasts that failed for good; pass the last id as ``before`` for the next page."""
        self._acts.require("inspect", "broadcast_dead_letters", context)
        return self._page("dead", actor_type, before, most)

    def retry(self, broadcast_id: str, *, context: object = None) -> BroadcastRow:
        """Let a dead broadcast start from the beginning, under the same id; any other is returned as it is.

        :raises UnknownOutboxRow: there is no such broadcast.
        """
        self._acts.require("retry", "broadcast_dead_letters", context, resource_id=broadcast_id)
        store = self._core.store

        def lock(tx: Transaction) -> BroadcastRow | None:
            found = store.broadcasts.find(tx, broadcast_id)
            if found is None or store.instances.lock_by_id(tx, found.instance_id) is None:
                return None
            return store.outbox_administration.lock_broadcast(tx, broadcast_id)

        def retry(tx: Transaction, row: BroadcastRow | None, record: Record) -> BroadcastRow:
            if row is None:
                raise UnknownOutboxRow("broadcast", broadcast_id)
            record(kind="broadcast", subject=broadcast_id)
            return store.outbox_administration.revive_broadcast(tx, row)

        row = self._acts.perform("broadcast.retry", context, lock, retry)
        self._wake_ups.signal(instance_id=None, work=True)
        return row

    def _page(self, status: str, actor_type: str | None, before: int | None, most: int) -> list[BroadcastRow]:
        broadcasts = self._core.store.outbox_administration.broadcasts
        return self._core.database.read(
            lambda tx: broadcasts(tx, status=status, actor_type=actor_type, before=before, most=most)
        )


def _known(status: WaitingStatus) -> WaitingStatus:
    if status not in _WAITING:
        raise ValueError(f"status is one of {', '.join(_WAITING)}, not {status!r}.")
    return status
