"""What references do: call, send, snapshot, destroy, wait; the policies are asked here, before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from flask_solid_objects.actors.definition import OperationDefinition, Target
from flask_solid_objects.actors.message import Message
from flask_solid_objects.actors.options import checked_wait
from flask_solid_objects.errors import ActorCallCycle, CallInsideTransaction, CallTimeout
from flask_solid_objects.intents import CurrentTurn, current_turn
from flask_solid_objects.payloads import decode
from flask_solid_objects.runtime.caller import ActivationRefused, Answer, Caller, DeadlinePassed
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.diagnosis import diagnose
from flask_solid_objects.runtime.messages import Messages, rejected
from flask_solid_objects.runtime.policies import PolicyName
from flask_solid_objects.runtime.sending import Sending
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import (
    TERMINAL,
    Access,
    Enqueued,
    MessageStatus,
    NewMessage,
    Options,
    Outcome,
    Reminder,
)

DEFAULT_TIMEOUT = 5.0


class Verbs:
    """The verbs of one process; built on the parts that live in it."""

    def __init__(self, core: Core, caller: Caller, sending: Sending, wake_ups: WakeUps) -> None:
        self._core, self._caller, self._sending, self._wake_ups = core, caller, sending, wake_ups
        self.messages = Messages(core, self)

    # -- by reference -------------------------------------------------------------------------

    def call(self, target: Target, operation: OperationDefinition, arguments: str, options: Options) -> Any:
        """Run one operation in order, and return its committed result."""
        timeout = DEFAULT_TIMEOUT if options.timeout is None else options.timeout
        deadline = self._core.seams.clock.monotonic() + timeout
        self._authorize(target, operation, arguments, options)
        if self._core.has_uncommitted_work():
            raise self._inside_transaction(target, operation.name, sending=False)
        new = self._new(target, operation, arguments, options, sync=True)
        try:
            answer = self._caller.call(new, deadline=deadline, timeout=timeout)
        except ActivationRefused as refused:
            raise self._with_message(refused.error, target, refused.enqueued) from None
        except DeadlinePassed as passed:
            raise self._timed_out(target, operation.name, passed.enqueued, timeout) from None
        return self._value(operation, answer)

    def send(self, target: Target, operation: OperationDefinition, arguments: str, options: Options) -> Message[Any]:
        """Store a message; a worker runs it later."""
        self._authorize(target, operation, arguments, options)
        new = self._new(target, operation, arguments, options, sync=False)
        message: Message[Any] = Message(
            self,
            id=None,
            request_id=new.request_id,
            actor_type=new.key.actor_type,
            actor_id=new.key.actor_id,
            sequence=None,
            instance_id=None,
        )
        if options.session is not None:
            self._sending.send_with(options.session, new, message)
        elif self._core.has_uncommitted_work():
            raise self._inside_transaction(target, operation.name, sending=True)
        else:
            self._sending.send(new, message)
        return message

    def snapshot(self, target: Target, options: Options) -> Any:
        """Committed state as it is now, without a message; an actor that was never used has its defaults."""
        self._require("query", "snapshot", target, "__snapshot__", options)
        found = self._core.database.read(lambda tx: self._core.store.instances.snapshot(tx, target.key))
        text, version, instance_id, revision = found or ("{}", target.definition.state_version, None, None)

        def load() -> Any:
            # Observables may look at reminders.
            turn = CurrentTurn(key=target.key, operation="snapshot", read_reminders=lambda: self._reminders(target))
            current_turn.set(turn)
            return target.definition.snapshot(target.key, text, version)

        loaded = self._core.run_actor_code(load)
        self._core.events.announce("snapshot.read", actor=target.key, instance_id=instance_id, revision=revision)
        return loaded

    def destroy(self, target: Target, options: Options) -> bool:
        """Delete the actor and all that belongs to it; False when there was none."""
        self._require("destroy", "destroy", target, None, options)
        if self._core.has_uncommitted_work():
            raise self._inside_transaction(target, "destroy", sending=False)
        destroy = self._core.store.instances.destroy
        instance_id = self._core.database.transact("destroy", lambda tx: destroy(tx, target.key))
        if instance_id is None:
            return False
        self._wake_ups.signal(instance_id=instance_id, work=False)
        self._core.events.announce("actor.destroyed", actor=target.key, instance_id=instance_id)
        return True

    def find_message(self, target: Target, idempotency_key: str, options: Options) -> Message[Any] | None:
        return self.messages.find_by_key(target, idempotency_key, options.context)

    # -- by message ---------------------------------------------------------------------------

    def read_outcome(self, message: Message[Any], context: object) -> Outcome:
        """How a message stands; an unsent one has no row yet."""
        if message.id is None:
            return Outcome(status=MessageStatus.UNSENT, result=None, error=None, rejection=None, attempts=0)
        return self.messages.outcome(self.messages.record(message, context))

    def wait_message(self, message: Message[Any], timeout: float, context: object) -> Any:
        """Wait for a message, running the actor's earlier messages meanwhile."""
        if current_turn.get() is not None:
            raise ActorCallCycle("wait for", f"a message of {message.actor_type} {message.actor_id!r}")
        timeout = checked_wait(timeout)
        deadline = self._core.seams.clock.monotonic() + timeout
        record = self.messages.record(message, context)
        if self._core.has_uncommitted_work():
            raise CallInsideTransaction(
                actor_type=record.key.actor_type,
                actor_id=record.key.actor_id,
                operation=record.operation,
                sending=False,
            )
        if record.status in TERMINAL:
            return self.messages.value_of(record)
        enqueued = Enqueued(
            message_id=record.id,
            instance_id=record.instance_id,
            sequence=record.sequence,
            request_id=record.request_id,
            existing=True,
        )
        new = NewMessage(
            key=record.key,
            operation=record.operation,
            delivery_mode="async",
            arguments=record.arguments,
            request_id=record.request_id,
            max_attempts=record.max_attempts,
        )
        try:
            answer = self._caller.wait(enqueued, new, deadline=deadline)
        except DeadlinePassed as passed:
            target = Target(definition=self._core.registry.get(record.key.actor_type), key=record.key)
            raise self._timed_out(target, record.operation, passed.enqueued, timeout) from None
        assert answer.record is not None, "waiting always reads the record"
        return self.messages.value_of(answer.record)

    # -- parts --------------------------------------------------------------------------------

    def _reminders(self, target: Target) -> Mapping[str, Reminder]:
        """The actor's committed reminders by name; none of an actor that was never used."""
        store = self._core.store

        def read(tx: Transaction) -> Mapping[str, Reminder]:
            instance = store.instances.find(tx, target.key)
            return {} if instance is None else store.reminders.of_actor(tx, instance.id)

        return self._core.database.read(read)

    def _value(self, operation: OperationDefinition, answer: Answer) -> Any:
        if answer.completed is None:
            assert answer.record is not None, "an answer has one of both"
            return self.messages.value_of(answer.record)
        completion = answer.completed.completion
        if completion.rejection is not None:
            raise rejected(completion.rejection, answer.message_id)
        assert completion.result is not None, "a completed turn has a result, null included"
        return operation.decode_result(completion.result)

    def _new(
        self, target: Target, operation: OperationDefinition, arguments: str, options: Options, *, sync: bool
    ) -> NewMessage:
        return NewMessage(
            key=target.key,
            operation=operation.name,
            delivery_mode="sync" if sync else "async",
            arguments=arguments,
            request_id=str(uuid.uuid4()),
            max_attempts=self._core.settings.max_attempts,
            state_version=target.definition.state_version,
            idempotency_key=options.idempotency_key,
            delay=options.delay,
            at=options.at,
        )

    def _authorize(self, target: Target, operation: OperationDefinition, arguments: str, options: Options) -> None:
        policy: PolicyName = "message" if operation.kind == "operation" else "query"
        if not self._core.policies.is_asked(policy):
            return
        access = Access(
            action="call" if operation.kind == "operation" else operation.kind,
            actor_type=target.key.actor_type,
            actor_id=target.key.actor_id,
            operation=operation.name,
            arguments=decode(arguments),
            context=options.context,
        )
        self._core.policies.require(policy, access)

    def _require(
        self, policy: PolicyName, action: str, target: Target, operation: str | None, options: Options
    ) -> None:
        access = Access(
            action=action,
            actor_type=target.key.actor_type,
            actor_id=target.key.actor_id,
            operation=operation,
            arguments={},
            context=options.context,
        )
        self._core.policies.require(policy, access)

    def _timed_out(self, target: Target, operation: str, enqueued: Enqueued, timeout: float) -> CallTimeout:
        diagnosis = diagnose(self._core, enqueued)
        self._core.events.announce(
            "call.timeout",
            actor=target.key,
            instance_id=enqueued.instance_id,
            message_id=enqueued.message_id,
            operation=operation,
            timeout=timeout,
            waiting_on=diagnosis.waiting_on,
        )
        return CallTimeout(
            timeout=timeout,
            actor_type=target.key.actor_type,
            actor_id=target.key.actor_id,
            operation=operation,
            message=self._message(target, enqueued),
            status=diagnosis.status,
            waiting_on=diagnosis.waiting_on,
            activation=diagnosis.activation,
            blocker=diagnosis.blocker,
        )

    def _with_message(self, error: BaseException, target: Target, enqueued: Enqueued) -> BaseException:
        """The error of the activation itself, carrying its message, which stays queued (protocol 4.4)."""
        message = self._message(target, enqueued)
        error.add_note(
            f"The activation of {target.key} failed; message {enqueued.message_id} stays queued and is tried again."
        )
        error.solid_message = message  # type: ignore[attr-defined]
        return error

    def _message(self, target: Target, enqueued: Enqueued) -> Message[Any]:
        return Message(
            self,
            id=enqueued.message_id,
            request_id=enqueued.request_id,
            actor_type=target.key.actor_type,
            actor_id=target.key.actor_id,
            sequence=enqueued.sequence,
            instance_id=enqueued.instance_id,
        )

    def _inside_transaction(self, target: Target, operation: str, *, sending: bool) -> CallInsideTransaction:
        self._core.events.announce("call.transaction_rejected", actor=target.key, operation=operation)
        return CallInsideTransaction(
            actor_type=target.key.actor_type, actor_id=target.key.actor_id, operation=operation, sending=sending
        )
