"""The example on a SQLite file, with its roles run pass by pass in the test's own thread."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from example_app import create_app, payments
from example_app.actors import Event, Ledger, solid
from example_app.jobs import Customer, Job
from example_app.orders import Order, db
from flask_solid_objects.runtime.role import Role
from tests.example.visitors import Visitor

EVENT = "night-of-strings"
DATABASE = "shop.sqlite3"


class Example:
    """The app, its roles, and what a test looks at."""

    def __init__(self, folder: Path) -> None:
        # Seconds before a failed effect or message is tried again.
        self.pause = 0.0
        config: dict[str, object] = {
            "SQLALCHEMY_DATABASE_URI": f"sqlite:///{folder / DATABASE}",
            "SOLID_OBJECTS_RETRY_DELAY": lambda attempt: self.pause,
        }
        self.app: Flask = create_app(config)
        self.app.instance_path = str(folder)
        with self.app.app_context():
            runtime = solid.runtime
        self.worker, self.effects, self.scheduler = runtime.worker(), runtime.effect_worker(), runtime.scheduler()
        self.runtime = runtime

    # -- visitors and roles --------------------------------------------------------------------

    def visit(self, path: str = f"/events/{EVENT}") -> Visitor:
        return Visitor(self.app, path)

    def work(self) -> None:
        """Run what waits in the mailboxes, and no more than that."""
        while self.worker.run_once():
            pass

    def ring(self, later: timedelta = timedelta(0)) -> int:
        """Ring the reminders that are due then; how many rang. A worker has yet to run what they say."""
        return self.scheduler.ring_due(now=datetime.now(UTC) + later)

    def settle(self) -> None:
        """Run everything until nothing is left to do now."""
        while any(role.run_once() for role in self._roles):
            pass

    @property
    def _roles(self) -> tuple[Role, ...]:
        return self.worker, self.effects, self.scheduler

    def close(self) -> None:
        for role in self._roles:
            role.stop()
            role._leave()
        self.runtime.close()
        with self.app.app_context():
            for engine in db.engines.values():
                engine.dispose()

    # -- what there is -------------------------------------------------------------------------

    @property
    def event(self) -> Any:
        with self.app.app_context():
            return Event.ref(EVENT).snapshot()

    @property
    def ledger(self) -> list[str]:
        with self.app.app_context():
            return Ledger.ref(EVENT).snapshot().lines

    @property
    def orders(self) -> list[tuple[str, int]]:
        """Seats and cents of every row of the shop's own table."""
        with self.app.app_context():
            return [(order.seats, order.cents) for order in db.session.scalars(db.select(Order))]

    @property
    def charged(self) -> list[int]:
        """The cents of every charge that the bank has not taken back."""
        return [charge.cents for charge in payments.charges(self.app.instance_path) if not charge.is_void]

    def repeat_dead_effects(self) -> int:
        """What an operator does once the outside works again; how many there were."""
        flask = self.app.test_cli_runner()
        listed = flask.invoke(args=["solid", "dead-letters", "list", "--kind", "effect", "--json"])
        dead: list[str] = [each["effect_id"] for each in json.loads(listed.output)]
        for effect in dead:
            assert flask.invoke(args=["solid", "effects", "retry", effect]).exit_code == 0
        return len(dead)

    def customer(self, customer_id: str) -> Any:
        with self.app.app_context():
            return Customer.ref(customer_id).snapshot()

    def jobs(self, customer_id: str) -> list[str]:
        """How the jobs of a customer stand, the oldest first."""
        queue: list[Job] = self.customer(customer_id).queue
        return [job.status for job in queue]

    def add_jobs(self, customer_id: str, *titles: str) -> None:
        with self.app.app_context():
            for title in titles:
                Customer.ref(customer_id).add(title=title)

    @property
    def invoices(self) -> list[str]:
        """The texts of the invoices that were written."""
        return sorted(path.read_text().strip() for path in Path(self.app.instance_path).glob("invoices/*.txt"))


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as the seed command leaves it, made once."""
    folder = tmp_path_factory.mktemp("seeded")
    made = Example(folder)
    made.app.test_cli_runner().invoke(args=["seed"], catch_exceptions=False)
    made.close()
    return folder / DATABASE


@pytest.fixture
def example(seeded: Path, tmp_path: Path) -> Iterator[Example]:
    shutil.copy(seeded, tmp_path)
    made = Example(tmp_path)
    yield made
    made.close()
