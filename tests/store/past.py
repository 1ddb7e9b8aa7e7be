"""Raw rows of long ago, and pruning of what is older than some days."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Table, func, select

from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.runtime.retention import Retention
from flask_solid_objects.settings import Settings
from tests.population import Rows
from tests.store.acts import Acts

DAY = 86_400.0
LONG_AGO = -40 * DAY
LATELY = -20 * DAY


@dataclass(frozen=True, slots=True)
class Past:
    """What was left by earlier days, and what of it is pruned after 30."""

    acts: Acts

    @contextmanager
    def rows(self) -> Iterator[Rows]:
        now = self.acts.db.read(lambda tx: tx.now())
        # Two of the servers keep times without a zone.
        naive = self.acts.engine.dialect.name != "postgresql"
        with self.acts.engine.begin() as connection:
            moment = now.replace(tzinfo=None) if naive else now
            yield Rows(connection, self.acts.tables, self.acts.db.dialect, moment, self.acts.owner)

    # -- rows ---------------------------------------------------------------------------------

    def actor(self, name: str = "a", *, following: int = 2, used: float | None = LONG_AGO, **values: Any) -> int:
        """An idle actor that was made, and used if at all, that many seconds from now."""
        with self.rows() as rows:
            moment = rows.at(LONG_AGO if used is None else used)
            values = {"state_revision": following - 1} | values
            return rows.actor(
                name, following=following, last_used_at=None if used is None else moment, created_at=moment, **values
            )

    def finished(self, instance_id: int, sequence: int = 1, *, at: float = LONG_AGO, **values: Any) -> int:
        with self.rows() as rows:
            return rows.message(instance_id, sequence, attempt_count=1, completed_at=rows.at(at), **values)

    def dead(self, instance_id: int, sequence: int = 1, *, at: float = LONG_AGO, retried_as: int | None = None) -> int:
        """A message that failed for good; the id of its dead letter."""
        with self.rows() as rows:
            message_id = rows.dead(instance_id, sequence)
            letters = self.acts.tables.dead_letters
            letter_id = rows.connection.execute(select(letters.c.id).where(letters.c.message_id == message_id)).scalar()
            assert letter_id is not None
            rows.change(letters, letter_id, last_failed_at=rows.at(at), retried_message_id=retried_as)
            return int(letter_id)

    def effect(self, message_id: int, instance_id: int, *, status: str, at: float = LONG_AGO, **values: Any) -> int:
        common = {"effect_id": str(uuid.uuid4()), "name": "mail", "arguments": {}, "max_attempts": 3}
        with self.rows() as rows:
            times = {"available_at": rows.at(at), "updated_at": rows.at(at)}
            owners = {"message_id": message_id, "instance_id": instance_id, "status": status}
            return int(rows.add(self.acts.tables.effects, **(owners | common | times | values)))

    def broadcast(self, message_id: int, instance_id: int, *, status: str, at: float = LONG_AGO) -> int:
        common = {"broadcast_id": str(uuid.uuid4()), "observable_name": "value", "value": {}, "revision": 1}
        numbers = {"state_version": 1, "activation_generation": 1, "max_attempts": 3}
        with self.rows() as rows:
            times = {"available_at": rows.at(at), "updated_at": rows.at(at)}
            owners = {"message_id": message_id, "instance_id": instance_id, "status": status}
            return int(rows.add(self.acts.tables.broadcasts, **owners, **common, **numbers, **times))

    def reminder(self, instance_id: int, *, status: str, at: float = LONG_AGO) -> int:
        common = {"operation": "ring", "arguments": {}, "actor_type": "Counter"}
        with self.rows() as rows:
            times = {"next_run_at": rows.at(at), "updated_at": rows.at(at)}
            names = {
                "actor_id": self.acts.db.dialect.encode_text("a"),
                "name": self.acts.db.dialect.encode_text(status),
            }
            owner = {"instance_id": instance_id, "status": status}
            return int(rows.add(self.acts.tables.reminders, **owner, **names, **common, **times))

    # -- acts ---------------------------------------------------------------------------------

    def run(self, *kinds: str, execute: bool, **settings: Any) -> int:
        """How many rows may go by the default ages, and by the age of actors that all tests use."""
        values: dict[str, Any] = {
            "instance_retention_by_actor_type": {"Counter": 30 * DAY},
            "dead_letter_retention": 30 * DAY,
        }
        registry = Registry(make_reference=lambda *_: None, current_runtime=lambda: None)
        core = Core(
            database=self.acts.db,
            store=self.acts.store,
            settings=Settings(**(values | settings)),
            registry=registry,
            events=Events(adapter=self.acts.db.dialect.name),
            seams=self.acts.db.seams,
        )
        return sum(Retention(core).run(kinds, execute=execute).values())

    def count(self, *kinds: str, **settings: Any) -> int:
        return self.run(*kinds, execute=False, **settings)

    def prune(self, *kinds: str, **settings: Any) -> int:
        return self.run(*kinds, execute=True, **settings)

    # -- looking ------------------------------------------------------------------------------

    def ids(self, table: Table) -> list[Any]:
        with self.acts.engine.connect() as connection:
            key = next(iter(table.primary_key))
            return list(connection.execute(select(key).order_by(key)).scalars())

    def number(self, table: Table) -> int:
        with self.acts.engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


@pytest.fixture
def pruned() -> bool:
    return True


@pytest.fixture
def past(acts: Acts) -> Past:
    return Past(acts)
