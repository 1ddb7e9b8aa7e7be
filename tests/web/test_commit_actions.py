"""Commit actions: rows of the application that commit with the turn, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import URL

from flask_solid_objects import CommitContext
from flask_solid_objects.errors import MessageFailed, Rejected
from flask_solid_objects.seams import Seams
from flask_solid_objects.values import MessageStatus
from tests.checkpoints import HeldCheckpoints
from tests.web.ordering import OrderingApp


@pytest.fixture
def app(database_url: URL, seams: Seams) -> Iterator[OrderingApp]:
    with OrderingApp(database_url, seams=seams, SOLID_OBJECTS_MAX_ATTEMPTS=2).ready(made=True) as ready:
        assert isinstance(ready, OrderingApp)
        yield ready


@pytest.fixture
def in_memory(seams: Seams) -> Iterator[OrderingApp]:
    with OrderingApp(URL.create("sqlite", database=":memory:"), seams=seams).ready() as ready:
        assert isinstance(ready, OrderingApp)
        yield ready


# -- together ----------------------------------------------------------------------------------


def test_rows_and_turn_commit_together(app: OrderingApp) -> None:
    """The rows of an action are there with the turn that staged it."""
    assert app.Orders.ref("a").place(bodies=["x"]) == 1
    assert (app.bodies, app.taken()) == (["x"], ["x"])


def test_nothing_is_there_before_the_commit(app: OrderingApp, checkpoints: HeldCheckpoints) -> None:
    """Until the turn commits nobody sees its rows or its state."""
    message = app.Orders.ref("a").place.send(bodies=["x"])
    worker = app.solid.runtime.worker()
    with checkpoints.hold("commit.committing") as hold, ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker.run_once)
        hold.wait_reached()

        assert (app.bodies, app.taken()) == ([], [])
        hold.release()
        assert running.result(20) is True
    assert (message.result(), app.bodies, app.taken()) == (1, ["x"], ["x"])


def test_order_of_staging(app: OrderingApp) -> None:
    """Actions run in the order in which they were staged."""
    app.Orders.ref("a").place(bodies=["c", "a", "b"])

    assert app.bodies == ["c", "a", "b"]


def test_several_actors(app: OrderingApp) -> None:
    """Actions of several actors at once commit each with its own turn."""

    def place(number: int) -> None:
        with app.app.app_context():
            app.Orders.ref(str(number)).place(bodies=[str(number), f"{number}."])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(place, range(8)))

    assert sorted(app.bodies) == sorted(f"{number}{dot}" for number in range(8) for dot in ("", "."))
    assert [app.taken(str(number)) for number in range(8)] == [[str(number), f"{number}."] for number in range(8)]


# -- errors ------------------------------------------------------------------------------------


def test_error_rolls_both_back(app: OrderingApp) -> None:
    """What an action raises takes back its rows, those of earlier actions, and the turn."""
    with pytest.raises(MessageFailed) as raised:
        app.Orders.ref("a").place(bodies=["x"], how="raise")

    assert raised.value.details["class"] == "RuntimeError"
    assert (app.bodies, app.taken()) == ([], [])


def test_error_is_retried(app: OrderingApp) -> None:
    """A turn whose action raised is tried again, and dies after its attempts."""
    message = app.Orders.ref("a").place.send(bodies=["x"], how="raise")
    worker = app.solid.runtime.worker()
    while worker.run_once():
        pass

    assert (message.status(), message.outcome().attempts) == (MessageStatus.DEAD, 2)
    assert app.ran == ["x", "x"]


def test_error_then_success(app: OrderingApp) -> None:
    """A turn whose action raised once writes its rows once."""
    add, failing = app.hows["add"], app.hows["raise"]
    app.hows["flaky"] = lambda app, context, body: (failing if len(app.ran) == 1 else add)(app, context, body)

    assert app.Orders.ref("a").place(bodies=["x"], how="flaky") == 1
    assert (app.bodies, app.taken()) == (["x"], ["x"])


def test_rejection_is_one_for_the_caller(app: OrderingApp) -> None:
    """Rejected from an action is the turn's rejection, with its code and details, and nothing is written."""
    with pytest.raises(Rejected) as raised:
        app.Orders.ref("a").place(bodies=["x"], how="reject")

    assert (raised.value.code, raised.value.details) == ("full", {"body": "x"})
    assert (app.bodies, app.taken(), app.ran) == ([], [], ["x"])


