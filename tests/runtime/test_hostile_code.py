"""Actor code and settings that misbehave: the message ends somewhere, the role lives, the actor goes on."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.errors import ActorCallCycle, MessageFailed
from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime


class Interruption(BaseException):
    """Like the timeout of a green thread."""


class Rude(Actor):
    ran: int = 0

    @operation
    def leave(self) -> None:
        raise SystemExit(3)

    @operation
    def interrupt(self) -> None:
        raise Interruption

    @operation
    def unprintable(self) -> None:
        class Broken(Exception):
            def __str__(self) -> str:
                raise ValueError

        raise Broken

    @operation
    def odd_text(self) -> None:
        raise RuntimeError("nul \0, lone \ud800, long " + "é" * 10_000)

    @operation
    def fine(self) -> int:
        self.ran += 1
        return self.ran


@pytest.fixture
def rude(make_runtime: MakeRuntime) -> tuple[RuntimeUnderTest, Any]:
    cls = type("Rude", (Rude,), {"__module__": __name__})
    return make_runtime(actors=(cls,), max_attempts=2), cls.ref("a")  # type: ignore[attr-defined]


@pytest.mark.parametrize("verb", ["leave", "unprintable", "odd_text"])
def test_rude_errors_are_recorded(rude: tuple[RuntimeUnderTest, Any], verb: str) -> None:
    """SystemExit, and errors whose text cannot be made or stored, are failures like others."""
    rt, actor = rude
    message = getattr(actor, verb).send()
    actor.fine.send()
    rt.drain()
    with pytest.raises(MessageFailed):
        message.result()

    assert len(message.outcome().error["message"].encode()) <= 8192
    assert actor.fine() == 2


def test_interrupted_caller_hands_its_message_back(rude: tuple[RuntimeUnderTest, Any]) -> None:
    """An interruption of the caller's thread goes through, and its message goes back uncounted."""
    rt, actor = rude
    actor.fine()
    with pytest.raises(Interruption):
        actor.interrupt.using(idempotency_key="i")()
    outcome = actor.find_message(idempotency_key="i").outcome()

    assert (outcome.status, outcome.attempts) == (MessageStatus.READY, 0)
    rt.drain()
    assert actor.fine() == 2


@pytest.mark.parametrize(
    "pause", [lambda attempt: 1 / 0, lambda attempt: float("nan"), lambda attempt: -5, lambda a: "x"]
)
def test_senseless_retry_delay_is_replaced(make_runtime: MakeRuntime, pause: Any) -> None:
    """A retry function that raises or makes no sense gives way to the default, and the failure is recorded."""
    rt = make_runtime(retry_delay=pause)
    message = rt.journal("a").fail.send(entry="x")

    assert rt.runtime.worker().run_once() is True
    assert (message.status(), message.outcome().attempts) == (MessageStatus.READY, 1)
    assert message.outcome().error is not None


def test_waiting_inside_a_turn_is_refused(make_runtime: MakeRuntime) -> None:
    """A handler cannot wait for a message that somebody handed to it."""
    kept: list[Any] = []

    class Waiting(Actor):
        @operation
        def wait(self) -> str:
            try:
                kept[0].wait()
            except ActorCallCycle:
                return "refused"
            return "waited"

    rt = make_runtime(actors=(Waiting,))
    kept.append(rt.journal("a").add.send(entry="x"))

    assert Waiting.ref("w").wait() == "refused"
    rt.drain()


def test_servers_default_isolation_does_not_matter(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A server whose transactions are serializable by default changes nothing for ours."""
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            name = connection.execute(text("SELECT current_database()")).scalar_one()
            connection.execute(text(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'serializable'"))
    rt = make_runtime()
    seen = []
    try:
        rt.journal("a").add(entry="x")
        if engine.dialect.name == "postgresql":
            with rt.database.engine.connect() as connection:
                seen = [connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()]
    finally:
        if engine.dialect.name == "postgresql":
            with engine.begin() as connection:
                connection.execute(text(f'ALTER DATABASE "{name}" RESET default_transaction_isolation'))

    assert seen in ([], ["read committed"])
    assert rt.journal("a").entries == ["x"]
