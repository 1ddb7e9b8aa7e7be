"""The commands on effects, broadcasts, redrives and reminders, through Flask's own runner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import click
import pytest
from sqlalchemy import URL

from flask_solid_objects import Access, Actor, EffectContext, attribute, operation
from flask_solid_objects.runtime.redriving import Redriving
from tests.apps import AppUnderTest
from tests.processes import wait_until
from tests.web.test_cli import run, run_json


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    """An app whose effects all die, with an actor that emits, sends, arms and is watched."""
    under_test = AppUnderTest(
        database_url,
        SOLID_OBJECTS_MAX_ATTEMPTS=1,
        SOLID_OBJECTS_REDRIVE_BATCH_PAUSE=0.0,
        SOLID_OBJECTS_REDRIVE_BATCH_SIZE=1,
    )
    solid = under_test.solid

    @solid.effect
    def charge(context: EffectContext, *, amount: int) -> None:
        raise RuntimeError("the bank is away")

    @solid.actor
    class Till(Actor):
        total: int = attribute(0, observable=True)

        @operation
        def pay(self, amount: int) -> str:
            return charge.emit(amount=amount)

        @operation
        def refuse(self) -> None:
            raise RuntimeError("the till is shut")

        @operation
        def add(self) -> None:
            self.total += 1

        @operation
        def tell(self, other: str) -> None:
            Till.ref(other).add.send()

        @operation
        def arm(self, every: float | None = None) -> None:
            self.add.using(delay=3600.0 if every is None else None, every=every).schedule()

    with under_test.ready(made=True) as ready:
        ready.Till = Till  # type: ignore[attr-defined]
        yield ready


def till(app: AppUnderTest, actor_id: str = "a") -> Any:
    return app.Till.ref(actor_id)  # type: ignore[attr-defined]


def kill_effects(app: AppUnderTest, *actors: str) -> list[str]:
    """One dead effect per actor; their ids."""
    ids = [till(app, actor).pay(amount=7) for actor in actors]
    worker = app.solid.runtime.effect_worker()
    while worker.run_once():
        pass
    worker._leave()
    return ids


def kill_messages(app: AppUnderTest, *actors: str) -> None:
    """One dead message per actor."""
    for actor in actors:
        till(app, actor).refuse.send()
    worker = app.solid.runtime.worker()
    while worker.run_once():
        pass


def execute(app: AppUnderTest, statement: str) -> None:
    with app.db.engine.begin() as connection:
        connection.execute(app.db.text(statement))


def acts(app: AppUnderTest) -> list[tuple[str, str]]:
    """Action and operator of each event."""
    statement = "SELECT action, actor FROM solid_objects_administration_events ORDER BY id"
    with app.db.engine.connect() as connection:
        return [(row[0], row[1]) for row in connection.execute(app.db.text(statement))]


# -- dead letters and effects ------------------------------------------------------------------


def test_dead_effects(app: AppUnderTest) -> None:
    """Dead effects are listed without their arguments, and retried by their id; a second time changes nothing."""
    first, second = kill_effects(app, "a", "b")
    found = run_json(app, "dead-letters", "list", "--kind", "effect")
    text = run(app, "dead-letters", "list", "--kind", "effect", "--type", "Till")

    assert [each["effect_id"] for each in found] == [second, first]
    assert (found[0]["arguments"], found[0]["error"]["class"], found[0]["is_message"]) == (
        {"amount": 7},
        "RuntimeError",
        False,
    )
    assert ("charge" in text, "RuntimeError" in text, "bank" in text) == (True, True, False)
    assert "There are no dead effects." in run(app, "dead-letters", "list", "--kind", "effect", "--type", "Other")
    assert f"Effect {first} is pending." in run(app, "dead-letters", "retry", first, "--kind", "effect")
    retried = run_json(app, "effects", "retry", first)
    assert (retried["status"], retried["attempts"]) == ("pending", 0)
    assert acts(app) == [("effect.retry", "{'source': 'cli'}")] * 2


def test_pages_of_dead_effects(app: AppUnderTest) -> None:
    """--limit and --before go through the pages of dead effects."""
    first, second = kill_effects(app, "a", "b")
    (page,) = run_json(app, "dead-letters", "list", "--kind", "effect", "--limit", "1")
    following = run_json(app, "dead-letters", "list", "--kind", "effect", "--before", str(page["id"]))

    assert (page["effect_id"], [each["effect_id"] for each in following]) == (second, [first])


def test_waiting_effects(app: AppUnderTest) -> None:
    """Effects and messages that wait are listed, a message with its receiver and operation."""
    assert "There are no pending effects." in run(app, "effects", "list")
    effect_id = till(app).pay(amount=7)
    till(app).tell(other="b")
    found = run_json(app, "effects", "list")

    assert [each["is_message"] for each in found] == [True, False]
    assert found[1]["effect_id"] == effect_id
    assert "message to Till 'b': add" in run(app, "effects", "list")
    assert run_json(app, "effects", "list", "--status", "processing") == []
    run(app, "effects", "list", "--status", "dead", code=2)


def test_dead_broadcasts(app: AppUnderTest) -> None:
    """Dead broadcasts are listed and retried by their id."""
    till(app).add()
    execute(app, "UPDATE solid_objects_broadcasts SET status = 'dead'")
    (found,) = run_json(app, "dead-letters", "list", "--kind", "broadcast")
    arguments = ("dead-letters", "retry", found["broadcast_id"], "--kind", "broadcast")

    assert (found["observable"], found["revision"]) == ("total", 1)
    assert "total" in run(app, "dead-letters", "list", "--kind", "broadcast")
    assert f"Broadcast {found['broadcast_id']} is pending." in run(app, *arguments)
    assert run_json(app, *arguments)["status"] == "pending"
    assert "There are no dead broadcasts." in run(app, "dead-letters", "list", "--kind", "broadcast")


def test_unknown_ids_of_dead_letters(app: AppUnderTest) -> None:
    """An id that is not there is one line and exit code 1; a message's id that is no number is wrong usage."""
    retries = {
        "effect": [("effects", "retry", "x"), ("dead-letters", "retry", "x", "--kind", "effect")],
        "broadcast": [("dead-letters", "retry", "x", "--kind", "broadcast")],
    }
    for kind, commands in retries.items():
        for command in commands:
            assert f"There is no {kind} x: it is named by its {kind}_id." in run(app, *command, code=1)
    assert "see --kind" in run(app, "dead-letters", "retry", "x", code=2)
    run(app, "dead-letters", "list", "--kind", "other", code=2)


