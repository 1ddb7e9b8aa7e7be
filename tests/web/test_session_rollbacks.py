"""A send that was written with the app's commit, and taken back with it, is as unsent as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL, event
from sqlalchemy.exc import DBAPIError

from flask_solid_objects.errors import IdempotencyConflict
from flask_solid_objects.values import MessageStatus
from tests.apps import AppUnderTest


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    with AppUnderTest(database_url).ready(made=True) as ready:
        yield ready


def numbers(message: Any) -> tuple[object, ...]:
    return message.id, message.sequence, message.instance_id, message.status()


UNSENT = (None, None, None, MessageStatus.UNSENT)


@pytest.mark.parametrize("how", ["session", "connection"])
def test_commit_that_the_database_refuses(app: AppUnderTest, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The error of a COMMIT is the app's to handle; what it had sent has no number any more, and may be sent again."""
    engine = app.db.engine
    session: Any = app.db.session() if how == "session" else engine.connect()
    counter = app.Counter.ref("a")
    message = counter.increment.using(session=session).send()

    def refuse(connection: Any) -> None:
        connection.rollback()
        raise engine.dialect.loaded_dbapi.OperationalError("refused")

    with monkeypatch.context() as patched:
        patched.setattr(engine.dialect, "do_commit", refuse)
        with pytest.raises(DBAPIError, match="refused"):
            session.commit()
    session.rollback()

    assert numbers(message) == UNSENT
    message = counter.increment.using(session=session).send()
    session.commit()
    session.close()
    assert (message.sequence, message.wait()) == (1, 1)


def test_send_that_another_one_takes_along(app: AppUnderTest) -> None:
    """Of two sends with one commit, the first is unsent again when the second is refused."""
    counter, session = app.Counter.ref("a"), app.db.session
    counter.increment.using(idempotency_key="k").send(amount=1)
    sent = [counter.increment.using(session=session).send()]
    sent.append(counter.increment.using(idempotency_key="k", session=session).send(amount=2))
    with pytest.raises(IdempotencyConflict):
        session.commit()
    session.rollback()

    assert [numbers(message) for message in sent] == [UNSENT] * 2


def test_hook_that_refuses_after_the_sends_were_written(app: AppUnderTest) -> None:
    """A hook of the app that raises in the commit, after the sends were written, takes them back."""
    session = app.db.session()
    message = app.Counter.ref("a").increment.using(session=session).send()
    seen: list[object] = []

    def refuse(_session: Any) -> None:
        seen.append(message.id)
        raise LookupError("refused")

    event.listen(session, "before_commit", refuse)
    with pytest.raises(LookupError):
        session.commit()
    session.rollback()

    assert seen != [None]
    assert numbers(message) == UNSENT
