"""The runtime of one application: it builds the parts, makes them anew in each forked process, and closes them.

Making a runtime opens no connection and starts no thread; the first verb that needs one does.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from flask_solid_objects.actors.definition import OperationDefinition, Target
from flask_solid_objects.actors.message import Message
from flask_solid_objects.errors import InvalidSchema, SchemaMissing
from flask_solid_objects.runtime.broadcaster import Broadcaster
from flask_solid_objects.runtime.broadcasting import select_transport
from flask_solid_objects.runtime.browsing import Browsing
from flask_solid_objects.runtime.caller import Caller
from flask_solid_objects.runtime.claiming import Claiming
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.delivering import Delivering
from flask_solid_objects.runtime.deregistration import Deregistration
from flask_solid_objects.runtime.diagnostics import Diagnostics
from flask_solid_objects.runtime.effect_worker import EffectWorker
from flask_solid_objects.runtime.ending import Ending
from flask_solid_objects.runtime.hub import Hub
from flask_solid_objects.runtime.maintenance import Maintenance
from flask_solid_objects.runtime.messages import Messages
from flask_solid_objects.runtime.operators import Operators
from flask_solid_objects.runtime.process import Keeper, Registration
from flask_solid_objects.runtime.reconciling import InstanceReads
from flask_solid_objects.runtime.recovering import Recovering
from flask_solid_objects.runtime.redaction import Redaction
from flask_solid_objects.runtime.relay import Relay
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.scheduler import ReminderScheduler
from flask_solid_objects.runtime.sending import Sending
from flask_solid_objects.runtime.supervisor import Supervisor
from flask_solid_objects.runtime.verbs import Verbs
from flask_solid_objects.runtime.viewing import Viewing
from flask_solid_objects.runtime.wakeup_selection import select_wake_ups
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.runtime.worker import Worker
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.inspection import inspect_schema
from flask_solid_objects.store.sessions import SessionOutbox
from flask_solid_objects.values import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleCounts:
    """How many threads of each role run in one process."""

    workers: int = 1
    effects: int = 1
    reminders: int = 1
    broadcasts: int = 1
    maintenance: int = 1

    @classmethod
    def of(cls, settings: Settings) -> RoleCounts:
        return cls(
            workers=settings.worker_count,
            effects=settings.effect_worker_count,
            reminders=settings.reminder_scheduler_count,
            broadcasts=settings.broadcast_worker_count,
        )


class Part(Protocol):
    """What another layer keeps in each operating-system process, such as its open sockets."""

    def stop(self) -> None:
        """End it, before the threads that it depends on end."""


_PartT = TypeVar("_PartT", bound=Part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """The parts that belong to one operating-system process: threads, claims, a registration."""

    pid: int
    wake_ups: WakeUps
    keeper: Keeper
    registration: Registration
    claiming: Claiming
    ending: Ending
    deregistration: Deregistration
    verbs: Verbs
    hub: Hub
    delivering: Delivering
    recovering: Recovering
    viewing: Viewing
    relay: Relay
    # What other layers keep per process, by name.
    parts: dict[str, Part] = field(default_factory=dict)


class Runtime:
    """The durable actors of one application; references, commands and roles all work through it."""

    def __init__(self, core: Core, outbox: SessionOutbox) -> None:
        self.core = core
        self.outbox = outbox
        self._lock = threading.Lock()
        self._lock_pid = os.getpid()
        self._process: _Process | None = None

    @property
    def settings(self) -> Settings:
        return self.core.settings

    @property
    def messages(self) -> Messages:
        """Look-ups of messages by request id."""
        return self._here().verbs.messages

    @property
    def operators(self) -> Operators:
        """Reads and acts of operators."""
        here = self._here()
        return Operators(self.core, here.wake_ups, here.deregistration, here.verbs.messages)

    @property
    def browser_operators(self) -> Operators:
        """The same for the dashboard, where no policy means no."""
        here = self._here()
        return Operators(self.core, here.wake_ups, here.deregistration, here.verbs.messages, browser=True)

    @property
    def redaction(self) -> Redaction:
        """What operators get to see of stored values."""
        return Redaction(self.core.registry, self.core.redactors)

    @property
    def browsing(self) -> Browsing:
        """The bounded reads of the dashboard."""
        return Browsing(self.core)

    @property
    def wake_ups(self) -> WakeUps:
        return self._here().wake_ups

    @property
    def hub(self) -> Hub:
        """The broadcasts that this process learns of."""
        return self._here().hub

    @property
    def instances(self) -> InstanceReads:
        """Reads that compare actors with the application."""
        return InstanceReads(self.core)

    @property
    def diagnostics(self) -> Diagnostics:
        """Observers and summaries of single actors."""
        return Diagnostics(self.core)

    @property
    def viewing(self) -> Viewing:
        """Committed state for views."""
        return self._here().viewing

    @property
    def relay(self) -> Relay:
        """What tells the watchers of this process of changes."""
        return self._here().relay

    # -- verbs of references ------------------------------------------------------------------

    def call(self, target: Target, operation: OperationDefinition, arguments: str, options: Options) -> Any:
        return self._here().verbs.call(target, operation, arguments, options)

    def send(self, target: Target, operation: OperationDefinition, arguments: str, options: Options) -> Message[Any]:
        return self._here().verbs.send(target, operation, arguments, options)

    def snapshot(self, target: Target, options: Options) -> Any:
        return self._here().verbs.snapshot(target, options)

    def destroy(self, target: Target, options: Options) -> bool:
        return self._here().verbs.destroy(target, options)

    def find_message(self, target: Target, idempotency_key: str, options: Options) -> Message[Any] | None:
        return self._here().verbs.find_message(target, idempotency_key, options)

    # -- roles --------------------------------------------------------------------------------

    def worker(self) -> Worker:
        """A worker that shares this process's keeper and wake-ups; run it in a thread, or pass by pass."""
        here = self._here()
        return Worker(self.core, here.wake_ups, here.keeper, here.claiming, here.ending)

    def maintenance(self) -> Maintenance:
        here = self._here()
        return Maintenance(self.core, here.wake_ups, here.keeper, here.claiming, here.deregistration)

    def effect_worker(self) -> EffectWorker:
        here = self._here()
        return EffectWorker(self.core, here.wake_ups, here.keeper, here.delivering, here.recovering)

    def scheduler(self) -> ReminderScheduler:
        here = self._here()
        return ReminderScheduler(self.core, here.wake_ups, here.keeper, here.delivering)

    def broadcaster(self) -> Broadcaster:
        here = self._here()
        return Broadcaster(self.core, here.wake_ups, here.keeper, select_transport(self.core, here.hub))

    def supervisor(self, counts: RoleCounts | None = None) -> Supervisor:
        """Roles for ``flask solid work``; as many as the settings say, unless told otherwise.

        :raises InvalidSettings: for an in-memory database, which no other process shares.
        """
        self.core.refuse_memory()
        wanted = counts or RoleCounts.of(self.settings)
        factories: list[Callable[[], Role]] = [
            *[self.worker] * wanted.workers,
            *[self.effect_worker] * wanted.effects,
            *[self.scheduler] * wanted.reminders,
            *[self.broadcaster] * wanted.broadcasts,
            *[self.maintenance] * wanted.maintenance,
        ]
        here = self._here()
        here.wake_ups.start()
        capability = here.wake_ups.capability
        if not capability.crosses_processes:
            interval = self.settings.idle_polling_interval
            self.core.events.announce(
                "polling.only_cross_process_wake_up", adapter=capability.adapter, interval=interval
            )
        return Supervisor(self.core, factories, here.deregistration)

    # -- life ---------------------------------------------------------------------------------

    def check_schema(self) -> None:
        """Compare the tables with what this version needs, before anything starts.

        :raises SchemaMissing, InvalidSchema: naming what is missing or differs, and the commands.
        """
        report = inspect_schema(self.core.database, self.settings.table_prefix)
        if report.missing_tables:
            raise SchemaMissing(f"These tables are missing: {', '.join(report.missing_tables)}")
        if not report.ok:
            raise InvalidSchema(report.problems)

    def part(self, name: str, make: Callable[[], _PartT]) -> _PartT:
        """Something of which each process has one: made at the first use, anew after a fork, stopped by ``close``."""
        while True:
            here = self._here()
            with self._lock:
                if self._process is here:
                    if name not in here.parts:
                        here.parts[name] = make()
                    return cast(_PartT, here.parts[name])

    def close(self, *, keep_connections: bool = False) -> None:
        """Stop the threads of this process, deregister its caller, close its connections; may be called twice.

        :param keep_connections: the pool belongs to another runtime too.
        """
        with self._lock:
            process, self._process = self._process, None
        if process is None or process.pid != os.getpid():
            if process is None and not keep_connections:
                # Nothing ran here, but the schema may have been looked at.
                self.core.database.dispose()
            return
        for part in process.parts.values():
            part.stop()
        process.relay.stop()
        process.wake_ups.stop()
        process.keeper.stop()
        process_id = process.registration.forget()
        try:
            if process_id is not None:
                process.deregistration.deregister(process_id, crashed=False)
        except Exception as error:
            # The row goes stale and is cleaned up by maintenance; closing must go on.
            self.core.events.announce("process.heartbeat_failed", role="caller", error=type(error).__name__)
        if not keep_connections:
            self.core.database.dispose()

    def _here(self) -> _Process:
        process = self._process
        if process is not None and process.pid == os.getpid():
            return process
        if self._lock_pid != os.getpid():
            # A thread of the parent may have held it at the fork, and will never release it here.
            self._lock, self._lock_pid = threading.Lock(), os.getpid()
        with self._lock:
            if self._process is None or self._process.pid != os.getpid():
                self._process = self._build()
            return self._process

    def _build(self) -> _Process:
        core = self.core
        wake_ups = select_wake_ups(core)
        keeper, registration = Keeper(core), Registration(core, "caller")
        claiming, ending, viewing = Claiming(core), Ending(core, wake_ups), Viewing(core)
        keeper.register_lazily(registration)
        caller = Caller(core, wake_ups, keeper, registration, claiming, ending)
        sending, recovering = Sending(core, wake_ups, self.outbox), Recovering(core, wake_ups)
        atexit.register(_close, weakref.ref(self))
        return _Process(
            pid=os.getpid(),
            wake_ups=wake_ups,
            keeper=keeper,
            registration=registration,
            claiming=claiming,
            ending=ending,
            deregistration=Deregistration(core),
            verbs=Verbs(core, caller, sending, wake_ups),
            hub=Hub(core.events),
            delivering=Delivering(core, wake_ups, recovering),
            recovering=recovering,
            viewing=viewing,
            relay=Relay(core, wake_ups, viewing),
        )


def _close(runtime: weakref.ref[Runtime]) -> None:
    """Mark the caller stopped when the interpreter ends; a runtime that is gone has nothing to close."""
    living = runtime()
    if living is not None:
        living.close()
