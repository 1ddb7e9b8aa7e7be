"""Numbers in the text format of Prometheus: gauges of what the tables hold, behind the administration policy.

A scraper has no session, so its policy looks at a header or a token: ``access.resource`` is ``metrics``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response

from flask_solid_objects.store.overview import Overview

if TYPE_CHECKING:
    from flask_solid_objects.web.dashboard.blueprint import Dashboard

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """``<prefix>/metrics``."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    def register(self, blueprint: Blueprint) -> None:
        blueprint.add_url_rule("/metrics", "metrics", self.metrics, methods=["GET"])

    def metrics(self) -> Response:
        home = self._dashboard.runtime().browsing.measured(context=self._dashboard.identity())
        kinds = Counter((each.kind, "silent" if each.is_stale else each.shutdown_state) for each in home.processes)
        lines = [*_gauges(home.overview), *_processes(kinds)]
        return Response("\n".join(lines) + "\n", content_type=_TYPE)


def _gauges(o: Overview) -> Iterator[str]:
    yield from _family(
        "messages",
        "Messages in the mailboxes, counted up to a cap.",
        {
            '{state="ready"}': o.ready,
            '{state="due"}': o.due,
            '{state="running"}': o.running,
            '{state="dead"}': o.dead_letters,
        },
    )
    yield from _family(
        "outbox_rows",
        "Effects, broadcasts and reminders, counted up to a cap.",
        {
            '{kind="effect",state="pending"}': o.effects_pending,
            '{kind="effect",state="running"}': o.effects_running,
            '{kind="effect",state="dead"}': o.effects_dead,
            '{kind="broadcast",state="pending"}': o.broadcasts_pending,
            '{kind="broadcast",state="dead"}': o.broadcasts_dead,
            '{kind="reminder",state="scheduled"}': o.reminders_scheduled,
            '{kind="reminder",state="due"}': o.reminders_due,
            '{kind="reminder",state="dead"}': o.reminders_dead,
        },
    )
    yield from _family(
        "oldest_seconds",
        "How long the oldest that is due has waited.",
        {
            '{kind="message"}': _age(o.oldest_due, o.now),
            '{kind="effect"}': _age(o.oldest_effect, o.now),
            '{kind="broadcast"}': _age(o.oldest_broadcast, o.now),
        },
    )
    yield from _family(
        "actors", "Actors, counted up to a cap.", {'{state="all"}': o.actors, '{state="active"}': o.held}
    )
    yield from _family("redrives_running", "Redrives under way.", {"": o.redrives_running})


def _processes(kinds: Mapping[tuple[str, str], int]) -> Iterator[str]:
    values = {f'{{kind="{_escaped(kind)}",state="{state}"}}': number for (kind, state), number in sorted(kinds.items())}
    yield from _family("processes", "Registered processes that have not stopped.", values)


def _family(name: str, text: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield f"# HELP solid_objects_{name} {text}"
    yield f"# TYPE solid_objects_{name} gauge"
    for labels, value in values.items():
        yield f"solid_objects_{name}{labels} {value}"


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, round((now - since).total_seconds(), 3))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
