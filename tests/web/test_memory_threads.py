"""Threads that share an in-memory database, which lives in one connection, leave each other's work alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import URL

from flask_solid_objects.seams import Seams
from tests.apps import AppUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.outboxes.looking import Beside


@pytest.fixture
def checkpoints() -> Iterator[HeldCheckpoints]:
    made = HeldCheckpoints()
    yield made
    made.release_all()


@pytest.fixture
def app(checkpoints: HeldCheckpoints) -> Iterator[AppUnderTest]:
    url = URL.create("sqlite", database=":memory:")
    with AppUnderTest(url, seams=Seams(checkpoints=checkpoints)).ready() as ready:
        yield ready


@pytest.mark.parametrize("writes", [False, True])
def test_session_of_another_thread_waits_for_a_unit(
    app: AppUnderTest, checkpoints: HeldCheckpoints, writes: bool
) -> None:
    """A session that begins and ends while a message is being stored neither rolls it back nor becomes part of it."""
    finished = threading.Event()

    def send() -> None:
        with app.app.app_context():
            app.Counter.ref("a").increment.send()

    def use_session() -> None:
        with app.app.app_context():
            if writes:
                app.db.session.add(app.Note(body="x"))
                app.db.session.flush()
                app.db.session.rollback()
            else:
                app.db.session.query(app.Note).count()
        finished.set()

    with checkpoints.hold("send.committing") as hold:
        sending = Beside(send)
        hold.wait_reached()
        using = Beside(use_session)
        assert not finished.wait(0.5)
        hold.release()
        sending.join()
        using.join()

    assert app.Counter.ref("a").value == 1
    assert app.db.session.query(app.Note).count() == 0


def test_callers_beside_readers_lose_nothing(app: AppUnderTest) -> None:
    """Every call of several threads counts, whatever sessions begin and end meanwhile."""

    def call() -> None:
        with app.app.app_context():
            for _ in range(20):
                app.Counter.ref("a").increment()

    def read() -> None:
        for _ in range(100):
            with app.app.app_context():
                app.db.session.query(app.Note).count()

    threads = [Beside(each) for each in (call, read, call, read)]
    for thread in threads:
        thread.join()

    assert app.Counter.ref("a").value == 40