# -- redrives ----------------------------------------------------------------------------------


def test_redrive_commands(app: AppUnderTest) -> None:
    """start, show, list and cancel tell how the task stands; an equal start shows the task that runs."""
    kill_effects(app, "a", "b")
    start = ("redrive", "start", "--kind", "effect", "--type", "Till", "--limit", "5")
    assert "There are no redrives." in run(app, "redrive", "list")
    task = run_json(app, *start)

    assert (task["kind"], task["actor_type"], task["limit"]) == ("effect", "Till", 5)
    assert (task["status"], task["moved"], task["remaining"]) == ("running", 0, 2)
    assert run_json(app, *start) == task
    assert f"Redrive {task['id']} is running: 0 revived, 2 remaining." in run(app, "redrive", "show", task["id"])
    assert run_json(app, "redrive", "list", "--status", "running") == [task]
    assert task["id"] in run(app, "redrive", "list")
    cancelled = run_json(app, "redrive", "cancel", task["id"])
    assert (cancelled["status"], cancelled["remaining"]) == ("cancelled", 0)
    assert run_json(app, "redrive", "cancel", task["id"]) == cancelled
    assert run_json(app, "redrive", "list", "--status", "running") == []
    assert [action for action, _ in acts(app)] == ["redrive.start", "redrive.cancel"]


