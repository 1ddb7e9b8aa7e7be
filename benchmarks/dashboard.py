"""``python -m benchmarks.dashboard``: how long each page of the dashboard takes on a large database.

Makes a database of its own with a million messages and 100,000 actors, asks for every page, and deletes it again.
On PostgreSQL it says which plans walk a whole table; there must be none.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy
from flask import Flask
from sqlalchemy import Engine, event, text

from benchmarks.filling import fill
from benchmarks.scratch import scratch
from flask_solid_objects import Actor, SolidObjects, operation
from flask_solid_objects.store.schema import upgrade

PAGES = {
    "overview": "/",
    "actors": "/actors",
    "actors of a type": "/actors?type=Account",
    "actors by prefix": "/actors?type=Account&prefix=account-77",
    "actors, middle": "/actors?after=50000",
    "held": "/actors?lease=held",
    "paused, a window": "/actors?lease=paused",
    "actor": "/actor?type=Account&id=account-5",
    "actor with 10,000 messages": "/actor?type=Account&id=account-1",
    "message": "/messages/10000",
    "mailbox": "/mailbox",
    "running": "/mailbox?status=running",
    "reminders": "/reminders?status=scheduled",
    "reminders of a rare type": "/reminders?type=Rare",
    "effects": "/effects",
    "broadcasts": "/broadcasts",
    "dead letters": "/dead-letters",
    "dead letters of a rare type": "/dead-letters?type=Rare",
    "dead effects": "/dead-letters?kind=effect",
    "redrives": "/redrives",
    "processes": "/processes",
    "audit": "/audit",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "mysql"], default="postgresql")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--actors", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=7, help="how often each page is asked for")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, scratch(arguments.database, Path(directory)) as url:
        app, engine = make_app(url)
        began = time.perf_counter()
        with app.app_context():
            upgrade(engine)
            fill(engine, messages=arguments.messages, actors=arguments.actors)
        filled = time.perf_counter() - began
        report = measure(app, engine, arguments.times)
        engine.dispose()
    if arguments.json:
        print(json.dumps({"filled_seconds": round(filled, 1), "pages": report}, indent=2))
        return 0
    print(f"{arguments.messages:,} messages of {arguments.actors:,} actors, filled in {filled:.0f} s")
    print(f"{'page':30} {'median ms':>10} {'first ms':>10} {'statements':>11}  whole tables")
    for name, row in report.items():
        walked = ", ".join(row["walked"]) or "-"
        print(f"{name:30} {row['median_ms']:10.1f} {row['first_ms']:10.1f} {row['statements']:11}  {walked}")
    return 0


def make_app(url: sqlalchemy.URL) -> tuple[Flask, Engine]:
    app = Flask("dashboard_benchmark")
    app.config.update(SECRET_KEY="x", SQLALCHEMY_DATABASE_URI=url.render_as_string(hide_password=False))
    solid = SolidObjects()

    @solid.actor
    class Account(Actor):
        cents: int = 0

        @operation
        def pay(self, cents: int) -> int:
            self.cents += cents
            return self.cents

    @solid.authorize_administration
    def everybody(_access: Any) -> bool:
        return True

    solid.init_app(app)
    app.register_blueprint(solid.dashboard(url_prefix="/admin"))
    with app.app_context():
        return app, solid.runtime.core.database.engine


def measure(app: Flask, engine: Engine, times: int) -> dict[str, dict[str, Any]]:
    report: dict[str, dict[str, Any]] = {}
    for name, path in PAGES.items():
        durations = []
        with watched(engine) as statements:
            for _ in range(times):
                client = app.test_client()
                began = time.perf_counter()
                answer = client.get(f"/admin{path}")
                durations.append((time.perf_counter() - began) * 1000)
                assert answer.status_code == 200, (name, answer.status_code)
        report[name] = {
            "median_ms": round(statistics.median(durations), 1),
            "first_ms": round(durations[0], 1),
            "statements": len(statements) // times,
            "walked": sorted(walked(engine, statements[: len(statements) // times])),
        }
    return report


@contextmanager
def watched(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """What runs on the driver's cursors, which SQLAlchemy's events do not see."""
    seen: list[tuple[str, Any]] = []

    def checked_out(connection: Any, _record: Any, proxy: Any) -> None:
        del connection
        made = proxy.cursor

        def cursor(*arguments: Any, **options: Any) -> Any:
            return Watching(made(*arguments, **options), seen)

        proxy.cursor = cursor

    event.listen(engine, "checkout", checked_out)
    try:
        yield seen
    finally:
        event.remove(engine, "checkout", checked_out)


class Watching:
    """A driver's cursor whose statements are noted."""

    def __init__(self, cursor: Any, seen: list[tuple[str, Any]]) -> None:
        self._cursor, self._seen = cursor, seen

    def execute(self, statement: str, parameters: Any = None) -> Any:
        self._seen.append((statement, parameters))
        return self._cursor.execute(statement) if parameters is None else self._cursor.execute(statement, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


def walked(engine: Engine, statements: list[tuple[str, Any]]) -> set[str]:
    """Tables that a plan reads from end to end although they have many rows."""
    if engine.dialect.name != "postgresql":
        return set()
    found: set[str] = set()
    with engine.connect() as connection:
        large = {
            row[0]
            for row in connection.execute(text("SELECT relname FROM pg_class WHERE relkind = 'r' AND reltuples > 5000"))
        }
        cursor = connection.connection.cursor()
        for statement, parameters in statements:
            if not statement.lstrip().upper().startswith("SELECT") or "set_config" in statement:
                continue
            cursor.execute(f"EXPLAIN (FORMAT JSON, ANALYZE) {statement}", parameters or {})
            row = cursor.fetchone()
            assert row is not None, "EXPLAIN always answers"
            plan = row[0]
            found |= scans(json.loads(plan) if isinstance(plan, str) else plan, large)
        connection.rollback()
    return found


def scans(plan: Any, large: set[str]) -> set[str]:
    """Sequential scans that read more rows of a large table than a window has."""
    if isinstance(plan, list):
        return {name for each in plan for name in scans(each, large)}
    if not isinstance(plan, dict):
        return set()
    found = {name for value in plan.values() if isinstance(value, dict | list) for name in scans(value, large)}
    read = plan.get("Actual Rows", 0) + plan.get("Rows Removed by Filter", 0)
    if plan.get("Relation Name") in large and read * plan.get("Actual Loops", 1) > 20_002:
        found.add(f"{plan['Relation Name']} ({plan.get('Node Type')}, {read:,.0f} rows)")
    return found


if __name__ == "__main__":
    sys.exit(main())
