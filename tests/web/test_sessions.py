"""The app's own session: calls that would deadlock are refused, sends commit and roll back with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import URL, event, text
from sqlalchemy.exc import PendingRollbackError
from sqlalchemy.orm import Session

from flask_solid_objects.errors import CallInsideTransaction, IdempotencyConflict
from flask_solid_objects.values import MessageStatus
from tests.apps import AppUnderTest


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    with AppUnderTest(database_url).ready(made=True) as ready:
        yield ready


def pend(app: AppUnderTest) -> None:
    app.db.session.add(app.Note(body="x"))


def flush(app: AppUnderTest) -> None:
    pend(app)
    app.db.session.flush()


def core(app: AppUnderTest) -> None:
    app.db.session.execute(app.Note.__table__.insert().values(body="x"))


def raw_text(app: AppUnderTest) -> None:
    app.db.session.execute(app.db.text("INSERT INTO note (body) VALUES ('x')"))


def lock(app: AppUnderTest) -> None:
    """SQLite has no row locks, and is not sent any; its one lock is that of a writer."""
    if app.db.engine.dialect.name == "sqlite":
        core(app)
    app.db.session.execute(app.db.select(app.Note).with_for_update())


def modify(app: AppUnderTest) -> None:
    app.db.session.add(app.Note(body="x"))
    app.db.session.commit()
    app.db.session.query(app.Note).first().body = "y"


def sent(app: AppUnderTest) -> None:
    app.Counter.ref("b").increment.using(session=app.db.session).send()


@pytest.mark.parametrize("work", [pend, flush, core, raw_text, lock, modify, sent])
def test_call_beside_uncommitted_work_is_refused(app: AppUnderTest, work: Any) -> None:
    """A call, a send without session= and a destroy are refused while the session holds uncommitted work."""
    work(app)
    counter = app.Counter.ref("a")
    for act in (counter.increment, counter.increment.send, counter.destroy, lambda: counter.value):
        with pytest.raises(CallInsideTransaction):
            act()
    app.db.session.rollback()

    assert counter.increment() == 1


def test_reading_session_is_fine(app: AppUnderTest) -> None:
    """A session that is open and has only read does not stand in the way, nor does an unchanged object."""
    note = app.Note(body="x")
    app.db.session.add(note)
    app.db.session.commit()
    note.body = note.body

    assert app.db.session.query(app.Note).count() == 1
    assert app.Counter.ref("a").increment() == 1


def test_send_commits_with_the_session(app: AppUnderTest) -> None:
    """A send with session= is unsent until the commit, and then stored with it."""
    counter = app.Counter.ref("a")
    app.db.session.add(app.Note(body="x"))
    message = counter.increment.using(session=app.db.session).send(amount=2)

    assert (message.id, message.sequence, message.status()) == (None, None, MessageStatus.UNSENT)
    app.db.session.commit()
    assert (message.sequence, message.status()) == (1, MessageStatus.READY)
    assert message.wait() == 2
    assert app.db.session.query(app.Note).count() == 1


def test_send_rolls_back_with_the_session(app: AppUnderTest) -> None:
    """A rolled-back session leaves no message, and a later commit of it does not bring one."""
    message = app.Counter.ref("a").increment.using(session=app.db.session).send()
    app.db.session.rollback()
    app.db.session.add(app.Note(body="x"))
    app.db.session.commit()

    assert message.status() is MessageStatus.UNSENT
    assert app.solid.runtime.operators.actors() == []


def test_rolled_back_savepoint_drops_its_sends(app: AppUnderTest) -> None:
    """Only what was sent outside the rolled-back savepoint, or in a released one, is stored."""
    counter, session = app.Counter.ref("a"), app.db.session
    first = counter.increment.using(session=session).send(amount=1)
    savepoint = session.begin_nested()
    dropped = counter.increment.using(session=session).send(amount=10)
    savepoint.rollback()
    with session.begin_nested():
        kept = counter.increment.using(session=session).send(amount=100)
    session.commit()

    assert (first.sequence, dropped.sequence, kept.sequence) == (1, None, 2)
    assert kept.wait() == 101


def test_sends_of_one_session_keep_their_order(app: AppUnderTest) -> None:
    """Several sends to one actor are numbered as they were sent; others are stored too."""
    session = app.db.session
    app.Counter.ref("b").increment()
    messages = [
        app.Counter.ref(name).increment.using(session=session).send() for name in ("a", "b", "a", "c", "b", "a")
    ]
    session.commit()

    assert [message.sequence for message in messages] == [1, 2, 2, 1, 3, 3]
    assert [message.wait() for message in messages[-2:]] == [3, 3]


def test_conflict_is_raised_by_the_commit(app: AppUnderTest) -> None:
    """A key that conflicts fails the user's commit, and nothing of it is stored."""
    counter, session = app.Counter.ref("a"), app.db.session
    counter.increment.using(idempotency_key="k").send(amount=1)
    session.add(app.Note(body="x"))
    counter.increment.using(idempotency_key="k", session=session).send(amount=2)
    with pytest.raises(IdempotencyConflict):
        session.commit()
    session.rollback()

    assert session.query(app.Note).count() == 0


