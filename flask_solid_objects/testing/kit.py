"""``solid.testing``: run what roles would run in the test's own thread, pin the time of reminders, fake effects."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime

from flask_solid_objects.errors import ActorCallCycle, CommitUnknown, SchemaMissing
from flask_solid_objects.intents import current_turn
from flask_solid_objects.runtime.deregistration import Deregistration
from flask_solid_objects.runtime.process import Registration
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.store.for_testing import ForTesting
from flask_solid_objects.store.schema import upgrade
from flask_solid_objects.testing.fail_points import FailPoint, FailPoints, Held
from flask_solid_objects.testing.fakes import FakeEffects

_PAGE = 50
# A look at every column for each test would take longer than most tests.
_MADE: weakref.WeakSet[Runtime] = weakref.WeakSet()


class Testing:
    """What applications use to test their actors, for the current application; never in production."""

    # Its name would have pytest collect it.
    __test__ = False

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._core = runtime, runtime.core

    def drain(self, *, passes: int = 1000, skip_backoff: bool = False) -> int:
        """Run everything that is due in this thread, until a full round of all roles does nothing.

        A round rings reminders, runs one actor, delivers messages between actors, runs one effect and delivers a batch
        of broadcasts. Returns how many reminders rang and how many of the other acts did something. Nothing that is
        delayed is waited for.

        :param skip_backoff: what waits for another attempt does not wait.
        :raises RuntimeError: still busy after so many rounds; or db.session has uncommitted work, which would be in the
            way.
        """
        self._check("drain")
        done, worked = 0, list[str]()
        with _Roles(self._runtime) as roles:
            for _ in range(passes):
                worked = roles.run_round()
                done += len(worked)
                if not worked and not (skip_backoff and self._transact(self._rows.skip_backoff)):
                    return done
        raise RuntimeError(
            f"Still busy after {passes} passes, at last with: {', '.join(dict.fromkeys(worked))}. Something causes "
            "itself without end, such as an effect whose callback emits it again; otherwise give drain(passes=...)."
        )

    def run_due_reminders(self, now: datetime, *, most: int = 10_000) -> int:
        """Ring every reminder that is due at a time of the test's choosing; returns how many rang, at most ``most``.

        What repeats goes on from that time. A ring is a message to the actor: :meth:`drain` runs it.

        :raises TypeError, ValueError: ``now`` is no datetime, or has no time zone.
        """
        if not isinstance(now, datetime):
            raise TypeError(f"now must be a datetime, not {type(now).__name__}.")
        if now.utcoffset() is None:
            raise ValueError("now must have a time zone, such as datetime.now(UTC).")
        self._check("run_due_reminders")
        scheduler, rung = self._runtime.scheduler(), 0
        while rung < most:
            rang = scheduler.ring_due(now.astimezone(UTC), min(_PAGE, most - rung))
            if not rang:
                break
            rung += rang
        return rung

    @contextmanager
    def fake_effects(self) -> Iterator[FakeEffects]:
        """Execute no effect within the block, but for those that the test answers; the others stay pending."""
        registry, fake = self._core.registry.effects, FakeEffects(self._core)
        before, registry.replacements = registry.replacements, fake.answers
        try:
            yield fake
        finally:
            registry.replacements = before

    def fail_at(
        self, name: str, error: BaseException | type[BaseException], *, times: int = 1
    ) -> AbstractContextManager[FailPoint]:
        """Raise an error at the next arrivals at a named step of the runtime, within the block.

        In :meth:`drain` a role that it reaches ends as if its process had died: what it held is free at once, and the
        drain goes on. In a call it comes to the caller.

        :raises AssertionError: at the end of the block, when nothing has reached the step.
        """
        return FailPoints.of(self._core.seams).fail(name, error, times)

    def hold(self, name: str) -> AbstractContextManager[Held]:
        """Hold the first thread that arrives at a named step, until it is released or the block ends."""
        return FailPoints.of(self._core.seams).hold(name)

    def make_tables(self) -> None:
        """Make the tables, as ``flask solid upgrade`` does, unless they were made already."""
        database = self._core.database
        try:
            if self._runtime in _MADE and database.read(self._rows.has_version):
                return
        except SchemaMissing:
            pass
        upgrade(database.engine, self._runtime.settings.table_prefix)
        _MADE.add(self._runtime)

    def reset(self) -> None:
        """Delete every actor and all that belongs to actors, and forget what this process was registered as.

        :raises RuntimeError: db.session has uncommitted work, which would be in the way.
        """
        self._check("reset")
        self._runtime.close(keep_connections=True)
        self._transact(self._rows.clear)

    def close(self) -> None:
        """Stop the threads of the runtime and close its connections; the next use begins anew."""
        self._runtime.close()
        self._core.database.dispose()

    # -- parts --------------------------------------------------------------------------------

    @property
    def _rows(self) -> ForTesting:
        return ForTesting(self._core.store.tables, self._core.database.dialect)

    def _transact(self, work: Callable[..., int | None]) -> int:
        return self._core.database.transact("testing", work) or 0

    def _check(self, verb: str) -> None:
        if current_turn.get() is not None:
            raise ActorCallCycle(verb, "the actors of its application")
        if self._core.has_uncommitted_work():
            raise RuntimeError(
                f"{verb}() works on a connection of its own, and db.session holds uncommitted work in its way: "
                "commit it or roll it back first."
            )


class _Roles:
    """One of each role under one registration, run pass by pass."""

    def __init__(self, runtime: Runtime) -> None:
        self._core = runtime.core
        self._scheduler, self._worker = runtime.scheduler(), runtime.worker()
        self._effects, self._broadcaster = runtime.effect_worker(), runtime.broadcaster()
        self._registration = Registration(self._core, "testing")
        for role in self._all:
            role.registration = self._registration

    def __enter__(self) -> _Roles:
        return self

    def __exit__(self, *_: object) -> None:
        self._deregister(crashed=False)
        for role in self._all:
            role.stop()
            role._leave()

    @property
    def _all(self) -> tuple[Role, ...]:
        return self._scheduler, self._worker, self._effects, self._broadcaster

    def run_round(self) -> list[str]:
        """Run each role once, in this order; the name of each for every unit that it did."""
        acts: list[tuple[str, Callable[[], int]]] = [
            ("reminders", self._scheduler.ring_due),
            ("actors", self._worker.run_once),
            ("messages and effects", self._effects.run_once),
            ("broadcasts", self._broadcaster.run_once),
        ]
        return [name for name, act in acts for _ in range(self._run(act))]

    def _run(self, act: Callable[[], int]) -> int:
        raised_before = self._raised()
        try:
            done = act()
        except CommitUnknown:
            # A role would look again after a pause.
            return 1
        except BaseException as error:
            if all(error is not each for each in self._raised()):
                raise
            self._deregister(crashed=True)
            return 1
        # Whoever could cope with an injected error may have left its work for the next round.
        return done or int(self._raised() != raised_before)

    def _raised(self) -> list[BaseException]:
        checkpoints = self._core.seams.checkpoints
        return checkpoints.raised if isinstance(checkpoints, FailPoints) else []

    def _deregister(self, *, crashed: bool) -> None:
        process_id = self._registration.forget()
        if process_id is not None:
            Deregistration(self._core).deregister(process_id, crashed=crashed)
