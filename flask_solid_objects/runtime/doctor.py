"""The checks of ``flask solid doctor``: each looks at one thing, and says what to do when it is wrong."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.runtime.runtime import RoleCounts, Runtime
from flask_solid_objects.runtime.transport_postgresql import PROBE_SECONDS
from flask_solid_objects.store.inspection import inspect_invariants, inspect_schema, inspect_server

Status: TypeAlias = Literal["pass", "info", "warn", "fail", "skip"]
_ROUND_TRIP_SECONDS = 5.0
_OTHER_CONNECTIONS = 3  # keeper, heartbeat, an operator's look


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    text: str
    remedy: str = ""


class Probe(Actor):
    """The throw-away actor of the round trip."""

    value: int = 0

    @operation
    def write(self, value: int) -> int:
        self.value = value
        return self.value


class Doctor:
    """Runs all checks in order; one that raises has failed, and does not keep the others from running."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._core = runtime, runtime.core

    def run(self, *, invariants: bool = False) -> list[Check]:
        """All checks; ``invariants`` adds a look at every stored row."""
        results = [self._configuration()]
        schema = self._guarded("schema", self._schema)
        results.append(schema)
        results.append(self._guarded("database_server", self._server))
        results.append(self._guarded("wake_up", self._wake_up))
        results.append(self._guarded("pool", self._pool))
        results.append(self._policies())
        needing = [("roles", self._roles), ("round_trip", self._round_trip)]
        if invariants:
            needing.append(("invariants", self._invariants))
        for name, check in needing:
            if schema.status == "fail":
                results.append(Check(name=name, status="skip", text="needs the tables"))
            else:
                results.append(self._guarded(name, check))
        return results

    def _guarded(self, name: str, check: Callable[[], Check]) -> Check:
        try:
            return check()
        except Exception as error:
            return Check(name=name, status="fail", text=f"{type(error).__name__}: {error}")

    def _configuration(self) -> Check:
        types = sorted(self._core.registry.types())
        if not types:
            return Check(
                name="configuration",
                status="warn",
                text="the settings are valid, but no actor is registered in this process",
                remedy="Import the modules that define actors where the app is made.",
            )
        return Check(name="configuration", status="pass", text=f"valid; actor types: {', '.join(types)}")

    def _schema(self) -> Check:
        report = inspect_schema(self._core.database, self._core.settings.table_prefix)
        if report.ok:
            return Check(name="schema", status="pass", text=f"right, revision {report.revision or 'kept by the app'}")
        return Check(name="schema", status="fail", text="; ".join(report.problems), remedy="Run `flask solid upgrade`.")

    def _server(self) -> Check:
        report = inspect_server(self._core.database, self._core.store.tables)
        text = f"{report.name} {report.version}"
        if report.problems:
            return Check(name="database_server", status="warn", text=text, remedy=" ".join(report.problems))
        return Check(name="database_server", status="pass", text=text)

    def _wake_up(self) -> Check:
        wake_ups = self._runtime.wake_ups
        wake_ups.start()
        wake_ups.wait_probed(PROBE_SECONDS + 1.0)
        capability = wake_ups.capability
        text = f"{capability.adapter}: {capability.reason}; floor {capability.floor_ms:g} ms"
        if capability.crosses_processes:
            return Check(name="wake_up", status="pass", text=text)
        idle = self._core.settings.idle_polling_interval
        remedy = f"Other processes see new work by polling, within {idle:g} s."
        return Check(name="wake_up", status="warn", text=text, remedy=remedy)

    def _pool(self) -> Check:
        settings = self._core.settings
        threads = sum(asdict(RoleCounts.of(settings)).values())
        size, needed = settings.pool_size + settings.max_overflow, threads + _OTHER_CONNECTIONS
        text = f"up to {size} connections for {threads} threads of roles, and callers"
        limit = inspect_server(self._core.database, self._core.store.tables).max_connections
        if size < needed:
            remedy = f"Set SOLID_OBJECTS_POOL_SIZE to {needed} or more."
            return Check(name="pool", status="warn", text=text, remedy=remedy)
        if limit is not None and size > limit:
            remedy = f"The server allows {limit} in all: lower SOLID_OBJECTS_POOL_SIZE and _MAX_OVERFLOW, or raise it."
            return Check(name="pool", status="warn", text=text, remedy=remedy)
        return Check(name="pool", status="pass", text=text + (f" of {limit} that the server allows" if limit else ""))

    def _policies(self) -> Check:
        policies = self._core.policies
        names = ", ".join(sorted(policies.registered)) or "none"
        strict = "; strict, so that unregistered ones deny" if policies.strict else ""
        return Check(name="policies", status="info", text=f"registered: {names}{strict}")

    def _roles(self) -> Check:
        processes = self._core.database.read(
            lambda tx: self._core.store.processes.running(tx, self._core.settings.process_alive_threshold)
        )
        kinds = [process.kind for process in processes if not process.is_stale]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
        if "worker" not in kinds:
            remedy = "Sent messages wait until you start `flask solid work`; calls run without it."
            return Check(name="roles", status="info", text=counts or "nothing runs", remedy=remedy)
        return Check(name="roles", status="pass", text=counts)

    def _round_trip(self) -> Check:
        """A real call on the real tables with an actor and a registration of its own, which leaves nothing behind."""
        started = self._core.seams.clock.monotonic()
        registry = Registry(make_reference=make_reference)
        registry.register(type("Probe", (Probe,), {"__module__": __name__}), "solid-objects.doctor")
        own = Runtime(replace(self._core, registry=registry, policies=Policies()), self._runtime.outbox)
        registry.current_runtime = lambda: own
        probe = make_reference(registry, registry.get("solid-objects.doctor"), str(uuid.uuid4()))
        try:
            written = probe.write.using(timeout=_ROUND_TRIP_SECONDS)(value=42)
            read = probe.snapshot().value
            gone = probe.destroy()
        finally:
            own.close(keep_connections=True)
        took = (self._core.seams.clock.monotonic() - started) * 1000
        if (written, read, gone) != (42, 42, True):
            return Check(name="round_trip", status="fail", text=f"wrote {written}, read {read}, destroyed {gone}")
        return Check(name="round_trip", status="pass", text=f"called, committed, read and destroyed in {took:.0f} ms")

    def _invariants(self) -> Check:
        violations = inspect_invariants(
            self._core.database,
            self._core.store.tables,
            lease_duration=self._core.settings.lease_duration,
            roles_running=self._roles().status == "pass",
        )
        if not violations:
            return Check(name="invariants", status="pass", text="all hold")
        shown = "; ".join(f"{each.invariant} {each.statement}: {each.subject}" for each in violations[:10])
        return Check(
            name="invariants", status="fail", text=f"{len(violations)} violations: {shown}", remedy="Report them."
        )