def test_next_message_after_a_failed_action(app: OrderingApp) -> None:
    """The turn after one whose action raised begins with the committed state."""
    app.Orders.ref("a").place(bodies=["x"])
    messages = [app.Orders.ref("a").place.send(bodies=[how], how=how) for how in ("raise", "reject", "add")]
    worker = app.solid.runtime.worker()
    while worker.run_once():
        pass

    assert messages[2].result() == 2
    assert (app.bodies, app.taken()) == (["x", "add"], ["x", "add"])


@pytest.mark.parametrize("how", ["duplicate_nested", "duplicate_rolled_back"])
def test_caught_integrity_error_leaves_the_rest(app: OrderingApp, how: str) -> None:
    """An IntegrityError that an action catches takes back that row only; the rest commits."""
    app.db.session.add(app.Note(id=1, body="there"))
    app.db.session.commit()
    app.hows["after"] = app.hows[how]
    app.Orders.ref("a").place(bodies=["x", "y"], how="after")

    assert app.bodies == ["there", "x instead", "y instead"]
    assert app.taken() == ["x", "y"]


def test_uncaught_integrity_error(app: OrderingApp) -> None:
    """An IntegrityError that nobody catches is a failure like any other, and not a conflict to be repeated."""
    app.db.session.add(app.Note(id=1, body="there"))
    app.db.session.commit()
    with pytest.raises(MessageFailed) as raised:
        app.Orders.ref("a").place(bodies=["x"], how="duplicate")

    assert raised.value.details["class"] == "IntegrityError"
    assert (app.bodies, app.taken(), app.ran) == (["there"], [], ["x", "x"])


@pytest.mark.parametrize("constraint", ["REFERENCES note (id)", "UNIQUE"])
def test_constraint_that_fails_at_the_commit(app: OrderingApp, constraint: str) -> None:
    """A deferred constraint that an action breaks fails the turn, whose commit is neither unknown nor repeated."""
    if constraint not in _DEFERRED.get(app.db.engine.dialect.name, ()):
        return  # it cannot be deferred here
    with app.db.engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE TABLE deferred (note_id INTEGER {constraint} DEFERRABLE INITIALLY DEFERRED)"
        )
    try:
        with pytest.raises(MessageFailed) as raised:
            app.Orders.ref("a").place(bodies=["x"], how="defer")
    finally:
        app.db.session.rollback()
        with app.db.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE deferred")

    assert raised.value.details["class"] == "IntegrityError"
    assert (app.bodies, app.taken(), app.ran) == ([], [], ["x", "x"])


_DEFERRED = {"postgresql": ("REFERENCES note (id)", "UNIQUE"), "sqlite": ("REFERENCES note (id)",)}


# -- whose transaction it is -------------------------------------------------------------------


def test_own_commit_does_not_end_the_transaction(app: OrderingApp) -> None:
    """What an action commits by itself is taken back with the turn."""
    with pytest.raises(MessageFailed):
        app.Orders.ref("a").place(bodies=["x"], how="commit_and_raise")

    assert (app.bodies, app.taken()) == ([], [])


def test_own_rollback_does_not_end_the_transaction(app: OrderingApp) -> None:
    """What an action rolls back is its own work, not that of earlier actions or of the turn."""
    app.Orders.ref("a").place(bodies=["x", "y", "z"], how="roll_back")

    assert (app.bodies, app.taken()) == (["x", "z"], ["x", "y", "z"])


@pytest.mark.parametrize(
    "how", ["end_connection", "end_and_ignore", "roll_back_connection", "end_by_text", "change_schema"]
)
def test_transaction_cannot_be_ended_otherwise(app: OrderingApp, how: str) -> None:
    """COMMIT on the connection, as text, or by DDL, cannot commit rows without their turn."""
    with pytest.raises(MessageFailed):
        app.Orders.ref("a").place(bodies=["x"], how=how)

    assert (app.bodies, app.taken()) == ([], [])
    assert app.Orders.ref("a").place(bodies=["y"]) == 1


def test_transaction_that_the_driver_was_asked_to_end(app: OrderingApp) -> None:
    """A COMMIT on the driver's own connection is not repeated; MySQL cannot tell it from a deadlock."""
    ran: list[str] = []

    def end(app: OrderingApp, context: CommitContext, body: str) -> None:
        ran.append(body)
        context.session.connection().connection.commit()

    app.hows["driver"] = end
    with pytest.raises(MessageFailed) as raised:
        app.Orders.ref("a").place(bodies=["x"], how="driver")

    is_known = app.db.engine.dialect.name != "mysql"
    assert (raised.value.details["class"] == "CommitActionUnavailable", len(ran) == 1) == (is_known, is_known)
    assert app.taken() == []


