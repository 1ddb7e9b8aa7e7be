"""Commit the end of a turn, also when it is unknown whether a commit was done (protocol 5.1 to 5.3).

After a lost connection at COMMIT the actor's row is locked and read: a terminal message answers with its stored
outcome; a claim that is still ours gets the next generation and is committed again; anything else belongs to others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from flask_solid_objects.errors import ActorDestroyed, CommitUnknown, LostActivation, Rejected, SolidObjectsError
from flask_solid_objects.runtime.actions import ActionFailed, actions_of
from flask_solid_objects.runtime.announcing import Announcing, end_of
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.turn_ends import Completed, Failed, NotActivated, TurnEnd, failure_of, rejection_of
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import TERMINAL, Claim, Lease, MessageStatus

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Continued:
    """A turn was ended; ``next`` is the claim that the same transaction took, if any."""

    next: Claim | None
    # False after an unknown commit: the stored outcome may be that of another holder, so it has to be read.
    is_certain: bool = True


class Ending:
    """Ends turns in the database; every act here either took effect or raised ``LostActivation``."""

    def __init__(self, core: Core, wake_ups: WakeUps) -> None:
        self._core, self._wake_ups = core, wake_ups
        self._announcing = Announcing(core)

    def end(self, claim: Claim, end: TurnEnd, *, go_on: bool, continues: bool = True) -> Continued:
        """Commit whatever the turn ended with.

        :param continues: look for the next message in the same transaction, and claim it when ``go_on``.
        :raises LostActivation: somebody took the lease over; nothing of this turn was written.
        """
        if isinstance(end, NotActivated):
            self._park(claim, end)
            return Continued(None)
        if isinstance(end, Failed):
            self._fail(claim, end)
            return Continued(None)
        try:
            return self._complete(claim, end, go_on=go_on, continues=continues)
        except ActionFailed as failed:
            self._announcing.action_failed(claim, failed.action, failed.cause)
            return self._end_with(claim, failed.error, end.seconds)
        except SolidObjectsError:
            raise
        except Exception as error:
            # The database refuses what the turn wants to store: that is a failure of the turn, not of the worker.
            self._fail(claim, replace(failure_of(claim, error, self._core.settings), seconds=end.seconds))
            return Continued(None, is_certain=False)

    def _end_with(self, claim: Claim, error: BaseException, seconds: float) -> Continued:
        """End a turn as what its commit action raised; nothing of the turn itself was written."""
        settings = self._core.settings
        end = (
            rejection_of(claim, error, settings) if isinstance(error, Rejected) else failure_of(claim, error, settings)
        )
        self.end(claim, replace(end, seconds=seconds), go_on=False, continues=False)
        # The caller has to read the stored outcome: what it ran ended otherwise.
        return Continued(None, is_certain=False)

    def hand_back(self, claim: Claim) -> None:
        """Put the message back uncounted and free the actor; a lease that is gone needs no handing back."""
        lease = claim.lease

        def hand_back(tx: Transaction) -> None:
            instance = self._core.store.instances.lock_by_id(tx, lease.instance_id)
            if instance is None or (instance.owner, instance.token) != (lease.owner, lease.token):
                return
            held = self._core.store.leases.claim_of_token(tx, instance.id, lease.token)
            if held is not None:
                self._core.store.leases.hand_back(tx, instance, held[0])

        self._until_known("hand_back", hand_back)
        self._wake_ups.signal(instance_id=lease.instance_id, work=True)
        self._core.events.announce("turn.handed_back", claim=claim)
        self._core.events.announce("activation.released", actor=claim.key, lease=lease)

    def _complete(self, claim: Claim, end: Completed, *, go_on: bool, continues: bool) -> Continued:
        completion, turns, seconds = end.completion, self._core.store.turns, self._core.settings.lease_duration
        staged = completion.staged
        within = None if staged is None else actions_of(self._core, claim, staged.actions)

        def finish(tx: Transaction, lease: Lease) -> None:
            turns.finish(tx, _under(claim, lease), completion, within)

        def advance(tx: Transaction, lease: Lease) -> Claim | None:
            held = _under(claim, lease)
            return turns.finish_and_continue(tx, held, completion, seconds=seconds, go_on=go_on, within=within)

        act: Callable[[Transaction, Lease], Claim | None] = advance if continues else finish
        try:
            following = self._core.database.transact(
                "commit", lambda tx: act(tx, claim.lease), deadline=self._deadline()
            )
        except CommitUnknown:
            stored = self._resolve(claim, finish)
            self._ended(claim, work=staged is not None)
            if stored in (None, end_of(completion)):
                self._announcing.completed(claim, end, released=True)
            return Continued(None, is_certain=False)
        self._ended(claim, work=staged is not None)
        self._announcing.completed(claim, end, released=following is None)
        return Continued(following)

    def _fail(self, claim: Claim, end: Failed) -> None:
        turns = self._core.store.turns
        self._write(claim, "fail", lambda tx, lease: turns.fail(tx, _under(claim, lease), end.failure))
        self._ended(claim)
        self._announcing.failed(claim, end)

    def _park(self, claim: Claim, end: NotActivated) -> None:
        seconds = self._core.settings.pause_after(claim.parked_count + 1)

        def park(tx: Transaction, lease: Lease) -> None:
            instance = self._core.store.instances.lock_by_id(tx, lease.instance_id)
            if instance is None:
                raise ActorDestroyed(claim.key.actor_type, claim.key.actor_id)
            if not instance.holds(lease):
                raise LostActivation(f"{claim.key}: the lease was taken over before the activation failed.")
            self._core.store.leases.park(tx, instance, claim.message.id, seconds=seconds, error=end.document)

        self._write(claim, "park", park)
        self._ended(claim)
        self._core.events.announce("activation.released", actor=claim.key, lease=claim.lease)

    def _write(self, claim: Claim, name: str, act: Callable[[Transaction, Lease], None]) -> None:
        """Write an end that leaves the message waiting or dead; unknown and gone means that it was written."""
        try:
            self._core.database.transact(name, lambda tx: act(tx, claim.lease), deadline=self._deadline())
        except CommitUnknown:
            try:
                self._resolve(claim, act)
            except LostActivation:
                self._core.events.announce("activation.lost", claim=claim)

    def _resolve(self, claim: Claim, act: Callable[[Transaction, Lease], None]) -> MessageStatus | None:
        """Find out what became of an unknown commit, and do it again when it was not done.

        Returns how the message has ended when that was stored already, by this commit or by another holder.
        """
        self._core.events.announce("commit.unknown", act="commit", actor=claim.key, message_id=claim.message.id)
        store, lease = self._core.store, claim.lease

        def look(tx: Transaction) -> MessageStatus | None:
            instance = store.instances.lock_by_id(tx, lease.instance_id)
            if instance is None:
                raise ActorDestroyed(claim.key.actor_type, claim.key.actor_id)
            record = store.mailbox.find(tx, claim.message.id)
            held = store.leases.claim_of_token(tx, instance.id, lease.token)
            ours = (instance.owner, instance.token) == (lease.owner, lease.token)
            if ours and held is not None and held[0] != claim.message.id:
                # The commit was done, and took the next message with it. Memory is in doubt: give it back.
                store.leases.hand_back(tx, instance, held[0])
            elif record is not None and record.status in TERMINAL:
                return record.status
            elif ours and held is not None:
                # The generation moves on, so that the first commit can no longer apply if it is still on its way.
                act(tx, store.leases.advance(tx, replace(lease, generation=held[1])))
            else:
                raise LostActivation(f"{claim.key}: no longer ours after an unknown commit.")
            return None

        return self._until_known("resolve", look)

    def _until_known(self, name: str, work: Callable[[Transaction], _T]) -> _T:
        """Repeat a unit that may be repeated until its commit is known; within the length of a lease."""
        deadline = self._deadline()
        while True:
            try:
                return self._core.database.transact(name, work, deadline=deadline)
            except CommitUnknown:
                if self._core.seams.clock.monotonic() >= deadline:
                    raise

    def _ended(self, claim: Claim, *, work: bool = False) -> None:
        """Tell those who wait for this actor, and the roles when the turn left them something to do."""
        self._wake_ups.signal(instance_id=claim.lease.instance_id, work=work)

    def _deadline(self) -> float:
        """A finished turn's commit goes on under its lease, whoever has stopped waiting for it (protocol 4.9)."""
        return self._core.seams.clock.monotonic() + self._core.settings.lease_duration


def _under(claim: Claim, lease: Lease) -> Claim:
    return claim if lease is claim.lease else replace(claim, lease=lease)
