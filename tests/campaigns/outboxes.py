"""Kills under turns that emit, send, schedule and broadcast: a process dies every second, nothing is lost or doubled.

``python -m tests.campaigns.outboxes --database postgresql`` runs it on a scratch database. Every effect must have been
executed under one id, every callback applied once, messages heard in order per pair, every reminder rung once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import URL, func, select

from tests.campaigns.judging import decoded
from tests.campaigns.load import Campaign, Report
from tests.databases import find_available, make_scratch
from tests.processes import Child


class OutboxCampaign(Campaign):
    """The load campaign with children that stage one of everything in each turn."""

    def __init__(self, url: URL, report: Report, outside: Path, **options: Any) -> None:
        super().__init__(url, report, **options)
        self._outside = outside
        outside.touch()

    def _start(self, share: int) -> Child:
        numbers = (share, self.report.processes, self.report.operations, self.report.actors)
        url = self._url.render_as_string(hide_password=False)
        return Child("tests/campaigns/outbox_child.py", url, *map(str, numbers), str(self._outside))

    def _done(self) -> int:
        """How many steps are done; all of them only when everything that they staged is, too."""
        t = self._tables
        left = {
            t.effects: t.effects.c.status != "completed",
            t.broadcasts: t.broadcasts.c.status != "delivered",
            t.reminders: t.reminders.c.status != "completed",
            t.ready_messages: t.ready_messages.c.id > 0,
            t.claimed_messages: t.claimed_messages.c.id > 0,
        }
        with self._engine.connect() as connection:
            counted = select(func.count()).where(
                t.messages.c.operation == "step", t.messages.c.completed_at.is_not(None)
            )
            steps = int(connection.execute(counted).scalar_one())
            if steps < self.report.operations:
                return steps
            waits = any(
                connection.execute(select(table.c.id).where(rest).limit(1)).first() for table, rest in left.items()
            )
        return steps - 1 if waits else steps

    def _judge(self) -> tuple[list[str], int]:
        t, wanted = self._tables, list(range(self.report.operations))
        with self._engine.connect() as connection:
            rows = connection.execute(select(t.instances.c.actor_type, t.instances.c.state)).all()
            repeated = connection.execute(select(func.sum(t.messages.c.attempt_count - 1))).scalar_one()
            dead = connection.execute(select(func.count()).select_from(t.dead_letters)).scalar_one()
        steppers = [decoded(row.state) for row in rows if row.actor_type == "Stepper"]
        problems = [f"{dead} dead letters"] if dead else []
        for name in ("steps", "done", "rung"):
            found = sorted(number for state in steppers for number in state[name])
            if found != wanted:
                problems.append(f"{name}: {len(found)} of {len(wanted)}, {len(set(found))} different")
        problems += self._unheard([decoded(row.state) for row in rows if row.actor_type == "Hearer"], steppers)
        problems += self._executions()
        return problems, int(repeated or 0)

    def _unheard(self, hearers: list[dict[str, Any]], steppers: list[dict[str, Any]]) -> list[str]:
        """Every step heard once, and by each hearer in the order in which its sender made them."""
        places = {number: place for state in steppers for place, number in enumerate(state["steps"])}
        heard: dict[tuple[int, str], list[int]] = defaultdict(list)
        for place, state in enumerate(hearers):
            for sender, number in state["heard"]:
                heard[place, sender].append(number)
        problems = [
            f"pair {pair} out of order: {found}"
            for pair, found in heard.items()
            if found != sorted(found, key=lambda number: places[number])
        ]
        total = sum(len(found) for found in heard.values())
        if total != self.report.operations:
            problems.append(f"{total} of {self.report.operations} messages heard")
        return problems

    def _executions(self) -> list[str]:
        """Each effect at least once, and always under the same id."""
        ids: dict[int, Counter[str]] = defaultdict(Counter)
        for line in self._outside.read_text().splitlines():
            effect_id, number, _attempt = line.split()
            ids[int(number)][effect_id] += 1
        problems = [f"effect {number} has {len(found)} ids" for number, found in ids.items() if len(found) != 1]
        if len(ids) != self.report.operations:
            problems.append(f"{len(ids)} of {self.report.operations} effects executed")
        self.report.effects_repeated = sum(found.total() - 1 for found in ids.values())
        return problems


def run_outbox_campaign(
    url: URL, outside: Path, *, operations: int, processes: int, actors: int, kill_every: float, kills: int, **more: Any
) -> Report:
    """Run on an empty database with our tables."""
    report = Report(database=url.get_backend_name(), operations=operations, processes=processes, actors=actors)
    return OutboxCampaign(url, report, outside, kill_every=kill_every, kills=kills, progress=bool(more)).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "mysql"], required=True)
    parser.add_argument("--operations", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--actors", type=int, default=20)
    parser.add_argument("--kill-every", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scratch = make_scratch(arguments.database, find_available(), Path(directory))
        try:
            report = run_outbox_campaign(
                scratch.fresh(),
                Path(directory) / "outside.txt",
                operations=arguments.operations,
                processes=arguments.processes,
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
