"""What a turn changes for those who watch becomes rows of the same commit: names, revisions, values if shared."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.errors import MessageFailed, QueryMutatedState, Rejected
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.boards import ALL
from tests.runtime.outboxes.looking import as_json


@pytest.fixture
def rt(make_runtime: MakeRuntime) -> RuntimeUnderTest:
    return make_runtime(own=ALL, max_attempts=1)


@pytest.fixture
def board(rt: RuntimeUnderTest) -> Any:
    return rt.ref("Board", "b")


def changes(engine: Engine) -> list[tuple[str, Any, int]]:
    """Name, value and revision of each row, in the order of the turns."""
    found = text("SELECT observable_name, value, revision FROM solid_objects_broadcasts ORDER BY revision, 1")
    with engine.connect() as connection:
        return [(name, as_json(value), revision) for name, value, revision in connection.execute(found)]


def test_changed_observables_become_rows(board: Any, engine: Engine) -> None:
    """Each observable that a turn changed is a row of its revision; only a shared one carries its value."""
    board.add()

    assert changes(engine) == [("parity", "odd", 1), ("total", {}, 1)]


def test_unchanged_ones_do_not(board: Any, engine: Engine) -> None:
    """An observable that has the same value after the turn is no row."""
    board.add(amount=2)
    board.add(amount=0)
    board.hide()

    assert changes(engine) == [("total", {}, 1)]


def test_queries_and_reads_tell_nothing(board: Any, engine: Engine) -> None:
    """A query and an ordered read make no row."""
    assert (board.peek(), board.total, board.parity) == (0, 0, "even")
    assert changes(engine) == []


@pytest.mark.parametrize(("verb", "error"), [("add_and_refuse", Rejected), ("add_and_fail", MessageFailed)])
def test_turns_that_do_not_commit_tell_nothing(board: Any, engine: Engine, verb: str, error: type[Exception]) -> None:
    """A rejected or failed turn makes no row, and the next turn compares with what is committed."""
    with pytest.raises(error):
        getattr(board, verb)()

    assert changes(engine) == []
    board.add(amount=2)
    assert [(name, value) for name, value, _ in changes(engine)] == [("total", {})]


def test_observables_are_compared_in_memory_too(rt: RuntimeUnderTest, board: Any, engine: Engine) -> None:
    """A worker that keeps the actor in memory tells of each turn's own changes."""
    for amount in (1, 2, 7, 1):
        board.add.send(amount=amount)
    rt.drain()

    assert [(name, revision) for name, _, revision in changes(engine)] == [
        ("parity", 1),
        ("total", 1),
        ("total", 2),
        ("parity", 3),
        ("tens", 3),
        ("total", 3),
        ("parity", 4),
        ("total", 4),
    ]


def test_revisions_of_the_instance(board: Any, engine: Engine) -> None:
    """The actor's row knows the revision at which each observable last changed, over many turns."""
    for amount in (1, 2, 10):
        board.add(amount=amount)
    board.hide()
    with engine.connect() as connection:
        stored = connection.execute(
            text("SELECT observable_revisions, state_revision FROM solid_objects_instances")
        ).one()

    assert (as_json(stored[0]), stored[1]) == ({"parity": 1, "total": 3, "tens": 3}, 4)


def test_payload_without_observables(rt: RuntimeUnderTest, engine: Engine) -> None:
    """An actor that has only a payload tells of each changed state once, and not of one that stays."""
    private = rt.ref("Private", "p")
    for amount in (1, 0, 2):
        private.add(amount=amount)

    assert changes(engine) == [("solid_objects.revision", {}, 1), ("solid_objects.revision", {}, 3)]


def test_observable_that_changes_state(rt: RuntimeUnderTest, engine: Engine) -> None:
    """An observable that changes the state is an error, and the turn commits nothing."""
    with pytest.raises(QueryMutatedState):
        rt.ref("Meddling", "m").add()

    assert changes(engine) == []
