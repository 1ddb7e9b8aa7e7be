"""The caller's side of a call: admit the message, run it when nobody else does, and wait for its outcome.

A call needs no worker: a caller whose message waits claims the head of the actor like a worker does, and runs earlier
messages until its own is terminal or its deadline has passed (protocol 4.6).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from flask_solid_objects.errors import (
    ActorDestroyed,
    CallEnqueueTimeout,
    CallUnresolved,
    CommitUnknown,
    DatabaseDeadlineExceeded,
    LostActivation,
)
from flask_solid_objects.runtime.claiming import Claiming
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.ending import Ending
from flask_solid_objects.runtime.observing import REVISION
from flask_solid_objects.runtime.process import Keeper, Registration
from flask_solid_objects.runtime.turn import TurnRunner
from flask_solid_objects.runtime.turn_ends import Completed, NotActivated, TurnEnd
from flask_solid_objects.runtime.turnstile import Turnstile
from flask_solid_objects.runtime.wakeups import AdaptiveInterval, WakeUps
from flask_solid_objects.store.completion import Claimant, Completion
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import TERMINAL, Claim, CommittedTurn, Enqueued, MessageRecord, NewMessage

# A caller that nobody wakes looks ever less often, down to a fifth of the setting: looks of many waiters are work too.
_SLOWER_POLLING = 5
# How many polling intervals a caller lets others of its process go first: 16 turns of 3 ms, and room to spare.
_PATIENCE = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call ended with: the completion just committed by this caller, or the stored record."""

    message_id: int
    completed: Completed | None = None
    record: MessageRecord | None = None


class DeadlinePassed(Exception):
    """The message is durable and has no outcome yet."""

    def __init__(self, enqueued: Enqueued) -> None:
        super().__init__()
        self.enqueued = enqueued


class ActivationRefused(Exception):
    """The caller's own admit met an activation that fails; the message stays queued."""

    def __init__(self, enqueued: Enqueued, error: BaseException) -> None:
        super().__init__()
        self.enqueued = enqueued
        self.error = error