def test_send_in_a_plain_connection(app: AppUnderTest) -> None:
    """session= takes a Connection too: its commit stores, its rollback does not."""
    counter = app.Counter.ref("a")
    with app.db.engine.connect() as connection:
        lost = counter.increment.using(session=connection).send(amount=1)
        connection.rollback()
        stored = counter.increment.using(session=connection).send(amount=10)
        with connection.begin_nested() as savepoint:
            dropped = counter.increment.using(session=connection).send(amount=100)
            savepoint.rollback()
        connection.commit()

    assert (lost.sequence, stored.sequence, dropped.sequence) == (None, 1, None)
    assert stored.wait() == 10


def test_nothing_is_signalled_before_the_commit(app: AppUnderTest) -> None:
    """A watch is woken by the commit, not by the send."""
    with app.solid.runtime.wake_ups.watch_work() as watch:
        app.Counter.ref("a").increment.using(session=app.db.session).send()

        assert watch.wait(0) is False
        app.db.session.commit()
        assert watch.wait(5) is True


def test_other_things_are_no_session(app: AppUnderTest) -> None:
    """Something that is no session is refused with what would be."""
    with pytest.raises(TypeError, match="scoped_session or Connection"):
        app.Counter.ref("a").increment.using(session=object()).send()


def test_a_refused_commit_cannot_be_tried_without_its_sends(app: AppUnderTest) -> None:
    """After a commit that a send made fail, another commit fails too; only a rollback goes on."""
    counter, session = app.Counter.ref("a"), app.db.session
    counter.increment.using(idempotency_key="k").send(amount=1)
    session.add(app.Note(body="x"))
    counter.increment.using(idempotency_key="k", session=session).send(amount=2)
    with pytest.raises(IdempotencyConflict):
        session.commit()
    with pytest.raises(PendingRollbackError):
        session.commit()
    session.rollback()
    session.commit()

    assert session.query(app.Note).count() == 0


@pytest.mark.parametrize("end", ["close", "invalidate", "reset"])
def test_session_that_ends_without_commit_drops_its_sends(app: AppUnderTest, end: str) -> None:
    """A session that was closed and is used again does not commit what was sent before."""
    session = app.db.session()
    message = app.Counter.ref("a").increment.using(session=session).send()
    getattr(session, end)()
    session.execute(text("SELECT 1"))
    session.commit()

    assert message.id is None
    assert app.Counter.ref("a").increment() == 1


def test_lost_connection_can_be_rolled_back(app: AppUnderTest) -> None:
    """A connection that broke under a send leaves a session that rolls back and works again."""
    session = app.db.session()
    message = app.Counter.ref("a").increment.using(session=session).send()
    session.connection().invalidate()
    with pytest.raises(PendingRollbackError):
        session.execute(text("SELECT 1"))
    session.rollback()
    session.execute(text("SELECT 1"))
    session.commit()

    assert message.id is None
    assert app.Counter.ref("a").increment() == 1


