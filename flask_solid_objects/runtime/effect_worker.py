"""The effect role: run what turns emitted, outside of any transaction, and tell their actors how it ended.

At least once: a crash between the work and its record repeats it under the same effect id. A retry repeats the effect,
never the operation that emitted it (hazard H029).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

from flask_solid_objects.actors.effects import Effect
from flask_solid_objects.errors import (
    CommitUnknown,
    DatabaseDeadlineExceeded,
    InvalidArguments,
    InvalidPayload,
    NonRetryableError,
    PayloadTooLarge,
    Rejected,
)
from flask_solid_objects.runtime.claiming import CrashedWorker
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.delivering import Delivering
from flask_solid_objects.runtime.process import Keeper
from flask_solid_objects.runtime.recovering import Recovering
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.turn_ends import effect_error_document
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.effects import EffectRow
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import EffectContext

_FINAL = (NonRetryableError, InvalidArguments)
_CRASHED = effect_error_document(
    CrashedWorker("The process that ran this effect died or stalled on every attempt; it did not raise an error."),
    "unknown",
)


class EffectWorker(Role):
    """Runs one effect at a time; its process's heartbeat keeps a slow one from being taken over."""

    kind: ClassVar[str] = "effect"

    def __init__(
        self, core: Core, wake_ups: WakeUps, keeper: Keeper, delivering: Delivering, recovering: Recovering
    ) -> None:
        super().__init__(core, wake_ups, keeper)
        self._delivering, self._recovering = delivering, recovering
        self._recovered_at: float | None = None

    def run_once(self) -> bool:
        """Deliver messages that are due, look for abandoned effects now and then, and run one effect."""
        worked = self._delivering.run_once(lambda: self.is_stopping)
        self._recover()
        row = self._claim()
        if row is None:
            return worked
        self._execute(row)
        return True

    def _recover(self) -> None:
        now = self._core.seams.clock.monotonic()
        if self._recovered_at is None or now - self._recovered_at >= self._core.settings.idle_polling_interval:
            self._recovered_at = now
            self._recovering.retire_abandoned()

    def _claim(self) -> EffectRow | None:
        effects, names, process_id = self._core.store.effects, self._core.registry.effects.names(), self.registration.id
        ready = self._core.database.read(lambda tx: effects.ready_names(tx, names))
        if not ready or self.is_stopping:
            return None

        def claim(tx: Transaction) -> EffectRow | None:
            found = (effects.claim_first(tx, name, process_id) for name in ready)
            row = next((row for row in found if row is not None), None)
            if row is not None:
                self._core.events.announce_after(
                    tx,
                    "outbox.age",
                    actor=row.actor,
                    instance_id=row.instance_id,
                    message_id=row.message_id,
                    effect_id=row.effect_id,
                    effect=row.name,
                    attempt=row.attempts,
                    outbox="effect",
                    age=(tx.now() - row.available_at).total_seconds(),
                )
            return row

        try:
            return self._core.database.transact("claim_effect", claim)
        except CommitUnknown:
            self._until_known("give_back", lambda tx: effects.give_back(tx, process_id))
            return None

    def _execute(self, row: EffectRow) -> None:
        checkpoints = self._core.seams.checkpoints
        checkpoints.reach("effect.claimed", row=row)
        effect = self._core.registry.effects.find(row.name)
        assert effect is not None, "only registered names are claimed"
        if row.is_exhausted:
            self._fail(row, _CRASHED, "CrashedWorker")
            return
        try:
            value = self._core.run_actor_code(lambda: _run(effect, row))
        except (Exception, SystemExit) as error:
            checkpoints.reach("effect.handled", row=row)
            self._failed(row, error)
            return
        except BaseException:
            self._until_known("hand_back", lambda tx: self._core.store.effects.hand_back(tx, row))
            raise
        checkpoints.reach("effect.handled", row=row)
        try:
            result = effect.signature.encode_result(value, self._core.settings.max_result_bytes)
        except (InvalidPayload, PayloadTooLarge) as error:
            # The work was done, so trying again would do it twice; that its result cannot be stored is a failure.
            self._fail(row, effect_error_document(error, "done"), type(error).__name__)
            return
        self._end(row, status="completed", result=result, error=None, callback=row.on_success, told={"result": result})

    def _failed(self, row: EffectRow, error: BaseException) -> None:
        if isinstance(error, Rejected):
            # The outside said no: an answer for the actor, nothing for an operator.
            said = effect_error_document(error, "rejected")
            self._end(row, status="completed", result=None, error=said, callback=row.on_failure, told={"error": said})
            return
        document, name = effect_error_document(error, "unknown"), type(error).__name__
        if isinstance(error, _FINAL) or row.attempts >= row.max_attempts:
            self._fail(row, document, name)
        else:
            pause = timedelta(seconds=self._core.settings.pause_after(row.attempts))
            effects = self._core.store.effects

            def retry(tx: Transaction) -> bool:
                return effects.retry(tx, row, at=tx.now() + pause, error=document)

            if self._until_known("retry_effect", retry):
                self._core.events.announce(
                    "effect.failed",
                    actor=row.actor,
                    instance_id=row.instance_id,
                    message_id=row.message_id,
                    effect_id=row.effect_id,
                    effect=row.name,
                    attempt=row.attempts,
                    error=name,
                )

    def _fail(self, row: EffectRow, document: str, name: str) -> None:
        told = {"error": document}
        if self._end(row, status="dead", result=None, error=document, callback=row.on_failure, told=told):
            self._core.events.announce(
                "effect.dead",
                actor=row.actor,
                instance_id=row.instance_id,
                message_id=row.message_id,
                effect_id=row.effect_id,
                effect=row.name,
                attempt=row.attempts,
                error=name,
            )

    def _end(
        self,
        row: EffectRow,
        *,
        status: str,
        result: str | None,
        error: str | None,
        callback: str | None,
        told: dict[str, str],
    ) -> bool:
        """Record the end and send its callback in one transaction; False when the effect is no longer ours."""
        store, callbacks = self._core.store, self._recovering.callbacks

        def end(tx: Transaction) -> bool:
            if store.instances.lock_by_id(tx, row.instance_id) is None:
                return False
            if not store.effects.finish(tx, row, status=status, result=result, error=error):
                return False
            if callback is not None:
                callbacks.send(tx, row, callback, {"arguments": row.arguments, **told})
            return True

        if not self._until_known("end_effect", end):
            return False
        self._wake_ups.signal(instance_id=row.instance_id, work=True)
        if status == "completed":
            self._core.events.announce(
                "effect.completed",
                actor=row.actor,
                instance_id=row.instance_id,
                message_id=row.message_id,
                effect_id=row.effect_id,
                effect=row.name,
                attempt=row.attempts,
                outcome="completed" if error is None else "rejected",
            )
        return True

    def _until_known(self, name: str, work: Callable[[Transaction], Any]) -> Any:
        """Repeat a unit until its end is known; all of them are fenced, so that a repeat of a done one does nothing.

        The work outside is done: only a process that has to end gives up, and the effect is run again by another.
        """
        while True:
            try:
                return self._core.database.transact(name, work)
            except (CommitUnknown, DatabaseDeadlineExceeded) as error:
                self._core.events.announce("role.paused", role=self.kind, error=type(error).__name__)
                if self._core.seams.clock.wait(self._stopping, self._core.seams.clock.jitter(1.0)):
                    return None


def _run(effect: Effect[..., Any], row: EffectRow) -> Any:
    context = EffectContext(
        id=row.effect_id,
        name=row.name,
        attempt=row.attempts,
        max_attempts=row.max_attempts,
        source_message_id=row.message_id,
        actor_type=row.actor.actor_type,
        actor_id=row.actor.actor_id,
        enqueued_at=row.created_at,
    )
    return effect.function(context, **effect.signature.decode(row.arguments))
