"""Run one turn: activate the actor when it is not in memory, run the operation, and say what is to be committed.

Nothing here writes: a turn runs without an open transaction of ours (promise 4), and its end is committed by
``ending``. Memory is a cache (protocol 5.4): it is used again only for the next claim of the same lease, and is
dropped at any failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from flask_solid_objects.actors.reminders import with_staged
from flask_solid_objects.errors import (
    QueryMutatedState,
    Rejected,
)
from flask_solid_objects.intents import CurrentTurn, SetReminder, Stage, current_turn, folded
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.observing import changes_between, observe, revisions_after
from flask_solid_objects.runtime.remembered import remember
from flask_solid_objects.runtime.turn_ends import (
    Activation,
    Completed,
    Moved,
    NotActivated,
    TurnEnd,
    error_document,
    failure_of,
    rejection_of,
)
from flask_solid_objects.store.completion import Completion, ObservableChange, Staged
from flask_solid_objects.values import Claim, InstanceState, MessageContext, Reminder, RungReminder

OUT_OF_DATE = '{"class":"Skipped","message":"The reminder was cancelled or armed anew before this ran.","backtrace":[]}'
ReadReminders: TypeAlias = Callable[[], Mapping[str, Reminder]]


class TurnRunner:
    """Runs claimed messages in the context of actor code.

    :param interruptible: in the thread of a caller an exception beside ``Exception`` and ``SystemExit`` interrupts the
        caller, such as the timeout of a green thread; in a role only ``KeyboardInterrupt`` does.
    """

    def __init__(self, core: Core, *, interruptible: bool = False) -> None:
        self._core, self._interruptible = core, interruptible

    def run(self, claim: Claim, activation: Activation | None = None) -> TurnEnd:
        """Run the claimed message; every error of actor code becomes a value.

        :raises BaseException: an interruption; whoever claimed the message hands it back.
        """
        checkpoints = self._core.seams.checkpoints
        checkpoints.reach("turn.claimed", claim=claim)
        if claim.message.reminder is not None and not self._still_armed(claim, claim.message.reminder):
            return Completed(Completion(state=None, skipped=OUT_OF_DATE), activation)
        clock = self._core.seams.clock
        began = clock.monotonic()
        end = self._core.run_actor_code(lambda: self._run(claim, activation))
        checkpoints.reach("turn.handled", claim=claim)
        return end if isinstance(end, NotActivated) else replace(end, seconds=clock.monotonic() - began)

    def deactivate(self, activation: Activation, claim: Claim) -> None:
        """Run the ``on_deactivate`` hooks; what they raise is logged and changes nothing."""
        if not activation.definition.has_deactivate_hook:
            return

        def run() -> None:
            current_turn.set(CurrentTurn(key=claim.key, operation="on_deactivate"))
            try:
                activation.definition.run_deactivate(activation.actor)
            except Exception as error:
                self._core.events.announce(
                    "activation.deactivation_failed", actor=claim.key, lease=claim.lease, error=type(error).__name__
                )

        self._core.run_actor_code(run)

    def _still_armed(self, claim: Claim, rung: RungReminder) -> bool:
        """Whether the reminder that rang was neither cancelled nor armed anew before its message ran (protocol 8.2)."""
        reminders = self._core.store.reminders
        return self._core.database.read(lambda tx: reminders.is_current(tx, rung.id, rung.generation))

    def _run(self, claim: Claim, activation: Activation | None) -> TurnEnd:
        try:
            return self._attempt(claim, activation)
        finally:
            turn = current_turn.get()
            if turn is not None and turn.refusals:
                self._core.events.announce("actor_code.write_forbidden", claim=claim)

    def _attempt(self, claim: Claim, activation: Activation | None) -> TurnEnd:
        read_reminders, events = self._reminders_of(claim), self._core.events
        if activation is None:
            events.announce("activation.started", actor=claim.key, lease=claim.lease)
            try:
                activation = self._activate(claim, read_reminders)
            except BaseException as error:
                self._let_through(error)
                events.announce("activation.failed", actor=claim.key, lease=claim.lease, error=type(error).__name__)
                return NotActivated(error, error_document(error))
            events.announce("activation.completed", actor=claim.key, lease=claim.lease)
        events.announce("message.started", claim=claim)
        try:
            return self._operate(claim, activation, read_reminders)
        except Rejected as rejection:
            return rejection_of(claim, rejection, self._core.settings)
        except BaseException as error:
            self._let_through(error)
            return failure_of(claim, error, self._core.settings)

    def _reminders_of(self, claim: Claim) -> ReadReminders:
        """The actor's committed reminders, read once per turn and only when it asks."""
        found: dict[str, Reminder] | None = None

        def read() -> Mapping[str, Reminder]:
            nonlocal found
            if found is None:
                reminders, instance_id = self._core.store.reminders, claim.lease.instance_id
                found = self._core.database.read(lambda tx: reminders.of_actor(tx, instance_id))
            return found

        return read

    def _stage(self, claim: Claim, read_reminders: ReadReminders) -> Stage:
        settings = self._core.settings
        return Stage(
            now=claim.now,
            payload_limit=settings.max_payload_bytes,
            max_attempts=settings.max_attempts,
            read_reminders=read_reminders,
        )

    def _let_through(self, error: BaseException) -> None:
        """Raise what is not about the message but about the thread that runs it."""
        ours = isinstance(error, Exception | SystemExit) or not self._interruptible
        if not ours or isinstance(error, KeyboardInterrupt):
            raise error

    def _activate(self, claim: Claim, read_reminders: ReadReminders) -> Activation:
        definition = self._core.registry.get(claim.key.actor_type)
        current_turn.set(CurrentTurn(key=claim.key, operation="state_migration"))
        actor = definition.hydrate(claim.key, claim.state.text, claim.state.version)
        # State is compared by our own encoding, never by the column's; only payloads need to know.
        text = definition.encode_state(actor, self._core.settings.max_state_bytes) if definition.has_payloads else ""
        activation = Activation(definition, actor, text)
        activation.observed = self._observe(claim, activation, read_reminders)
        if definition.has_activate_hook:
            activation.pending = stage = self._stage(claim, read_reminders)
            current_turn.set(
                CurrentTurn(key=claim.key, operation="on_activate", stage=stage, read_reminders=read_reminders)
            )
            definition.run_activate(actor)
        return activation

    def _observe(self, claim: Claim, activation: Activation, read_reminders: ReadReminders) -> dict[str, str]:
        settings = self._core.settings
        return observe(
            activation.definition,
            activation.actor,
            claim.key,
            limit=settings.max_result_bytes,
            state_limit=settings.max_state_bytes,
            read_reminders=read_reminders,
        )

    def _operate(self, claim: Claim, activation: Activation, read_reminders: ReadReminders) -> Completed:
        definition, actor, settings = activation.definition, activation.actor, self._core.settings
        operation = definition.lookup(claim.message.operation)
        reads = operation.kind != "operation"
        stage = None if reads else activation.pending or self._stage(claim, read_reminders)
        current_turn.set(
            CurrentTurn(
                key=claim.key, operation=operation.name, stage=stage, reads=reads, read_reminders=read_reminders
            )
        )
        arguments = operation.decode_arguments(claim.message.arguments)
        definition.set_context(actor, _context(claim))
        before = definition.encode_state(actor, settings.max_state_bytes) if reads else ""
        value = operation.invoke(actor, arguments)
        result = operation.encode_result(value, settings.max_result_bytes)
        text = definition.encode_state(actor, settings.max_state_bytes)
        keys = remember(claim, settings)
        if stage is None:
            definition.set_context(actor, None)
            if text != before:
                raise QueryMutatedState(claim.key.actor_type, operation.name)
            return Completed(Completion(state=None, result=result, remembered_keys=keys), activation)
        staged_reminders = stage.reminders
        observed = self._observe(claim, activation, lambda: with_staged(read_reminders(), staged_reminders))
        definition.set_context(actor, None)
        changes = changes_between(
            definition, activation.observed or {}, observed, state_changed=text != activation.text
        )
        activation.text, activation.observed, activation.pending = text, observed, None
        revision = max(claim.state.revision + 1, claim.message.sequence)
        state = InstanceState(
            text=text,
            version=definition.state_version,
            revision=revision,
            observable_revisions=revisions_after(claim.state.observable_revisions, changes, revision),
        )
        staged = staged_of(stage, changes, settings.max_attempts)
        completion = Completion(state=state, result=result, remembered_keys=keys, staged=staged)
        return Completed(completion, activation, moved=self._moved(stage, read_reminders))

    def _moved(self, stage: Stage, read_reminders: ReadReminders) -> tuple[Moved, ...]:
        """The armed reminders that this turn moves; they are read for it only when somebody listens."""
        sets_any = any(isinstance(each, SetReminder) for each in stage.reminders)
        if not sets_any or not self._core.events.wants("reminder.replaced"):
            return ()
        known, (_, _, armed) = read_reminders(), folded(stage.reminders)
        return tuple(
            Moved(each.operation, known[name].next_run_at.isoformat(), each.next_run_at.isoformat())
            for name, each in armed.items()
            if name in known and known[name].status == "scheduled"
        )


def staged_of(stage: Stage, changes: Sequence[ObservableChange], attempts: int) -> Staged | None:
    """What the store writes of a stage; None for nothing."""
    if stage.is_empty and not changes:
        return None
    return Staged(
        outbox=tuple(stage.outbox),
        reminders=tuple(stage.reminders),
        actions=tuple(stage.actions),
        changes=tuple(changes),
        broadcast_attempts=attempts,
    )


def _context(claim: Claim) -> MessageContext:
    message = claim.message
    return MessageContext(
        message_id=message.id,
        request_id=message.request_id,
        sequence=message.sequence,
        attempt=message.attempt,
        enqueued_at=message.enqueued_at,
        idempotency_key=message.idempotency_key,
        now=claim.now,
        due_at=None if message.reminder is None else message.reminder.due_at,
        missed=0 if message.reminder is None else message.reminder.missed,
    )
