"""Free what a process held: uncounted when it leaves in good order, counted as a crash when it is dead.

One short transaction per actor, so that no row of an actor is locked together with a row of the registry (protocol 3.2
and 7.2). A claim of the process that commits after the sweep is left to its lease's expiry.
"""

from __future__ import annotations

from flask_solid_objects.runtime.claiming import take_over
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.store.transaction import Transaction

# There is one for each role that died in the moment of its claim; more than these follow at the next clean-up.
_ORPHANS_AT_ONCE = 100


class Deregistration:
    """Ends registrations, one's own and those of the dead."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def clean_up_dead(self) -> int:
        """Deregister every process that was not heard of for the alive threshold; how many there were."""
        store, threshold = self._core.store, self._core.settings.process_alive_threshold
        dead = self._core.database.read(lambda tx: store.processes.stale(tx, threshold))
        for process_id in dead:
            self.deregister(process_id, crashed=True)
            self._core.events.announce("process.pruned", process_id=process_id)
        orphans = self._core.database.read(lambda tx: store.effects.orphans(tx, threshold, _ORPHANS_AT_ONCE))
        if orphans:
            self._core.database.transact("free", lambda tx: store.effects.release_orphans(tx, orphans, threshold))
        return len(dead)

    def deregister(self, process_id: str, *, crashed: bool) -> int:
        """Stop a registration and free its actors; how many messages were put back."""
        store, database = self._core.store, self._core.database
        database.transact("deregister", lambda tx: store.processes.stop(tx, process_id))
        held = database.read(lambda tx: store.leases.instances_of(tx, process_id))
        database.transact("free", lambda tx: store.effects.release(tx, process_id, counted=crashed))
        database.transact("free", lambda tx: store.broadcasts.release(tx, process_id))
        return sum(self._free(instance_id, process_id, crashed=crashed) for instance_id in held)

    def _free(self, instance_id: int, process_id: str, *, crashed: bool) -> bool:
        store = self._core.store

        def free(tx: Transaction) -> bool:
            instance = store.instances.lock_by_id(tx, instance_id)
            if instance is None or instance.owner != process_id:
                return False
            if crashed:
                return take_over(self._core, tx, instance)
            message = store.leases.claimed_message(tx, instance.id)
            if message is not None:
                store.leases.hand_back(tx, instance, message.id)
            return message is not None

        return self._core.database.transact("free", free)
