"""Get the right to run a message: a worker's search, a caller's look at one actor, and take-over of expired leases."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from flask_solid_objects.errors import CommitUnknown, DatabaseDeadlineExceeded
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.turn_ends import error_document
from flask_solid_objects.store.instances import Instance
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim

# A locked candidate is waited for this long when every candidate was locked (protocol 4.5).
_BLOCKING_TRY_SECONDS = 0.2
_EXPIRED_AT_ONCE = 20


class CrashedWorker(Exception):
    """The process that ran the message ended or lost its lease, as often as the message may be attempted."""


CRASHED = error_document(
    CrashedWorker("The process that ran this message died or stalled on every attempt; it did not raise an error.")
)


class Claiming:
    """Claims messages for a process; each method is one transaction."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def claim_next(self, owner: str, types: Sequence[str]) -> Claim | None:
        """Claim the head of the actor that has waited longest among the given types."""
        token, tried = str(uuid.uuid4()), list[int]()

        def search(tx: Transaction) -> Claim | bool:
            tried.clear()
            candidates = self._core.store.candidates
            ready = candidates.ready_types(tx, types)
            for actor_type in ready:
                instance = candidates.lock_first(tx, actor_type)
                if instance is not None:
                    tried.append(instance.id)
                    claim = self._claim(tx, instance, owner, token)
                    if claim is not None:
                        return claim
            return bool(ready) and not tried

        try:
            found = self._core.database.transact("claim", search)
        except CommitUnknown:
            self._give_back(tried, owner, token)
            return None
        if isinstance(found, Claim):
            return self._told(found)
        return self._claim_locked(owner, types) if found else None

    def claim_of(self, instance_id: int, owner: str, *, deadline: float) -> Claim | None:
        """Claim the head of one actor, when it is free or its lease has expired (protocol 4.6)."""
        token = str(uuid.uuid4())

        def claim(tx: Transaction) -> Claim | None:
            instance = self._core.store.instances.lock_by_id(tx, instance_id)
            return None if instance is None else self._claim(tx, instance, owner, token)

        try:
            return self._told(self._core.database.transact("claim", claim, deadline=deadline))
        except CommitUnknown:
            self._give_back([instance_id], owner, token)
            return None

    def recover_expired(self) -> int:
        """Take over expired leases of any type; the count of those that were."""
        store = self._core.store
        expired = self._core.database.read(lambda tx: store.candidates.expired(tx, _EXPIRED_AT_ONCE))
        recovered = 0
        for instance_id in expired:

            def take_over(tx: Transaction, instance_id: int = instance_id) -> bool:
                instance = store.instances.lock_by_id(tx, instance_id)
                return instance is not None and self._take_over_expired(tx, instance) is not None

            recovered += self._core.database.transact("recover", take_over)
        return recovered

    def _claim(self, tx: Transaction, instance: Instance, owner: str, token: str) -> Claim | None:
        """Claim from a locked row; what was read before the lock was granted does not count."""
        current: Instance | None = instance
        if instance.owner is not None:
            current = self._take_over_expired(tx, instance)
        if current is None:
            return None
        seconds = self._core.settings.lease_duration
        return self._core.store.leases.claim_head(tx, current, owner=owner, token=token, seconds=seconds)

    def _take_over_expired(self, tx: Transaction, instance: Instance) -> Instance | None:
        """The actor as it is after a take-over; None when its lease is alive."""
        if instance.owner is None or instance.expires_at is None or instance.expires_at > tx.now():
            return None
        take_over(self._core, tx, instance)
        return self._core.store.instances.lock_by_id(tx, instance.id)

    def _told(self, claim: Claim | None) -> Claim | None:
        if claim is not None:
            self._core.events.announce("activation.claimed", actor=claim.key, lease=claim.lease)
        return claim

    def _claim_locked(self, owner: str, types: Sequence[str]) -> Claim | None:
        """Candidates exist, but others had them all locked: wait for one of them, briefly."""
        candidates = self._core.store.candidates

        def first(tx: Transaction) -> int | None:
            found = (candidates.first(tx, actor_type) for actor_type in candidates.ready_types(tx, types))
            return next((instance_id for instance_id in found if instance_id is not None), None)

        instance_id = self._core.database.read(first)
        if instance_id is None:
            return None
        deadline = self._core.seams.clock.monotonic() + _BLOCKING_TRY_SECONDS
        try:
            return self.claim_of(instance_id, owner, deadline=deadline)
        except DatabaseDeadlineExceeded:
            return None

    def _give_back(self, instance_ids: Sequence[int], owner: str, token: str) -> None:
        """After an unknown claim: whatever is claimed under our token goes back uncounted (protocol 5.3)."""
        store = self._core.store

        def give_back(tx: Transaction) -> None:
            for instance_id in sorted(instance_ids):
                instance = store.instances.lock_by_id(tx, instance_id)
                if instance is None or (instance.owner, instance.token) != (owner, token):
                    continue
                held = store.leases.claim_of_token(tx, instance_id, token)
                if held is not None:
                    store.leases.hand_back(tx, instance, held[0])

        self._core.events.announce("commit.unknown", act="claim")
        while True:
            try:
                self._core.database.transact("give_back", give_back)
            except CommitUnknown:
                continue
            return


def take_over(core: Core, tx: Transaction, instance: Instance) -> bool:
    """End the lease of a locked actor against its holder, and tell of it; whether a message was claimed under it."""
    message = core.store.leases.take_over(tx, instance, error=CRASHED)
    if message is None:
        return False
    events = core.events
    events.announce_after(tx, "recovery.reclaimed", actor=instance.key, message=message, held_by=instance.owner)
    if message.attempt >= message.max_attempts:
        events.announce_after(tx, "dead_letter.created", actor=instance.key, message=message)
    return True
