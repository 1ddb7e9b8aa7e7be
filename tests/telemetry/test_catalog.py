"""Every announcement of the source is in the catalog, with its data; and everything in the catalog is announced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from blinker import Signal

import flask_solid_objects
from flask_solid_objects import signals
from flask_solid_objects.runtime.events import Events
from flask_solid_objects.telemetry.catalog import CATALOG, MESSAGE_DATA
from flask_solid_objects.telemetry.event import PORTABLE
from tests.telemetry.golden import ATTRIBUTES

SOURCE = Path(flask_solid_objects.__file__).parent
# What one argument stands for.
SUBJECTS = {
    "claim": {"actor", *MESSAGE_DATA},
    "message": set(MESSAGE_DATA),
    "lease": {"instance_id", "owner_id", "generation"},
}


class Announcement:
    """One call in the source: where it is, the names that it may have, and the data that it gives."""

    def __init__(self, path: Path, call: ast.Call) -> None:
        self.place = f"{path.relative_to(SOURCE)}:{call.lineno}"
        is_after = call.func.attr == "announce_after"  # type: ignore[attr-defined]
        subject = call.args[1 if is_after else 0]
        branches = [subject.body, subject.orelse] if isinstance(subject, ast.IfExp) else [subject]
        self.names = [each.value for each in branches if isinstance(each, ast.Constant)]
        self.is_literal = len(self.names) == len(branches) and len(call.args) == (2 if is_after else 1)
        self.is_literal = self.is_literal and all(each.arg is not None for each in call.keywords)
        self.error = next((ast.unparse(each.value) for each in call.keywords if each.arg == "error"), None)
        given = [str(each.arg) for each in call.keywords]
        self.data = {each for name in given for each in SUBJECTS.get(name, {name})}


def announcements() -> Iterator[Announcement]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "events.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("announce", "announce_after"):
                yield Announcement(path, node)


ALL = list(announcements())
# Announced by the module that announces.
OWN = {"message.enqueued": {"actor", *MESSAGE_DATA}, "instrumentation.failed": {"event", "outlet", "error"}}


def test_the_walk_finds_them() -> None:
    """The test looks at something."""
    assert len(ALL) > 60


def test_every_announcement_is_literal() -> None:
    """Names and data are written where they are announced, so that they can be checked."""
    assert [each.place for each in ALL if not each.is_literal] == []


def test_every_announcement_is_in_the_catalog() -> None:
    """A name, or a piece of data, that the catalog does not list is a mistake."""
    unknown = [(each.place, name) for each in ALL for name in each.names if name not in CATALOG]
    more = [
        (each.place, name, sorted(each.data - set(CATALOG[name].data)))
        for each in ALL
        for name in each.names
        if name in CATALOG and not each.data <= set(CATALOG[name].data)
    ]

    assert (unknown, more) == ([], [])


def test_errors_are_announced_by_their_class() -> None:
    """Wherever an error is told of, it is the name of its class; three places have it as text already."""
    told = [(each.place.partition(":")[0], each.error) for each in ALL if each.error is not None]
    others = {(place, error) for place, error in told if not re.fullmatch(r"type\(.+\)\.__name__", error)}

    assert len(told) > 30
    assert others == {
        ("runtime/broadcaster.py", "failure.name"),
        ("runtime/effect_worker.py", "name"),
        ("runtime/process.py", "error"),
    }


def test_everything_in_the_catalog_is_announced() -> None:
    """No event and no piece of data is promised that nothing announces."""
    announced: dict[str, set[str]] = {name: set(data) for name, data in OWN.items()}
    for each in ALL:
        for name in each.names:
            announced.setdefault(name, set()).update(each.data)

    assert announced == {name: set(entry.data) for name, entry in CATALOG.items()}


def test_nothing_announces_outside_the_runtime_of_an_app() -> None:
    """There is no function of a module that announces for everybody."""
    functions = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("announce")
        if node.func.id != "announce_rung"
    ]

    assert functions == []


def test_a_name_that_is_not_in_the_catalog_fails() -> None:
    """What the walk would miss fails where it is announced."""
    with pytest.raises(KeyError):
        Events(adapter="sqlite").announce("actor.vanished")


def test_there_is_a_signal_for_each_event() -> None:
    """Each event has the signal of its name, and nothing else is one but ``every``."""
    found = {name for name, value in vars(signals).items() if isinstance(value, Signal)}

    assert found == {name.replace(".", "_") for name in CATALOG} | {"every"}


def test_portable_attributes_are_those_of_the_golden_data() -> None:
    """Nothing leaves in an envelope under a name that others do not know."""
    assert {name for name, _ in PORTABLE.values()} <= set(ATTRIBUTES)
