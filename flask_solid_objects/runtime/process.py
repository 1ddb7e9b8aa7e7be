"""One registered row of this operating-system process, and the thread that keeps rows and leases alive.

There is one such thread per process, however many roles and callers it has. A registration that somebody declared
dead is replaced by a new one: identities are never used twice.
"""

from __future__ import annotations

import os
import platform
import socket
import threading
import uuid
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from flask_solid_objects.payloads import encode
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim

if TYPE_CHECKING:
    from flask_solid_objects.runtime.core import Core


# A row that others keep locked is waited for this long, once per tick.
_RENEWAL_WAIT_SECONDS = 1.0


class Registration:
    """A row of the process registry, made at the first use of :attr:`id`."""

    def __init__(self, core: Core, kind: str, **labels: object) -> None:
        self._core = core
        self._labels = labels
        self._lock = threading.Lock()
        self._id: str | None = None
        self.kind = kind

    @property
    def id(self) -> str:
        """The identity under which claims are taken; registers when there is none yet."""
        return self.id_before(None)

    def id_before(self, deadline: float | None) -> str:
        """The same for a caller with a deadline.

        :raises DatabaseDeadlineExceeded: the registration could not be written in time.
        """
        current = self._id
        if current is not None:
            return current
        with self._lock:
            if self._id is None:
                self._id = self._register(deadline)
            return self._id

    @property
    def current_id(self) -> str | None:
        return self._id

    def beat(self) -> None:
        """Give a sign of life; register anew when this row was declared dead meanwhile."""
        process_id = self._id
        if process_id is None:
            return
        processes = self._core.store.processes
        if self._core.database.transact("heartbeat", lambda tx: processes.beat(tx, process_id)):
            return
        with self._lock:
            if self._id == process_id:
                self._id = self._register()
        self._core.events.announce("process.registered_again", kind=self.kind, process_id=self._id)

    def drain(self) -> None:
        """Say that no more work is taken."""
        process_id = self._id
        if process_id is not None:
            processes = self._core.store.processes
            self._core.database.transact("drain", lambda tx: processes.drain(tx, process_id))

    def forget(self) -> str | None:
        """Take the identity out of use; the next use registers another."""
        with self._lock:
            process_id, self._id = self._id, None
            return process_id

    def _register(self, deadline: float | None = None) -> str:
        process_id = str(uuid.uuid4())
        labels = {"python": platform.python_version(), "package": version("flask-solid-objects"), **self._labels}
        metadata = encode(labels, path="metadata")

        def register(tx: Transaction) -> None:
            self._core.store.processes.register(
                tx,
                process_id=process_id,
                kind=self.kind,
                hostname=socket.gethostname(),
                pid=os.getpid(),
                metadata=metadata,
            )

        self._core.database.transact("register", register, deadline=deadline)
        return process_id


class KeptLease:
    """A lease that the keeper renews until it is closed; ``is_lost`` once somebody has taken it over."""

    def __init__(self, keeper: Keeper, claim: Claim) -> None:
        self._keeper = keeper
        self.actor, self.lease = claim.key, claim.lease
        self.is_lost = False
        self.renewed_at = keeper.monotonic()

    def lease_moved(self, claim: Claim) -> Claim:
        """Keep the lease of the next claim from now on; the commit that took it has also renewed it."""
        self.lease = claim.lease
        self.renewed_at = self._keeper.monotonic()
        return claim

    def __enter__(self) -> KeptLease:
        self._keeper.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._keeper.remove(self)


class Keeper:
    """Renews held leases and sends heartbeats; its thread starts with the first lease or registration."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._leases: set[KeptLease] = set()
        self._registrations: list[Registration] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._beaten_at = 0.0

    def monotonic(self) -> float:
        return self._core.seams.clock.monotonic()

    def keep(self, claim: Claim) -> KeptLease:
        """Keep the lease of a claim alive for the length of a ``with`` block."""
        return KeptLease(self, claim)

    def register(self, registration: Registration) -> None:
        """Send heartbeats for a registration from now on."""
        self.register_lazily(registration)
        self._start()

    def register_lazily(self, registration: Registration) -> None:
        """The same, once something else starts the thread."""
        with self._lock:
            self._registrations.append(registration)

    def unregister(self, registration: Registration) -> None:
        with self._lock:
            if registration in self._registrations:
                self._registrations.remove(registration)

    def add(self, kept: KeptLease) -> None:
        with self._lock:
            self._leases.add(kept)
        if self._thread is None:
            self._start()

    def remove(self, kept: KeptLease) -> None:
        with self._lock:
            self._leases.discard(kept)

    def stop(self) -> None:
        """Stop the thread and wait for it; may be called twice or before the start."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._beaten_at = self.monotonic()
                self._thread = threading.Thread(target=self._run, name="solid-keeper", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        settings = self._core.settings
        tick = min(settings.lease_renewal_interval / 2, settings.process_heartbeat_interval / 2, 1.0)
        while not self._core.seams.clock.wait(self._stop, tick):
            for kept in self._due():
                error = _attempt(partial(self._renew, kept))
                if error is not None:
                    self._core.events.announce("lease.renewal_failed", error=error)
            error = _attempt(self._beat_due)
            if error is not None:
                self._core.events.announce("process.heartbeat_failed", error=error)

    def _due(self) -> list[KeptLease]:
        """Leases to renew, the oldest first; each by itself, so that one locked row stalls no other (protocol 3.5)."""
        interval = self._core.settings.lease_renewal_interval
        with self._lock:
            due = [kept for kept in self._leases if self.monotonic() - kept.renewed_at >= interval and not kept.is_lost]
        return sorted(due, key=lambda kept: kept.renewed_at)

    def _renew(self, kept: KeptLease) -> None:
        """Renew one lease without waiting for its row; one that is locked now follows at the next tick.

        Once half of the lease has gone by like that, wait for the lock.
        """
        settings, leases = self._core.settings, self._core.store.leases
        wait = self.monotonic() - kept.renewed_at >= settings.lease_duration / 2
        lease, asked_at = kept.lease, self.monotonic()

        def renew(tx: Transaction) -> bool | None:
            return leases.renew(tx, lease, seconds=settings.lease_duration, wait=wait)

        renewed = self._core.database.transact("renew", renew, deadline=asked_at + _RENEWAL_WAIT_SECONDS)
        if renewed:
            kept.renewed_at = asked_at
            self._core.events.announce("activation.renewed", actor=kept.actor, lease=lease)
        elif renewed is False and kept.lease.token == lease.token:
            kept.is_lost = True

    def _beat_due(self) -> None:
        if self.monotonic() - self._beaten_at < self._core.settings.process_heartbeat_interval:
            return
        self._beaten_at = self.monotonic()
        with self._lock:
            registrations = list(self._registrations)
        for registration in registrations:
            registration.beat()


def _attempt(act: Callable[[], None]) -> str | None:
    """The class of what was raised: failing once must not end the thread, which tries again at the next tick."""
    try:
        act()
    except Exception as error:
        return type(error).__name__
    return None