def test_reads_are_free(app: OrderingApp) -> None:
    """An action reads by the app's session what is committed, and by its own also what it has written."""
    app.Orders.ref("a").place(bodies=["x"], how="read")

    assert app.bodies == ["x", "saw 0 and 1"]


def test_writes_aside_are_refused(app: OrderingApp) -> None:
    """A write by db.session inside of an action is ApplicationWriteForbidden, at the first attempt."""
    with pytest.raises(MessageFailed) as raised:
        app.Orders.ref("a").place(bodies=["x"], how="write_aside")

    assert raised.value.details["class"] == "ApplicationWriteForbidden"
    assert (app.bodies, app.taken(), app.ran) == ([], [], ["x"])


def test_missing_table_names_the_remedy(app: OrderingApp) -> None:
    """A table that this database does not have is CommitActionUnavailable, at the first attempt."""
    with pytest.raises(MessageFailed) as raised:
        app.Orders.ref("a").place(bodies=["x"], how="missing")

    assert raised.value.details["class"] == "CommitActionUnavailable"
    assert "SOLID_OBJECTS_BIND_KEY" in raised.value.details["message"]
    assert app.ran == ["x"]


# -- again -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["conflict_once", "conflict_nested_once"])
def test_conflict_repeats_the_whole(app: OrderingApp, how: str) -> None:
    """A lost conflict inside of an action repeats all actions, within the same attempt."""
    message = app.Orders.ref("a").place.send(bodies=["x", "y"], how=how)
    app.solid.runtime.worker().run_once()

    assert (message.result(), message.outcome().attempts) == (2, 1)
    assert (app.bodies, app.ran) == (["x", "y"], ["x", "x", "y"])


def test_lost_connection_repeats_the_whole(app: OrderingApp, checkpoints: HeldCheckpoints) -> None:
    """A connection that breaks while actions run repeats all of them on another, within the same attempt."""
    checkpoints.fail("commit_action.ran", ConnectionResetError("gone"))
    message = app.Orders.ref("a").place.send(bodies=["x"])
    app.solid.runtime.worker().run_once()

    assert (message.result(), message.outcome().attempts) == (1, 1)
    assert (app.bodies, app.ran) == (["x"], ["x", "x"])


@pytest.mark.parametrize("when", ["committing", "acknowledging"])
def test_unknown_commit_applies_rows_once(app: OrderingApp, checkpoints: HeldCheckpoints, when: str) -> None:
    """When it is unknown whether a commit was done, its rows are there exactly once in the end."""
    app.Orders.ref("a").place(bodies=["before"])
    checkpoints.fail(f"commit.{when}", ConnectionResetError("gone"))

    assert app.Orders.ref("a").place(bodies=["x"]) == 2
    assert (app.bodies, app.taken()) == (["before", "x"], ["before", "x"])


def test_action_that_fails_in_the_resolution(app: OrderingApp, checkpoints: HeldCheckpoints) -> None:
    """An action that raises when it is repeated after an unknown commit ends the turn as failed, and retried."""
    add, failing = app.hows["add"], app.hows["raise"]
    app.hows["second_fails"] = lambda app, context, body: (failing if len(app.ran) == 2 else add)(app, context, body)
    checkpoints.fail("commit.committing", ConnectionResetError("gone"))

    assert app.Orders.ref("a").place(bodies=["x"], how="second_fails") == 1
    assert (app.bodies, app.taken()) == (["x"], ["x"])


# -- in memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["add", "read"])
def test_in_memory(in_memory: OrderingApp, how: str) -> None:
    """Callers of an in-memory database have actions that commit with the turn, and that may read."""
    assert in_memory.Orders.ref("a").place(bodies=["x"], how=how) == 1
    in_memory.db.session.remove()
    assert (in_memory.bodies[0], in_memory.taken()) == ("x", ["x"])


@pytest.mark.parametrize("how", ["raise", "commit_and_raise", "read_commit_and_raise", "write_aside"])
def test_in_memory_error(in_memory: OrderingApp, how: str) -> None:
    """An error in an action of an in-memory database takes back the rows and the turn."""
    with pytest.raises(MessageFailed):
        in_memory.Orders.ref("a").place(bodies=["x"], how=how)

    assert (in_memory.bodies, in_memory.taken()) == ([], [])


def test_in_memory_rollback(in_memory: OrderingApp) -> None:
    """An action of an in-memory database takes back only its own work."""
    in_memory.Orders.ref("a").place(bodies=["x", "y"], how="roll_back")

    assert (in_memory.bodies, in_memory.taken()) == (["x"], ["x", "y"])
