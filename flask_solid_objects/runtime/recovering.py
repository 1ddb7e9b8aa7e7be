"""Abandoned effects, and questions about effects: what an actor is told when nobody knows how far its work came."""

from __future__ import annotations

from flask_solid_objects.errors import InvalidPayload
from flask_solid_objects.runtime.callbacks import Callbacks
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.effects import EffectRow
from flask_solid_objects.store.recoveries import Binding
from flask_solid_objects.store.transaction import Transaction

_AT_ONCE = 100


class Recovering:
    """Retires abandoned effects that opted into it; each in a transaction of its own."""

    def __init__(self, core: Core, wake_ups: WakeUps) -> None:
        self._core, self._wake_ups = core, wake_ups
        self.callbacks = Callbacks(core)

    def retire_abandoned(self) -> int:
        """Look at every running effect whose process is silent; how many were retired."""
        store, threshold, after, retired = self._core.store, self._core.settings.process_alive_threshold, 0, 0
        while True:
            last = after

            def look(tx: Transaction, last: int = last) -> list[tuple[int, int, str]]:
                return store.recoveries.suspects(tx, threshold=threshold, after=last, most=_AT_ONCE)

            suspects = self._core.database.read(look)
            for row_id, instance_id, effect_id in suspects:
                after = row_id
                retired += self._retire(instance_id, effect_id)
            if len(suspects) < _AT_ONCE:
                return retired

    def answer(self, tx: Transaction, instance_id: int, effect_id: str, operation: str, *, asked_by: int) -> None:
        """Answer a question that an actor asked about one of its effects, in the message ``asked_by``; it is locked.

        :raises InvalidPayload: there is no operation that could hear the answer.
        """
        store = self._core.store
        row, binding = store.effects.lock(tx, effect_id), store.recoveries.binding(tx, effect_id)
        if row is not None and row.instance_id != instance_id:
            row = None
        if binding is not None and binding.instance_id != instance_id:
            binding = None
        told = operation or (binding.on_status if binding is not None else None) or ""
        if not told:
            raise InvalidPayload("effect_id", f"effect {effect_id} has no on_status= to tell; give it to .using()")
        outcome = self._outcome(tx, row, binding)
        available = {"outcome": f'"{outcome}"'}
        if outcome == "completed" and row is not None:
            available |= {"arguments": row.arguments, "result": row.result or "null"}
        subject = row or self._pruned(tx, instance_id, effect_id, asked_by)
        if subject is not None:
            self.callbacks.send(tx, subject, told, available)

    def _outcome(self, tx: Transaction, row: EffectRow | None, binding: Binding | None) -> str:
        if binding is not None and binding.retired_at is not None:
            return "already_retired"
        if row is None:
            return "missing"
        if row.status != "processing":
            return row.status
        threshold = self._core.settings.process_alive_threshold
        if binding is None or not self._core.store.recoveries.is_abandoned(tx, row, binding, threshold):
            return "deferred"
        self._retire_locked(tx, row, binding)
        return "retired"

    def _pruned(self, tx: Transaction, instance_id: int, effect_id: str, asked_by: int) -> EffectRow | None:
        """A stand-in for a row that is gone: the answer needs the actor, and the message that asks."""
        instance = self._core.store.instances.find_by_id(tx, instance_id)
        if instance is None:
            return None
        now = tx.now()
        return EffectRow(
            id=0,
            effect_id=effect_id,
            name="",
            instance_id=instance_id,
            message_id=asked_by,
            actor=instance.key,
            arguments="{}",
            attempts=0,
            max_attempts=0,
            on_success=None,
            on_failure=None,
            status="",
            claimed_by=None,
            available_at=now,
            created_at=now,
            updated_at=now,
            result=None,
            error=None,
        )

    def _retire(self, instance_id: int, effect_id: str) -> bool:
        store, threshold = self._core.store, self._core.settings.process_alive_threshold

        def retire(tx: Transaction) -> bool:
            if store.instances.lock_by_id(tx, instance_id) is None:
                return False
            row = store.effects.lock(tx, effect_id)
            binding = store.recoveries.binding(tx, effect_id)
            if row is None or binding is None or not store.recoveries.is_abandoned(tx, row, binding, threshold):
                return False
            return self._retire_locked(tx, row, binding)

        retired = self._core.database.transact("retire", retire)
        if retired:
            self._wake_ups.signal(instance_id=instance_id, work=True)
        return retired

    def _retire_locked(self, tx: Transaction, row: EffectRow, binding: Binding) -> bool:
        if not self._core.store.recoveries.retire(tx, row):
            return False
        assert binding.on_recovery is not None, "only those that opted in are abandoned"
        # The key tells what the message is about, to whoever watches it run.
        key, told = f"effect:{row.effect_id}:recovery", {"arguments": row.arguments, "outcome": '"retired"'}
        self.callbacks.send(tx, row, binding.on_recovery, told, key)
        self._core.events.announce_after(
            tx,
            "effect.retired",
            actor=row.actor,
            instance_id=row.instance_id,
            message_id=row.message_id,
            effect_id=row.effect_id,
            effect=row.name,
            attempt=row.attempts,
        )
        return True
