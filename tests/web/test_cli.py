"""The commands, through Flask's own runner and as real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL

from flask_solid_objects import Actor, operation
from flask_solid_objects.values import MessageStatus
from tests.apps import AppUnderTest


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    with AppUnderTest(database_url, SOLID_OBJECTS_MAX_ATTEMPTS=1).ready(made=True) as ready:
        yield ready


def run(app: AppUnderTest, *arguments: str, code: int = 0) -> str:
    result = app.app.test_cli_runner().invoke(args=["solid", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def run_json(app: AppUnderTest, *arguments: str, code: int = 0) -> Any:
    return json.loads(run(app, *arguments, "--json", code=code))


def test_schema_commands(blank_database_url: URL) -> None:
    """check fails before, upgrade makes the tables, check passes after, downgrade drops them."""
    app = AppUnderTest(blank_database_url)
    assert "flask solid upgrade" in run(app, "check", code=1)
    assert run_json(app, "check", code=1)["ok"] is False
    assert "revision" in run(app, "upgrade")
    assert run_json(app, "upgrade")["ok"] is True
    assert "right" in run(app, "check")
    run(app, "downgrade", code=1)  # nobody said yes
    run(app, "downgrade", "--yes")
    assert run_json(app, "check", code=1)["missing_tables"] != []
    assert "flask db upgrade" in run(app, "status", code=1)
    with app.app.app_context():
        app.solid.runtime.close()
        for engine in app.db.engines.values():
            engine.dispose()


def test_doctor_makes_a_real_round_trip(app: AppUnderTest) -> None:
    """A healthy installation passes, and the doctor's own actor leaves nothing behind."""
    report = run_json(app, "doctor", "--invariants")
    statuses = {check["name"]: check["status"] for check in report["checks"]}

    assert report["healthy"] is True
    assert list(statuses) == [
        *("configuration", "schema", "database_server", "wake_up", "pool", "policies", "roles", "round_trip"),
        "invariants",
    ]
    assert (statuses["round_trip"], statuses["invariants"], statuses["roles"]) == ("pass", "pass", "info")
    assert run_json(app, "actors", "list") == []
    assert run_json(app, "status") == []
    assert "Healthy." in run(app, "doctor")


def test_doctor_without_tables_says_what_to_do(blank_database_url: URL) -> None:
    """Missing tables fail the check and skip those that need them; exit code 1."""
    app = AppUnderTest(blank_database_url)
    report = run_json(app, "doctor", code=1)
    statuses = {check["name"]: check["status"] for check in report["checks"]}

    assert (statuses["schema"], statuses["round_trip"]) == ("fail", "skip")
    with app.app.app_context():
        app.solid.runtime.close()
        for engine in app.db.engines.values():
            engine.dispose()


def test_doctor_finds_a_broken_invariant(app: AppUnderTest) -> None:
    """A hint that is late is found, named and makes the doctor fail."""
    app.Counter.ref("a").increment.send()
    with app.db.engine.begin() as connection:
        connection.execute(app.db.text("UPDATE solid_objects_instances SET ready_at = NULL"))
    report = run_json(app, "doctor", "--invariants", code=1)

    assert "I1" in next(check["text"] for check in report["checks"] if check["name"] == "invariants")


def test_dead_letters(app: AppUnderTest) -> None:
    """A dead letter is listed, shown and retried; an unknown id is one line and exit code 1."""

    @app.solid.actor
    class Failing(Actor):
        @operation
        def fail(self, secret: str) -> None:
            raise RuntimeError("broken")

    message = Failing.ref("x").fail.send(secret="s3cret")
    app.solid.runtime.worker().run_once()
    (letter,) = run_json(app, "dead-letters", "list")

    assert message.status() is MessageStatus.DEAD
    assert (letter["exception_class"], letter["arguments"], letter["attempts"]) == (
        "RuntimeError",
        {"secret": "s3cret"},
        1,
    )
    assert "s3cret" not in run(app, "dead-letters", "list")
    assert "RuntimeError: broken" in run(app, "dead-letters", "show", str(letter["id"]))
    retried = run_json(app, "dead-letters", "retry", str(letter["id"]))
    assert run_json(app, "dead-letters", "retry", str(letter["id"])) == retried
    assert "There is no dead letter 99" in run(app, "dead-letters", "show", "99", code=1)
    run(app, "dead-letters", "show", "x", code=2)


def test_actor_commands(app: AppUnderTest) -> None:
    """list, show, pause, resume, retry-now, skip, fail and destroy say what they did."""
    counter = app.Counter.ref("a")
    counter.increment()
    first, second = counter.increment.send(), counter.increment.send()

    assert run_json(app, "actors", "list")[0]["key"] == {"actor_type": "Counter", "actor_id": "a"}
    assert "Counter" in run(app, "actors", "list", "--type", "Counter")
    assert "There are no actors." in run(app, "actors", "list", "--type", "Other")
    shown = run_json(app, "actors", "show", "Counter", "a")
    assert (shown["lease"], shown["waiting"], shown["state_revision"]) == ("idle", 2, 1)
    assert run_json(app, "actors", "pause", "Counter", "a") == {"changed": True}
    assert run_json(app, "actors", "pause", "Counter", "a") == {"changed": False}
    assert "paused" in run(app, "actors", "show", "Counter", "a")
    assert run_json(app, "actors", "resume", "Counter", "a") == {"changed": True}
    assert run_json(app, "actors", "retry-now", "Counter", "a") == {"changed": False}
    assert run_json(app, "actors", "skip", "Counter", "a") == {"changed": True, "message_id": first.id}
    assert run_json(app, "actors", "fail", "Counter", "a") == {"changed": True, "message_id": second.id}
    assert run_json(app, "actors", "skip", "Counter", "a") == {"changed": False}
    run(app, "actors", "destroy", "Counter", "a", code=1)  # nobody said yes
    assert run_json(app, "actors", "destroy", "Counter", "a", "--yes") == {"destroyed": True}
    assert "There is no actor Counter 'a'" in run(app, "actors", "show", "Counter", "a", code=1)


def test_acts_are_recorded(app: AppUnderTest) -> None:
    """Each act writes an administration event with its operator."""
    app.Counter.ref("a").increment()
    run(app, "actors", "pause", "Counter", "a")
    with app.db.engine.connect() as connection:
        rows = connection.execute(
            app.db.text("SELECT action, subject_id, actor FROM solid_objects_administration_events")
        ).all()

    assert [tuple(row) for row in rows] == [("actor.pause", "Counter/a", "{'source': 'cli'}")]


def test_administration_policy_is_asked(app: AppUnderTest) -> None:
    """A denying policy ends a command with one line and exit code 1; the context is the command line."""
    asked: list[Any] = []
    app.solid.authorize_administration(asked.append)

    assert "Not allowed to inspect processes" in run(app, "status", code=1)
    assert (asked[0].context, asked[0].resource) == ({"source": "cli"}, "processes")


def test_cleanup(app: AppUnderTest) -> None:
    """cleanup counts the dead processes that it freed."""
    app.Counter.ref("a").increment()
    with app.db.engine.begin() as connection:
        connection.execute(
            app.db.text("UPDATE solid_objects_processes SET last_heartbeat_at = '2020-01-01 00:00:00.000000'")
        )

    assert run_json(app, "cleanup") == {"cleaned_processes": 1}
    assert run_json(app, "cleanup") == {"cleaned_processes": 0}
