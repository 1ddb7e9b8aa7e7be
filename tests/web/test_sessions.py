"""The app's own session: calls that would deadlock are refused, sends commit and roll back with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL

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
