"""Real servers and real connections that end at COMMIT, before the server has seen it or before it has answered.

The runtime is reached through a proxy that can lose one answer; what the server itself ends is ended by its number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import URL, Engine, event, text

from flask_solid_objects.seams import Seams
from flask_solid_objects.values import MessageStatus
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.store.proxy import LosingProxy

pytestmark = requires.server

WHEN = pytest.mark.parametrize("when", ["before", "after"])
_KILL = {"postgresql": "SELECT pg_terminate_backend({}, 5000)", "mysql": "KILL {}"}


class Cut:
    """A runtime whose connections can be cut when a unit of its work is about to commit."""

    def __init__(self, url: URL, proxy: LosingProxy, checkpoints: HeldCheckpoints, engine: Engine) -> None:
        url = url.update_query_dict(proxy.connect_args)
        self.rt = RuntimeUnderTest(url, seams=Seams(checkpoints=checkpoints), max_attempts=2)
        self._proxy, self._checkpoints, self._engine = proxy, checkpoints, engine
        # The number that the server gave to the connection which a thread took out last.
        self._numbers: dict[str, int] = {}
        event.listen(self.rt.database.engine, "checkout", self._note)

    def at_commit(self, unit: str, when: str, act: Callable[[], Any]) -> Any:
        """Do something, cut its connection at the first commit of a unit, and return what came of it."""
        with ThreadPoolExecutor(1) as pool, self._checkpoints.hold(f"{unit}.committing") as hold:
            done = pool.submit(act)
            arrival = hold.wait_reached()
            if when == "after":
                self._proxy.lose_next_commit()
            else:
                with self._engine.connect() as connection:
                    kill = _KILL[self.rt.database.dialect.name].format(self._numbers[arrival.thread])
                    connection.execute(text(kill))
            hold.release()
            return done.result(20)

    def attempts(self) -> list[int]:
        """What is stored, in order; a message that was stored twice would be here twice."""
        query = text("SELECT attempt_count FROM solid_objects_messages WHERE operation = 'add' ORDER BY sequence")
        with self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def drain(self) -> None:
        """An unknown claim leaves its messages to the next pass."""
        self.rt.drain()
        self.rt.drain()

    def _note(self, connection: Any, _record: object, _proxy: object) -> None:
        number = connection.info.backend_pid if hasattr(connection, "info") else connection.thread_id()
        self._numbers[threading.current_thread().name] = number


@pytest.fixture
def cut(database_url: URL, checkpoints: HeldCheckpoints, engine: Engine) -> Iterator[Cut]:
    with LosingProxy(database_url) as proxy:
        cut = Cut(proxy.url, proxy, checkpoints, engine)
        yield cut
        cut.rt.close()


@WHEN
@pytest.mark.parametrize("unit", ["admit", "commit"])
def test_call(cut: Cut, unit: str, when: str) -> None:
    """A call returns its stored result, and its operation counts once, in one attempt."""
    journal = cut.rt.journal("a")
    journal.add(entry="before")

    assert cut.at_commit(unit, when, lambda: journal.add(entry="x")) == 2
    assert journal.entries == ["before", "x"]
    assert cut.attempts() == [1, 1]


@WHEN
def test_send(cut: Cut, when: str) -> None:
    """A send is stored once."""
    journal = cut.rt.journal("a")
    message = cut.at_commit("send", when, lambda: journal.add.send(entry="x"))

    assert message.sequence == 1
    assert journal.add.send(entry="y").sequence == 2
    cut.drain()
    assert journal.snapshot().entries == ["x", "y"]


@WHEN
@pytest.mark.parametrize("unit", ["claim", "commit"])
def test_worker(cut: Cut, unit: str, when: str) -> None:
    """A worker's claims and commits count once: three messages, three entries, one attempt for each."""
    journal = cut.rt.journal("a")
    messages = [journal.add.send(entry=entry) for entry in ("one", "two", "three")]
    cut.at_commit(unit, when, cut.drain)

    assert [message.result() for message in messages] == [1, 2, 3]
    assert [message.outcome().attempts for message in messages] == [1, 1, 1]
    assert journal.snapshot().entries == ["one", "two", "three"]


@WHEN
def test_failure(cut: Cut, when: str) -> None:
    """A failure is recorded once: a message of two attempts has two, and one dead letter."""
    message = cut.rt.journal("a").fail.send(entry="x")
    cut.at_commit("fail", when, cut.drain)

    assert message.status() is MessageStatus.DEAD
    assert message.outcome().attempts == 2
    assert len(cut.rt.runtime.operators.dead_letters()) == 1
