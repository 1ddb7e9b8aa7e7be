"""Load and kills: several processes send and call while one of them is killed every second.

``python -m tests.campaigns.load --database postgresql`` runs it on a scratch database. Every operation must be
committed exactly once, in the order of its sequence, with the invariants checked all the time beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Engine, MetaData, select

from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.tables import Tables, build_tables
from tests.campaigns.load_child import LEASE
from tests.databases import find_available, make_scratch
from tests.processes import TERM, Child

LONGEST_SECONDS = 300.0


@dataclass(slots=True)
class Report:
    """What a campaign saw; it passed when ``problems`` is empty."""

    database: str
    operations: int
    processes: int
    actors: int
    kills: int = 0
    seconds: float = 0.0
    recovered: int = 0
    looks: int = 0
    problems: list[str] = field(default_factory=list)


class Campaign:
    """One run on one empty database."""

    def __init__(self, url: URL, report: Report, *, kill_every: float, kills: int, progress: bool) -> None:
        self._url, self.report = url, report
        self._kill_every, self._most_kills, self._progress = kill_every, kills, progress
        self._engine: Engine = sqlalchemy.create_engine(url)
        self._tables: Tables = build_tables(MetaData())
        self._children: list[Child] = []
        self._over = threading.Event()

    def run(self) -> Report:
        started = time.monotonic()
        checker = threading.Thread(target=self._check_all_the_time)
        checker.start()
        self._children = [self._start(share) for share in range(self.report.processes)]
        try:
            self._drive(started)
        finally:
            self._over.set()
            checker.join()
            self._stop()
        self.report.seconds = round(time.monotonic() - started, 1)
        self._judge()
        self._engine.dispose()
        return self.report

    def _drive(self, started: float) -> None:
        """Kill one process now and then until everything is done and the kills are used up."""
        dice, next_kill, pause = random.Random(7), started + self._kill_every, threading.Event()
        while time.monotonic() - started < LONGEST_SECONDS:
            done = self._done()
            if self._progress:
                print(f"\r{done} of {self.report.operations}, {self.report.kills} killed", end="", file=sys.stderr)
            if done >= self.report.operations and all("issued" in child.lines for child in self._children):
                return
            if time.monotonic() >= next_kill and self.report.kills < self._most_kills:
                share = dice.randrange(len(self._children))
                self._children[share].kill()
                self._look_for_errors(self._children[share])
                self._children[share] = self._start(share)
                self.report.kills += 1
                next_kill += self._kill_every
            pause.wait(0.05)
        self.report.problems.append(f"not done within {LONGEST_SECONDS} s")

    def _start(self, share: int) -> Child:
        numbers = (share, self.report.processes, self.report.operations, self.report.actors)
        url = self._url.render_as_string(hide_password=False)
        return Child("tests/campaigns/load_child.py", url, *map(str, numbers))

    def _stop(self) -> None:
        for child in self._children:
            child.signal(TERM)
        for child in self._children:
            with child:
                code = child.wait(30)
                if code != 0:
                    self.report.problems.append(f"a process ended with {code}: {child.lines[-3:]}")
            self._look_for_errors(child)

    def _look_for_errors(self, child: Child) -> None:
        self.report.problems += [line[:600] for line in child.lines if line.startswith("ERROR") or "Traceback" in line]

    def _done(self) -> int:
        messages = self._tables.messages
        with self._engine.connect() as connection:
            query = select(sqlalchemy.func.count()).where(messages.c.completed_at.is_not(None))
            return int(connection.execute(query).scalar_one())

    def _check_all_the_time(self) -> None:
        while not self._over.wait(0.2):
            with self._engine.connect() as connection:
                found = check_invariants(connection, self._tables, lease_duration=LEASE, roles_running=True)
            self.report.looks += 1
            self.report.problems += [f"{each.invariant}: {each.statement}: {each.subject}" for each in found]

    def _judge(self) -> None:
        """Every operation once, and the state of each actor in the order of its sequences."""
        instances, messages = self._tables.instances, self._tables.messages
        seen: list[str] = []
        with self._engine.connect() as connection:
            for row in connection.execute(select(instances.c.id, instances.c.state)):
                query = (
                    select(messages.c.arguments, messages.c.attempt_count)
                    .where(messages.c.instance_id == row.id)
                    .order_by(messages.c.sequence)
                )
                rows = connection.execute(query).all()
                ordered = [_object(each.arguments)["entry"] for each in rows]
                self.report.recovered += sum(each.attempt_count - 1 for each in rows)
                entries = _object(row.state)["entries"]
                if entries != ordered:
                    self.report.problems.append(f"actor {row.id}: {entries} is not {ordered}")
                seen += entries
        if sorted(seen, key=int) != [str(number) for number in range(self.report.operations)]:
            self.report.problems.append(f"{len(seen)} commits of {self.report.operations} operations")


def _object(stored: Any) -> Any:
    """A JSON column, which MySQL gives as text."""
    return json.loads(stored) if isinstance(stored, str) else stored


def run_campaign(
    url: URL, *, operations: int, processes: int, actors: int, kill_every: float, kills: int, progress: bool = False
) -> Report:
    """Run on an empty database with our tables."""
    report = Report(database=url.get_backend_name(), operations=operations, processes=processes, actors=actors)
    return Campaign(url, report, kill_every=kill_every, kills=kills, progress=progress).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "mysql"], required=True)
    parser.add_argument("--operations", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--actors", type=int, default=20)
    parser.add_argument("--kill-every", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    processes = arguments.processes or (4 if arguments.database == "sqlite" else 8)
    with tempfile.TemporaryDirectory() as directory:
        scratch = make_scratch(arguments.database, find_available(), Path(directory))
        try:
            report = run_campaign(
                scratch.fresh(),
                operations=arguments.operations,
                processes=processes,
                actors=arguments.actors,
                kill_every=arguments.kill_every,
                kills=arguments.kills,
                progress=True,
            )
        finally:
            scratch.drop()
    print(file=sys.stderr)
    print(json.dumps(asdict(report), indent=2) if arguments.json else report)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
