"""``flask solid prune``: it only counts unless it is told to delete, asks the policy, and leaves a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click
import pytest
from sqlalchemy import URL

from flask_solid_objects.values import Access
from tests.apps import AppUnderTest


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    with AppUnderTest(database_url, SOLID_OBJECTS_MESSAGE_RETENTION=timedelta(days=3)).ready(made=True) as ready:
        for _ in range(2):
            ready.Counter.ref("a").increment()
        yield ready


def run(app: AppUnderTest, *arguments: str, code: int = 0) -> str:
    result = app.app.test_cli_runner().invoke(args=["solid", "prune", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def run_json(app: AppUnderTest, *arguments: str) -> Any:
    return json.loads(run(app, *arguments, "--json"))


def events(app: AppUnderTest) -> list[Any]:
    with app.db.engine.connect() as connection:
        statement = "SELECT action, kind, subject_id, actor FROM solid_objects_administration_events ORDER BY id"
        return [tuple(row) for row in connection.execute(app.db.text(statement))]


def test_without_execute_nothing_is_deleted(app: AppUnderTest) -> None:
    """The rows are counted, and the command says that it deleted nothing and how to."""
    text = run(app, "messages", "--older-than", "0")

    assert "messages  2" in text
    assert "Nothing was deleted. Add --execute" in text
    assert run_json(app, "messages", "--older-than", "0") == {"executed": False, "counts": {"messages": 2}}
    assert events(app) == []


def test_execute_deletes_and_leaves_a_record(app: AppUnderTest) -> None:
    """With --execute the rows go, one event of administration tells of it, and the next time there is nothing."""
    assert run_json(app, "messages", "--execute", "--older-than", "0") == {"executed": True, "counts": {"messages": 2}}
    assert events(app) == [("retention.prune", "retention", "messages", "{'source': 'cli'}")]
    assert "messages  0" in run(app, "messages", "--execute", "--older-than", "0")


def test_ages_come_from_the_settings(app: AppUnderTest) -> None:
    """Without --older-than the retention of the kind counts."""
    assert run_json(app, "messages", "--execute")["counts"] == {"messages": 0}
    assert run_json(app, "messages", "--older-than", "0.5")["counts"] == {"messages": 0}


def test_all_kinds_at_once(app: AppUnderTest) -> None:
    """``all`` goes through every kind, in one record, and says what is kept for ever."""
    counts = run_json(app, "all", "--execute", "--older-than", "0")["counts"]

    assert list(counts) == [
        *("dead-letters", "messages", "reminders", "recoveries", "redrives", "instances", "processes", "audit"),
    ]
    assert len(events(app)) == 1
    text = run(app, "all")
    assert "Dead letters are kept for ever" in text
    assert "Actors are kept for ever" in text


def test_bar_on_a_terminal(app: AppUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a bar shows how far it is, whose end was counted before; programs get none."""
    bars: list[tuple[int, int]] = []

    class Bar:
        def __init__(self, *, length: int, label: str, show_pos: bool) -> None:
            self.length, self.done = length, 0

        def update(self, count: int) -> None:
            self.done += count

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            bars.append((self.length, self.done))

    monkeypatch.setattr(click, "progressbar", Bar)
    monkeypatch.setattr("flask_solid_objects.cli.prune.is_terminal", lambda: True)
    run_json(app, "messages", "--execute")
    assert bars == []
    run(app, "messages", "--execute", "--older-than", "0")

    assert bars == [(2, 2)]


def test_policy_is_asked_for_each_kind(app: AppUnderTest) -> None:
    """The administration policy may allow to look and forbid to delete; nothing is deleted or recorded then."""
    asked: list[tuple[str, str | None]] = []

    @app.solid.authorize_administration
    def allow(access: Access) -> bool:
        asked.append((access.action, access.resource))
        return access.action == "preview"

    run(app, "messages", "--older-than", "0")
    assert "Not allowed to prune messages" in run(app, "messages", "--older-than", "0", "--execute", code=1)

    assert asked == [("preview", "messages"), ("prune", "messages")]
    assert run_json(app, "messages", "--older-than", "0")["counts"] == {"messages": 2}
    assert events(app) == []


@pytest.mark.parametrize("arguments", [("everything",), ("messages", "--older-than", "-1"), ()])
def test_wrong_usage(app: AppUnderTest, arguments: tuple[str, ...]) -> None:
    """An unknown kind, a negative age or no kind is exit code 2."""
    run(app, *arguments, code=2)


def test_doctor_finds_nothing_wrong_after_pruning(app: AppUnderTest) -> None:
    """The gaps that pruning leaves in the sequences break no invariant."""
    run(app, "messages", "--execute", "--older-than", "0")
    result = app.app.test_cli_runner().invoke(args=["solid", "doctor", "--invariants", "--json"])

    assert json.loads(result.output)["healthy"] is True