def test_redrive_of_a_time(app: AppUnderTest) -> None:
    """--failed-after takes ISO 8601, in UTC unless it says otherwise."""
    start = ("redrive", "start", "--kind", "broadcast", "--failed-after")

    assert run_json(app, *start, "2020-01-31T12:00:00")["failed_after"] == "2020-01-31T12:00:00+00:00"
    assert run_json(app, *start, "2020-01-31T14:00:00+02:00")["failed_after"] == "2020-01-31T12:00:00+00:00"
    assert len(run_json(app, "redrive", "list")) == 1
    assert "ISO 8601" in run(app, *start, "yesterday", code=2)


def test_wrong_redrives(app: AppUnderTest) -> None:
    """An unknown task is one line and exit code 1; a wrong or missing option is wrong usage."""
    for command in ("show", "cancel"):
        assert "There is no redrive x." in run(app, "redrive", command, "x", code=1)
    for options in ((), ("--kind", "reminder"), ("--kind", "effect", "--limit", "0")):
        run(app, "redrive", "start", *options, code=2)
    run(app, "redrive", "start", "--kind", "effect", "--dry-run", "--wait", code=2)
    for option in ("--operation", "--error"):
        assert "--kind message" in run(app, "redrive", "start", "--kind", "effect", option, "x", code=2)


def test_redrive_of_messages(app: AppUnderTest) -> None:
    """Dead messages are redriven by operation and error class, and the task says so."""
    kill_messages(app, "a", "b")
    start = ("redrive", "start", "--kind", "message", "--operation", "refuse", "--error", "RuntimeError")
    task = run_json(app, *start)

    assert (task["kind"], task["operation"], task["exception_class"]) == ("message", "refuse", "RuntimeError")
    assert (task["remaining"], run_json(app, *start)) == (2, task)
    listed = run(app, "redrive", "list")
    assert ("refuse" in listed, "RuntimeError" in listed) == (True, True)
    with _Running(app):
        assert "is completed: 2 revived, 0 remaining." in run(app, *start, "--wait")
    assert [bool(letter["retried_message_id"]) for letter in run_json(app, "dead-letters", "list")] == [True, True]


def test_dry_run(app: AppUnderTest) -> None:
    """--dry-run counts what would be revived, says which filters it used, and starts and records nothing."""
    kill_messages(app, "a", "b")
    dry = ("redrive", "start", "--dry-run", "--kind")

    assert "2 would be revived now; nothing was started." in run(app, *dry, "message")
    assert "1 would be revived now" in run(app, *dry, "message", "--limit", "1")
    found = run_json(app, *dry, "message", "--operation", "pay", "--type", "Till")
    assert (found["count"], found["is_capped"], found["operation"], found["actor_type"]) == (0, False, "pay", "Till")
    assert run_json(app, *dry, "effect")["count"] == 0
    assert (run_json(app, "redrive", "list"), acts(app)) == ([], [])


class _Running:
    """A runner of redrives beside a command that waits."""

    def __init__(self, app: AppUnderTest) -> None:
        runtime = app.solid.runtime
        self._runner, self._over = Redriving(runtime.core, runtime.wake_ups), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.is_set():
            self._runner.step()
            self._over.wait(0.01)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_waiting_for_a_redrive(app: AppUnderTest) -> None:
    """--wait returns when the task has ended, with what it did."""
    kill_effects(app, "a", "b")
    with _Running(app):
        text = run(app, "redrive", "start", "--kind", "effect", "--wait")

    assert "is completed: 2 revived, 0 remaining." in text
    wait_until(lambda: run_json(app, "redrive", "list", "--status", "running") == [], "nothing runs")


