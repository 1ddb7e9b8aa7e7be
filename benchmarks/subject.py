"""The runtime that is measured: one actor with a small state, on tables of its own prefix, without a Flask app."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy
from sqlalchemy import MetaData

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.schema import downgrade, upgrade
from flask_solid_objects.store.sessions import SessionOutbox
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import build_tables


class Counter(Actor):
    """The smallest actor that does something."""

    value: int = 0

    @operation
    def increment(self, amount: int = 1) -> int:
        self.value += amount
        return self.value


class Subject:
    """A runtime on freshly made tables, which are dropped at the end."""

    prefix = "bench_"

    def __init__(self, url: sqlalchemy.URL) -> None:
        settings = replace(Settings(), table_prefix=self.prefix)
        self._database = Database(url, settings=settings)
        downgrade(self._database.engine, self.prefix)
        upgrade(self._database.engine, self.prefix)
        self._registry = Registry(make_reference=make_reference)
        self._definition = self._registry.register(type("Counter", (Counter,), {"__module__": __name__}))
        store = Store(build_tables(MetaData(), self.prefix), self._database.dialect, settings)
        core = Core(
            database=self._database,
            store=store,
            settings=settings,
            registry=self._registry,
            events=Events(adapter=self._database.dialect.name),
        )
        self.runtime = Runtime(core, SessionOutbox())
        self._registry.current_runtime = lambda: self.runtime

    def counter(self, actor_id: str) -> Any:
        return make_reference(self._registry, self._definition, actor_id)

    def drain(self) -> None:
        worker = self.runtime.worker()
        while worker.run_once():
            pass

    def close(self) -> None:
        self.runtime.close()
        downgrade(self._database.engine, self.prefix)
        self._database.dispose()