def test_session_of_the_apps_own_making(app: AppUnderTest) -> None:
    """A Session on another engine of the same database sends on its own connection, so that both commit as one."""
    counter, used = app.Counter.ref("a"), []
    own = sqlalchemy.create_engine(app.db.engine.url)
    event.listen(app.db.engine, "checkout", lambda *_: used.append(1))
    with Session(own) as session:
        session.execute(app.Note.__table__.insert().values(body="x"))
        message = counter.increment.using(session=session).send()
        session.commit()
    own.dispose()

    assert (message.sequence, used) == (1, [])


def test_send_from_a_flush_hook(app: AppUnderTest) -> None:
    """What the app sends while the commit flushes belongs to that commit."""
    session, sent = app.db.session(), []

    def send_once(_session: Session, _context: Any) -> None:
        if not sent:
            sent.append(app.Counter.ref("a").increment.using(session=session).send())

    event.listen(session, "after_flush", send_once)
    session.add(app.Note(body="x"))
    session.commit()

    assert [message.sequence for message in sent] == [1]


@pytest.mark.parametrize("mode", ["create_savepoint", "rollback_only", "conditional_savepoint"])
def test_session_that_joined_a_transaction(app: AppUnderTest, mode: Any) -> None:
    """Nobody is woken before the outer transaction commits, however the session within it was joined."""
    with app.db.engine.connect() as connection, app.solid.runtime.wake_ups.watch_work() as watch:
        outer = connection.begin()
        with Session(connection, join_transaction_mode=mode) as session:
            message = app.Counter.ref("a").increment.using(session=session).send()
            session.commit()

        assert watch.wait(0) is False
        outer.commit()

    assert message.wait() == 1


def test_outer_savepoint_takes_back_what_was_committed_in_it(app: AppUnderTest) -> None:
    """A session's commit within a savepoint that is rolled back drops its send, and none from before."""
    counter = app.Counter.ref("a")
    with app.db.engine.connect() as connection:
        kept = counter.increment.using(session=connection).send(amount=1)
        savepoint = connection.begin_nested()
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            dropped = counter.increment.using(session=session).send(amount=10)
            session.commit()
        savepoint.rollback()
        connection.commit()

    assert (kept.sequence, dropped.sequence) == (1, None)
    assert counter.value == 1


def test_work_on_another_database_does_not_count(database_url: URL, tmp_path: Path) -> None:
    """Uncommitted rows of another bind are no reason to refuse a call."""
    under_test = AppUnderTest(database_url, SQLALCHEMY_BINDS={"far": f"sqlite:///{tmp_path / 'far.sqlite3'}"})
    table = sqlalchemy.Table("far", under_test.db.metadatas["far"], sqlalchemy.Column("id", sqlalchemy.Integer))
    with under_test.ready(made=True) as app:
        table.create(app.db.engines["far"])
        app.db.session.execute(table.insert().values(id=1))

        assert app.Counter.ref("a").increment() == 1


def test_sessions_that_only_send_do_not_overwrite_each_other(app: AppUnderTest) -> None:
    """Sessions of several threads whose commits hold nothing but sends number them without gaps."""
    app.Counter.ref("a").increment.send()
    errors: list[BaseException] = []

    def send() -> None:
        try:
            with app.app.app_context():
                for _ in range(10):
                    app.Counter.ref("a").increment.using(session=app.db.session).send()
                    app.db.session.commit()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert app.solid.runtime.operators.actors()[0].next_sequence == 42
    assert app.Counter.ref("a").using(timeout=30).value == 41


def test_key_that_was_committed_after_the_session_began(app: AppUnderTest) -> None:
    """A key that another transaction stored meanwhile answers with its message, also under repeatable read."""
    counter, session = app.Counter.ref("a"), app.db.session
    counter.increment()
    assert session.query(app.Note).count() == 0
    assert session.execute(app.db.text("SELECT count(*) FROM solid_objects_messages")).scalar() == 1
    first = counter.increment.using(idempotency_key="k").send()
    again = counter.increment.using(idempotency_key="k", session=session).send()
    session.commit()

    assert again.id == first.id
