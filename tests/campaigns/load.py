"""Load and kills: several processes send and call while one of them is killed every second.

``python -m tests.campaigns.load --database postgresql`` runs it on a scratch database. Every operation must be
committed exactly once, in the order of its sequence, with the invariants checked all the time beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import sqlalchemy
from sqlalchemy import URL, Engine, MetaData, select

from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.tables import Tables, build_tables
from tests.campaigns.judging import complaints, judge
from tests.campaigns.kills import Killer
from tests.campaigns.load_child import LEASE
from tests.databases import find_available, make_scratch
from tests.processes import TERM, Child

LONGEST_SECONDS = 300.0
# Longer than the threshold of any campaign's processes.
ALIVE = 20.0
# A watcher that looks every 20 ms and a machine that also starts new processes see the end of a claim late.
SLACK = 1.0


@dataclass(slots=True)
class Report:
    """What a campaign saw; it passed when ``problems`` is empty."""

    database: str
    operations: int
    processes: int
    actors: int
    # Only while operations were left to do; how many of them hit a running turn, by the kind of who ran it.
    kills: int = 0
    interrupted: dict[str, int] = field(default_factory=dict)
    # Attempts beyond the first of each message.
    repeated: int = 0
    # Executions of effects beyond the first of each, where the campaign has effects.
    effects_repeated: int = 0
    # From a kill to the end of the claim that it left, at most.
    longest_recovery: float = 0.0
    seconds: float = 0.0
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
        self._killer = Killer(self._engine, self._tables)
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
        self._sum_up()
        self._engine.dispose()
        return self.report

    def _drive(self, started: float) -> None:
        """Kill one process now and then as long as there is work, and return once all of it is done."""
        next_kill, pause = math.inf, threading.Event()
        while time.monotonic() - started < LONGEST_SECONDS:
            done = self._done()
            self._killer.watch()
            if self._progress:
                print(f"\r{done} of {self.report.operations}, {self.report.kills} killed", end="", file=sys.stderr)
            if done >= self.report.operations:
                if all("issued" in child.lines for child in self._children):
                    return
            elif done > 0 and next_kill == math.inf:
                next_kill = time.monotonic() + self._kill_every
            elif time.monotonic() >= next_kill and self.report.kills < self._most_kills:
                self._kill_and_replace()
                next_kill = time.monotonic() + self._kill_every
            pause.wait(0.02)
        self.report.problems.append(f"not done within {LONGEST_SECONDS} s")

    def _kill_and_replace(self) -> None:
        share = self._killer.kill_one(self._children)
        self.report.problems += complaints(self._children[share].lines)
        self._children[share] = self._start(share)
        self.report.kills += 1

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
            self.report.problems += complaints(child.lines)

    def _done(self) -> int:
        messages = self._tables.messages
        with self._engine.connect() as connection:
            query = select(sqlalchemy.func.count()).where(messages.c.completed_at.is_not(None))
            return int(connection.execute(query).scalar_one())

    def _check_all_the_time(self) -> None:
        while not self._over.wait(0.2):
            with self._engine.connect() as connection:
                found = check_invariants(
                    connection, self._tables, lease_duration=LEASE, roles_running=True, process_threshold=ALIVE
                )
            self.report.looks += 1
            self.report.problems += [f"{each.invariant}: {each.statement}: {each.subject}" for each in found]

    def _sum_up(self) -> None:
        self._killer.watch()
        self.report.interrupted = self._killer.interrupted
        self.report.longest_recovery = round(self._killer.longest_recovery, 2)
        if self._killer.unrecovered or self._killer.longest_recovery > 2 * LEASE + SLACK:
            text = f"{self._killer.unrecovered} turns not recovered, the slowest in {self.report.longest_recovery} s"
            self.report.problems.append(text)
        problems, self.report.repeated = self._judge()
        self.report.problems += problems

    def _judge(self) -> tuple[list[str], int]:
        return judge(self._engine, self._tables, self.report.operations)


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
