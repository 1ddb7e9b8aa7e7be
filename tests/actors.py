"""The actors that tests run, and a runtime for them without any Flask app."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy import URL

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation, query
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import NonRetryableError, Rejected
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.seams import Seams
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.sessions import SessionOutbox
from flask_solid_objects.store.store import Store
from tests.schema import store_of, tables_of


class Journal(Actor):
    """Records what ran, in order, so that a test can compare it with what should have."""

    entries: list[str] = []
    total: int = 0

    @operation
    def add(self, entry: str, amount: int = 1) -> int:
        self.entries = [*self.entries, entry]
        self.total += amount
        return len(self.entries)

    @operation
    def refuse(self, entry: str) -> None:
        self.entries = [*self.entries, entry]
        raise Rejected("refused", "No.", details={"entry": entry})

    @operation
    def fail(self, entry: str) -> None:
        self.entries = [*self.entries, entry]
        raise RuntimeError(entry)

    @operation
    def fail_until(self, attempt: int) -> int:
        if self.context.attempt < attempt:
            raise RuntimeError(f"attempt {self.context.attempt}")
        self.total += 1
        return self.context.attempt

    @operation
    def fail_for_good(self) -> None:
        raise NonRetryableError("never again")

    @query
    def count(self) -> int:
        return len(self.entries)

    @query
    def spoil(self) -> int:
        self.total += 1
        return self.total


def journal_registry(*others: type[Actor]) -> tuple[Registry, Callable[[str], Any]]:
    """A registry with a class of its own per call, since a class belongs to one registry."""
    registry = Registry(make_reference=make_reference)
    cls = type("Journal", (Journal,), {"__module__": __name__})
    registry.register(cls, "Journal")
    for other in others:
        registry.register(other)
    return registry, lambda actor_id: make_reference(registry, registry.get("Journal"), actor_id)


class RuntimeUnderTest:
    """A runtime on a database, with short times unless a test says otherwise."""

    def __init__(
        self,
        url: URL,
        *,
        seams: Seams | None = None,
        policies: Policies | None = None,
        actors: tuple[type[Actor], ...] = (),
        own: tuple[type[Actor], ...] = (),
        **settings: Any,
    ) -> None:
        seams = seams or Seams()
        values: dict[str, Any] = {
            "polling_interval": 0.02,
            "idle_polling_interval": 0.1,
            "sync_polling_interval": 0.02,
            "retry_delay": lambda attempt: 0.0,
        }
        self.settings = replace(Settings(), **(values | settings))
        self.registry, self.journal = journal_registry(*actors)
        # Each runtime gets its own subclass, under the same type, since a class belongs to one registry.
        for each in own:
            self.registry.register(type(each.__name__, (each,), {"__module__": each.__module__}), each.__name__)
        self.tables = tables_of(self.settings.table_prefix)
        self.database = Database(url, settings=self.settings, seams=seams)
        core = Core(
            database=self.database,
            store=store_of(self.database.dialect, self.settings),
            settings=self.settings,
            registry=self.registry,
            events=Events(adapter=self.database.dialect.name),
            policies=policies or Policies(),
            run_actor_code=_in_new_context,
            seams=seams,
        )
        self.runtime = Runtime(core, SessionOutbox(lambda: self.database.engine))
        self.registry.current_runtime = lambda: self.runtime

    def ref(self, actor_type: str, actor_id: str) -> Any:
        """A reference by type, whichever class of this runtime it is."""
        return make_reference(self.registry, self.registry.get(actor_type), actor_id)

    @property
    def store(self) -> Store:
        return self.runtime.core.store

    def drain(self, passes: int = 1000) -> int:
        """Run a worker in this thread until it finds nothing; how many passes worked."""
        worker = self.runtime.worker()
        for worked in range(passes):
            if not worker.run_once():
                return worked
        raise AssertionError(f"still busy after {passes} passes")

    def recover(self) -> int:
        """Take over every expired lease, as the roles do now and then."""
        return self.runtime.maintenance().recover()

    def close(self) -> None:
        self.runtime.close()


def _in_new_context(function: Callable[[], Any], /) -> Any:
    return contextvars.Context().run(function)