def test_bar_on_a_terminal(app: AppUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a bar shows how far the task is; programs get none."""
    kill_effects(app, "a", "b")
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
    monkeypatch.setattr("flask_solid_objects.cli.redrives.is_terminal", lambda: True)
    start = ("redrive", "start", "--kind", "effect", "--limit", "1", "--wait")
    with _Running(app):
        assert run_json(app, *start)["moved"] == 1
        assert bars == []
        run(app, *start)

    assert bars == [(1, 1)]


# -- reminders ---------------------------------------------------------------------------------


def test_reminder_commands(app: AppUnderTest) -> None:
    """list, pause, resume, run and cancel say what they did."""
    assert "There are no reminders." in run(app, "reminders", "list")
    till(app).arm(every=60.0)
    (found,) = run_json(app, "reminders", "list", "--type", "Till", "--status", "scheduled")
    reminder_id = str(found["id"])

    assert (found["operation"], found["every"], found["cron"], found["arguments"]) == ("add", 60.0, None, {})
    assert found["actor"] == {"actor_type": "Till", "actor_id": "a"}
    assert "scheduled" in run(app, "reminders", "list")
    assert run_json(app, "reminders", "list", "--after", reminder_id) == []
    assert "Paused." in run(app, "reminders", "pause", reminder_id)
    assert run_json(app, "reminders", "pause", reminder_id) == {"changed": False}
    assert run_json(app, "reminders", "resume", reminder_id) == {"changed": True}
    assert "neither paused nor dead" in run(app, "reminders", "resume", reminder_id)
    assert run_json(app, "reminders", "run", reminder_id)["message_id"] > 0
    assert "Cancelled." in run(app, "reminders", "cancel", reminder_id)
    assert "There is no reminder" in run(app, "reminders", "cancel", reminder_id, code=1)
    run(app, "reminders", "pause", "x", code=2)


def test_completed_reminder(app: AppUnderTest) -> None:
    """A one-shot that was run is completed, and says so when it is resumed."""
    till(app).arm()
    reminder_id = str(run_json(app, "reminders", "list")[0]["id"])
    run(app, "reminders", "run", reminder_id)

    assert run_json(app, "reminders", "list")[0]["status"] == "completed"
    assert "rung for the last time" in run(app, "reminders", "resume", reminder_id, code=1)


# -- policies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (("dead-letters", "list", "--kind", "effect"), ("inspect", "effect_dead_letters", None)),
        (("dead-letters", "list", "--kind", "broadcast"), ("inspect", "broadcast_dead_letters", None)),
        (("dead-letters", "retry", "x", "--kind", "broadcast"), ("retry", "broadcast_dead_letters", "x")),
        (("effects", "list"), ("inspect", "effects", None)),
        (("effects", "retry", "x"), ("retry", "effect_dead_letters", "x")),
        (("redrive", "start", "--kind", "effect"), ("redrive", "effect_dead_letters", None)),
        (("redrive", "start", "--kind", "message"), ("redrive", "dead_letters", None)),
        (("redrive", "start", "--kind", "message", "--dry-run"), ("preview", "dead_letters", None)),
        (("redrive", "list"), ("inspect", "redrives", None)),
        (("redrive", "cancel", "x"), ("cancel", "redrives", "x")),
        (("reminders", "list"), ("inspect", "reminders", None)),
        (("reminders", "run", "7"), ("run", "reminders", "7")),
    ],
)
def test_policy_is_asked(
    app: AppUnderTest, arguments: tuple[str, ...], asked: tuple[str, str | None, str | None]
) -> None:
    """Each command asks the administration policy first; denied is one line and exit code 1."""
    seen: list[tuple[str, str | None, str | None]] = []

    @app.solid.authorize_administration
    def deny(access: Access) -> bool:
        seen.append((access.action, access.resource, access.resource_id))
        return False

    assert f"Not allowed to {asked[0]} {asked[1]}" in run(app, *arguments, code=1)
    assert (seen, acts(app)) == ([asked], [])


def test_extension_reaches_the_same(app: AppUnderTest) -> None:
    """``solid.dead_letters``, ``solid.redrives`` and ``solid.reminders`` are the operators of the current app."""
    (effect_id,) = kill_effects(app, "a")
    till(app).arm()

    assert [row.effect_id for row in app.solid.dead_letters.effects.dead()] == [effect_id]
    assert app.solid.redrives.start("effect").remaining == 1
    assert [row.reminder.operation for row in app.solid.reminders.list()] == ["add"]
