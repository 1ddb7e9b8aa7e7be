"""What is told of a turn once its end is committed: the message, and everything that committed with it."""

from __future__ import annotations

from flask_solid_objects.intents import ACTOR_MESSAGE
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.turn_ends import Completed, Failed
from flask_solid_objects.store.completion import Completion, Staged
from flask_solid_objects.values import Claim, MessageStatus


class Announcing:
    """Announces the ends of turns for one runtime; called when nothing can undo them any more."""

    def __init__(self, core: Core) -> None:
        self._core, self._events = core, core.events

    def completed(self, claim: Claim, end: Completed, *, released: bool) -> None:
        """A turn ended well, said no, or was not to run any more."""
        completion, events = end.completion, self._events
        if completion.skipped is not None:
            events.announce("message.skipped", claim=claim)
        elif completion.rejection is not None:
            events.announce("message.rejected", claim=claim, duration=end.seconds, code=end.code)
        else:
            revision = claim.state.revision if completion.revision is None else completion.revision
            events.announce("message.completed", claim=claim, duration=end.seconds, revision=revision)
            if _is_recovery(claim):
                events.announce("recovery.completed", claim=claim)
        self._state(claim, completion)
        if completion.staged is not None:
            self._staged(claim, completion.staged, completion.revision)
        for each in end.moved:
            events.announce(
                "reminder.replaced",
                actor=claim.key,
                instance_id=claim.lease.instance_id,
                message_id=claim.message.id,
                operation=each.operation,
                previous_run_at=each.previous_run_at,
                next_run_at=each.next_run_at,
            )
        if released:
            events.announce("activation.released", actor=claim.key, lease=claim.lease)

    def failed(self, claim: Claim, end: Failed) -> None:
        """A turn raised: its message waits for a retry, or is a dead letter."""
        events, is_final = self._events, end.failure.retry_seconds is None
        events.announce(
            "message.failed",
            claim=claim,
            duration=end.seconds,
            error=type(end.error).__name__,
            outcome="dead" if is_final else "retrying",
            retryable=not is_final,
        )
        if not is_final:
            events.announce("message.retry", claim=claim)
        else:
            events.announce("dead_letter.created", claim=claim)
            if _is_recovery(claim):
                events.announce("recovery.failed", claim=claim)
        events.announce("activation.released", actor=claim.key, lease=claim.lease)

    def action_failed(self, claim: Claim, action: str, error: BaseException) -> None:
        """A commit action raised, and its transaction was rolled back."""
        generation = claim.lease.generation
        self._events.announce("commit_action.started", claim=claim, activation_generation=generation, action=action)
        self._events.announce(
            "commit_action.failed",
            claim=claim,
            activation_generation=generation,
            action=action,
            error=type(error).__name__,
        )

    def _state(self, claim: Claim, completion: Completion) -> None:
        threshold = self._core.settings.warn_state_bytes
        if completion.state is not None and len(completion.state.text) > threshold:
            self._events.announce(
                "state.large",
                actor=claim.key,
                instance_id=claim.lease.instance_id,
                byte_count=len(completion.state.text.encode()),
                threshold_bytes=threshold,
            )

    def _staged(self, claim: Claim, staged: Staged, revision: int | None) -> None:
        for entry in staged.outbox:
            # A message to an actor is announced when it has arrived.
            if entry.name != ACTOR_MESSAGE:
                self._events.announce(
                    "effect.enqueued",
                    actor=claim.key,
                    instance_id=claim.lease.instance_id,
                    message_id=claim.message.id,
                    effect_id=entry.effect_id,
                    effect=entry.name,
                )
        for change in staged.changes:
            self._events.announce(
                "broadcast.enqueued",
                actor=claim.key,
                instance_id=claim.lease.instance_id,
                message_id=claim.message.id,
                observable=change.name,
                revision=revision,
            )


def end_of(completion: Completion) -> MessageStatus:
    """What a message is once this is stored."""
    if completion.skipped is not None:
        return MessageStatus.SKIPPED
    return MessageStatus.COMPLETED if completion.rejection is None else MessageStatus.REJECTED


def _is_recovery(claim: Claim) -> bool:
    """Whether the message tells an actor of its abandoned effect."""
    key = claim.message.idempotency_key or ""
    return claim.message.delivery_mode == "internal" and key.startswith("effect:") and key.endswith(":recovery")