class Caller:
    """Runs calls of this process under its one registration of kind ``caller``."""

    def __init__(
        self,
        core: Core,
        wake_ups: WakeUps,
        keeper: Keeper,
        registration: Registration,
        claiming: Claiming,
        ending: Ending,
    ) -> None:
        self._core, self._wake_ups, self._keeper, self._registration = core, wake_ups, keeper, registration
        self._claiming, self._ending = claiming, ending
        self._turns = TurnRunner(core, interruptible=True)
        self._turnstile = Turnstile()

    def call(self, new: NewMessage, *, deadline: float, timeout: float) -> Answer:
        """Admit a message and see to its outcome.

        :raises CallEnqueueTimeout, MailboxFull, IdempotencyConflict: nothing is durable.
        :raises DeadlinePassed, ActivationRefused, ActorDestroyed: it is, or was.
        """
        try:
            owner = self._registration.id_before(deadline)
        except DatabaseDeadlineExceeded as error:
            raise self._not_stored(new, timeout) from error
        claimant = Claimant(owner=owner, token=str(uuid.uuid4()), seconds=self._core.settings.lease_duration)
        patience = min(self._core.settings.sync_polling_interval * _PATIENCE, (deadline - self._now()) / 2)
        with self._turnstile.at(new.key, patience) as held:
            enqueued = self._admit(new, claimant, deadline=deadline, timeout=timeout)
            self._core.seams.checkpoints.reach("call.admitted", enqueued=enqueued)
            if enqueued.claim is not None:
                answer = self._run_admitted(enqueued, enqueued.claim, deadline)
                if answer is not None:
                    return answer
            # What is waited for now is for the database to order; nobody here has to wait for it too.
            held.give_back()
            if enqueued.claim is None and not enqueued.existing:
                self._wake_ups.signal(instance_id=enqueued.instance_id, work=True)
            return self.wait(enqueued, new, deadline=deadline)

    def _run_admitted(self, enqueued: Enqueued, claim: Claim, deadline: float) -> Answer | None:
        """Run what the admit has claimed; None when it has no outcome that is known here."""
        if self._now() >= deadline:
            # The waiter has left already: the message keeps its place and its attempts (protocol 4.9).
            self._ending.hand_back(claim)
            raise DeadlinePassed(enqueued)
        end = self._run(claim)
        if isinstance(end, NotActivated):
            raise ActivationRefused(enqueued, end.error)
        return Answer(enqueued.message_id, completed=end) if isinstance(end, Completed) else None

    def wait(self, enqueued: Enqueued, new: NewMessage, *, deadline: float) -> Answer:
        """Wait as a stranger, claiming the head of the actor whenever it is free or its lease has expired."""
        fast = self._core.settings.sync_polling_interval
        interval = AdaptiveInterval(fast, fast * _SLOWER_POLLING)
        with self._wake_ups.watch_instance(enqueued.instance_id, enqueued.sequence) as watch:
            self._wake_ups.start()
            while True:
                record, can_claim = self._look(enqueued, new, deadline)
                if record.status in TERMINAL:
                    return Answer(record.id, record=record)
                if self._now() >= deadline:
                    raise DeadlinePassed(enqueued)
                if can_claim and self._help(enqueued, deadline):
                    continue
                if watch.wait(min(interval.current, max(0.0, deadline - self._now()))):
                    interval.reset()
                else:
                    interval.back_off()

    def _admit(self, new: NewMessage, claimant: Claimant, *, deadline: float, timeout: float) -> Enqueued:
        admission = self._core.store.admission
        admitted: list[Enqueued] = []
        repeated, request = False, new
        while True:
            try:
                admit = partial(admission.admit, new=request, claimant=claimant, repeated=repeated)
                enqueued = self._core.database.transact("admit", partial(_noted, admitted, admit), deadline=deadline)
                return self._told(new, enqueued)
            except CommitUnknown as error:
                self._core.events.announce("commit.unknown", act="admit", actor=new.key)
                repeated = True
                if admitted and admitted[-1].sequence > 1:
                    # The incarnation existed before, so a repeat must not make another one (protocol 5.3).
                    request = replace(new, instance_id=admitted[-1].instance_id)
                if self._now() >= deadline:
                    raise self._unresolved(new) from error
            except DatabaseDeadlineExceeded as error:
                if repeated:
                    raise self._unresolved(new) from error
                raise self._not_stored(new, timeout) from error

    def _told(self, new: NewMessage, enqueued: Enqueued) -> Enqueued:
        events, claim = self._core.events, enqueued.claim
        events.announce_enqueued(new, enqueued)
        if claim is not None:
            events.announce("activation.claimed", actor=claim.key, lease=claim.lease)
        return enqueued

    def _not_stored(self, new: NewMessage, timeout: float) -> CallEnqueueTimeout:
        self._core.events.announce("call.enqueue_timeout", actor=new.key, operation=new.operation, timeout=timeout)
        return CallEnqueueTimeout(
            timeout=timeout, actor_type=new.key.actor_type, actor_id=new.key.actor_id, operation=new.operation
        )

    @staticmethod
    def _unresolved(new: NewMessage) -> CallUnresolved:
        return CallUnresolved(
            request_id=new.request_id,
            actor_type=new.key.actor_type,
            actor_id=new.key.actor_id,
            operation=new.operation,
        )

    def _run(self, claim: Claim) -> TurnEnd | None:
        """Run one claimed message and commit its end; None when the stored outcome has to be read."""
        with self._keeper.keep(claim):
            try:
                end = self._turns.run(claim)
            except BaseException:
                self._ending.hand_back(claim)
                raise
            try:
                ended = self._ending.end(claim, end, go_on=False, continues=False)
            except ActorDestroyed:
                raise
            except (LostActivation, CommitUnknown, DatabaseDeadlineExceeded) as error:
                self._core.events.announce("activation.lost", claim=claim, error=type(error).__name__)
                return None
        if isinstance(end, Completed) and end.activation is not None:
            self._turns.deactivate(end.activation, claim)
        if not ended.is_certain:
            return None
        if isinstance(end, Completed) and end.completion.state is not None:
            self._core.turn_committed(_committed(claim, end.completion, end.completion.state.revision))
        return end

    def _help(self, enqueued: Enqueued, deadline: float) -> bool:
        """Run the head of the actor; False when somebody else has it, so that there is nothing to do but wait."""
        try:
            claim = self._claiming.claim_of(enqueued.instance_id, self._registration.id, deadline=deadline)
        except DatabaseDeadlineExceeded:
            return False
        if claim is None:
            return False
        self._run(claim)
        return True

    def _look(self, enqueued: Enqueued, new: NewMessage, deadline: float) -> tuple[MessageRecord, bool]:
        """The message as it is stored, and whether the actor's head may be claimed now.

        Also past the deadline, since a terminal message wins over the timeout.
        """
        limit = max(deadline, self._now() + 1.0)
        try:
            record, can_claim = self._core.database.read(partial(self._read, enqueued), deadline=limit)
        except DatabaseDeadlineExceeded as error:
            raise DeadlinePassed(enqueued) from error
        if record is None:
            raise ActorDestroyed(new.key.actor_type, new.key.actor_id)
        return record, can_claim

    def _read(self, enqueued: Enqueued, tx: Transaction) -> tuple[MessageRecord | None, bool]:
        """Without a lock, so that waiting costs no writes; the claim judges again under the lock."""
        record = self._core.store.mailbox.find(tx, enqueued.message_id)
        if record is None or record.status in TERMINAL:
            return record, False
        instance = self._core.store.instances.find_by_id(tx, enqueued.instance_id)
        if instance is None:
            return None, False
        if instance.owner is not None:
            return record, instance.expires_at is not None and instance.expires_at <= tx.now()
        return record, instance.ready_at is not None and instance.ready_at <= tx.now()

    def _now(self) -> float:
        return self._core.seams.clock.monotonic()


def _committed(claim: Claim, completion: Completion, revision: int) -> CommittedTurn:
    changes = () if completion.staged is None else completion.staged.changes
    return CommittedTurn(
        key=claim.key,
        incarnation=claim.lease.instance_id,
        before=claim.state.revision,
        revision=revision,
        observables=tuple(change.name for change in changes if change.name != REVISION),
    )


def _noted(admitted: list[Enqueued], admit: Callable[[Transaction], Enqueued], tx: Transaction) -> Enqueued:
    """Remember what a unit did, for the case that its commit stays unknown."""
    admitted.append(admit(tx))
    return admitted[-1]
