"""An actor whose row somebody holds for long, such as a slow commit action, keeps nobody else's outbox waiting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text

from flask_solid_objects.errors import DatabaseDeadlineExceeded
from flask_solid_objects.runtime.passing import attempt_each
from flask_solid_objects.values import ActorKey
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.runtime.outboxes.actors import Roles
from tests.runtime.outboxes.looking import heard


@contextmanager
def locked(rt: RuntimeUnderTest, engine: Engine, actor_type: str, actor_id: str) -> Iterator[None]:
    """Somebody's open transaction on the row of an actor."""
    found = rt.database.read(lambda tx: rt.store.instances.find(tx, ActorKey(actor_type=actor_type, actor_id=actor_id)))
    assert found is not None
    with engine.connect() as connection:
        lock = text("SELECT id FROM solid_objects_instances WHERE id = :id FOR UPDATE")
        connection.execute(lock, {"id": found.id}).one()
        yield
        connection.rollback()


@requires.concurrent_writers
def test_reminders_of_others_ring(rt: RuntimeUnderTest, roles: Roles, engine: Engine) -> None:
    """Of reminders that are due, only that of the locked actor is left to the next pass."""
    for actor_id in ("a", "b", "c"):
        rt.ref("Alarm", actor_id).arm_many(count=2)
    with locked(rt, engine, "Alarm", "b"):
        assert roles.scheduler.ring_due() == 4

    assert roles.scheduler.ring_due() == 2


@requires.concurrent_writers
def test_messages_to_others_are_delivered(rt: RuntimeUnderTest, roles: Roles, engine: Engine) -> None:
    """Of messages that are due, only those to the locked actor are left to the next pass."""
    rt.ref("Receiver", "b").hear(entry="first")
    rt.ref("Sender", "s").tell(receivers=["a", "b", "c"], entry="x")
    rt.ref("Sender", "t").tell(receivers=["b"], entry="y")
    with locked(rt, engine, "Receiver", "b"):
        roles.scheduler._delivering.run_once()
        rt.drain()
        assert (heard(rt, "a"), heard(rt, "b"), heard(rt, "c")) == (["x0"], ["first"], ["x0"])

    roles.settle()
    assert sorted(heard(rt, "b")) == ["first", "x0", "y0"]


def test_database_that_gives_no_lock_ends_the_pass() -> None:
    """Where nothing can be done at all, the pass ends soon; where something was done, it goes on to its end."""
    tried: list[int] = []

    def attempt(item: int) -> int:
        tried.append(item)
        if item != good:
            raise DatabaseDeadlineExceeded("locked")
        return 1

    good = 100
    with pytest.raises(DatabaseDeadlineExceeded):
        attempt_each(range(9), attempt, subject=lambda item: item // 2, is_stopping=lambda: False)
    assert tried == [0, 2, 4]

    good, tried[:] = 2, []
    assert attempt_each(range(9), attempt, subject=lambda item: item, is_stopping=lambda: False) == 1
    assert tried == list(range(9))
