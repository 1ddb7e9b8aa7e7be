"""Messages from actor to actor: durable with the turn, delivered once, in order, and never in anybody's way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.errors import MessageFailed, Rejected
from flask_solid_objects.values import MessageRecord
from tests.actors import RuntimeUnderTest
from tests.counting import StatementCounter
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.looking import count, errors, heard, make_due, outbox

MakeRoles = Callable[[RuntimeUnderTest], Roles]
ALL = (Till, Sender, Receiver, Alarm)


def record(rt: RuntimeUnderTest, request_id: str) -> MessageRecord:
    """The stored message of a request id."""
    found = rt.database.read(lambda tx: rt.store.mailbox.find_by_request(tx, request_id))
    assert found is not None
    return found


def test_send_in_a_turn_is_unsent_and_found_later(rt: RuntimeUnderTest, roles: Roles) -> None:
    """A send inside a turn gives a message without a number, whose request id finds it when it is delivered."""
    status, number, request_id = rt.ref("Sender", "s").read_unsent(receiver="a")
    before = rt.runtime.messages.find(request_id=request_id)
    roles.settle()
    message = rt.runtime.messages.find(request_id=request_id)

    assert (status, number, before) == ("unsent", None, None)
    assert message is not None
    assert (message.actor_type, message.actor_id, message.status().value) == ("Receiver", "a", "completed")


def test_delivered_after_the_commit(rt: RuntimeUnderTest, roles: Roles, engine: Engine) -> None:
    """What a turn sent waits in the outbox with its commit, and is completed when it is delivered."""
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=2)

    assert outbox(engine) == [("pending", 0)] * 2
    roles.settle()
    assert outbox(engine) == [("completed", 1)] * 2
    assert heard(rt, "a") == ["x0", "x1"]


@pytest.mark.parametrize(("verb", "error"), [("tell_and_raise", Rejected), ("tell_and_fail", MessageFailed)])
def test_nothing_from_a_turn_that_does_not_commit(
    rt: RuntimeUnderTest, roles: Roles, engine: Engine, verb: str, error: type[Exception]
) -> None:
    """A rejected or failed turn sends nothing."""
    with pytest.raises(error):
        getattr(rt.ref("Sender", "s"), verb)(receiver="a")
    roles.settle()

    assert (outbox(engine), heard(rt, "a")) == ([], [])


def test_full_mailbox_postpones_its_pair_only(make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine) -> None:
    """A full mailbox holds back the messages to it; others are delivered, nothing dies, and the order is kept."""
    rt = make_runtime(own=ALL, max_mailbox_length=2, retry_delay=lambda attempt: 3600.0, max_attempts=2)
    roles = make_roles(rt)
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=5)
    rt.ref("Sender", "s").tell(receivers=["b"], entry="y", times=2)
    for _ in range(4):
        roles.scheduler.run_once()
        make_due(engine)

    assert outbox(engine) == [("completed", 1)] * 2 + [("pending", 0)] * 3 + [("completed", 1)] * 2
    assert errors(engine)[2] == "MailboxFull"
    for _ in range(3):
        roles.settle()
        make_due(engine)
    assert (heard(rt, "a"), heard(rt, "b")) == ([f"x{number}" for number in range(5)], ["y0", "y1"])
    assert {status for status, _ in outbox(engine)} == {"completed"}


def test_newer_message_of_a_held_pair_does_not_overtake(
    make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine
) -> None:
    """A message that is sent while its pair is held waits behind the head."""
    rt = make_runtime(own=ALL, max_mailbox_length=1, retry_delay=lambda attempt: 3600.0)
    roles = make_roles(rt)
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=2)
    roles.scheduler.run_once()
    rt.drain()
    rt.ref("Sender", "s").tell(receivers=["a"], entry="late")
    roles.settle()

    assert heard(rt, "a") == ["x0"]
    for _ in range(2):
        make_due(engine)
        roles.settle()
    assert heard(rt, "a") == ["x0", "x1", "late0"]


def _narrow() -> type[Actor]:
    """A receiver of a process that runs other code, which does not know ``hear``."""

    class Narrow(Actor):
        heard: list[str] = []

        @operation
        def explode(self) -> None:
            self.heard.append("exploded")

    Narrow.__name__ = "Receiver"
    return Narrow


def test_unknown_operation_dies_at_once(
    rt: RuntimeUnderTest, make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine
) -> None:
    """An operation that the registered type does not have is dead without a retry, and the next of its pair goes on."""
    other = make_runtime(own=(_narrow(),))
    rt.ref("Sender", "s").send_any(receiver="a", operation="hear", arguments={"entry": "x"})
    rt.ref("Sender", "s").send_any(receiver="a", operation="explode", arguments={})
    make_roles(other).settle()

    assert outbox(engine) == [("dead", 1), ("completed", 1)]
    assert errors(engine) == ["UnknownOperation", None]
    assert heard(other, "a") == ["exploded"]


def test_unknown_type_is_enqueued_unchecked(
    rt: RuntimeUnderTest, make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine
) -> None:
    """A process that does not know the receiver's type delivers to it all the same; one that does runs it."""
    other = make_runtime(own=(Sender,))
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x")
    make_roles(other).settle()

    assert (outbox(engine), heard(rt, "a")) == ([("completed", 1)], [])
    rt.drain()
    assert heard(rt, "a") == ["x0"]


def test_equal_key_gives_one_message(rt: RuntimeUnderTest, roles: Roles, engine: Engine) -> None:
    """Two equal sends under one idempotency key come to one message, and both count as delivered."""
    for _ in range(2):
        rt.ref("Sender", "s").tell_once(receiver="a", entry="x", key="k")
    roles.settle()

    assert (heard(rt, "a"), outbox(engine)) == (["x"], [("completed", 1)] * 2)
    message = rt.ref("Receiver", "a").find_message(idempotency_key="k")
    assert message.status().value == "completed"


def test_other_arguments_under_a_key_are_dead(rt: RuntimeUnderTest, roles: Roles, engine: Engine) -> None:
    """Another send under a used key is dead as a conflict, and the next of its pair goes on."""
    for entry in ("x", "y"):
        rt.ref("Sender", "s").tell_once(receiver="a", entry=entry, key="k")
    rt.ref("Sender", "s").tell(receivers=["a"], entry="z")
    roles.settle()

    assert [status for status, _ in outbox(engine)] == ["completed", "dead", "completed"]
    assert errors(engine)[1] == "IdempotencyConflict"
    assert heard(rt, "a") == ["x", "z0"]


def test_delay_counts_from_the_commit_of_the_source(rt: RuntimeUnderTest, roles: Roles, engine: Engine) -> None:
    """A delayed send is delivered at once, and its message waits from the commit of the turn that sent it."""
    rt.ref("Sender", "s").tell_later(receiver="a", entry="x", delay=60.0)
    store = rt.store.deliveries
    (pair,), _ = rt.database.read(lambda tx: store.due(tx, 10))
    (waiting,) = rt.database.transact("look", lambda tx: store.next_of(tx, pair, 10))
    roles.settle()
    stored = record(rt, waiting.effect_id)

    assert outbox(engine) == [("completed", 1)]
    assert stored.available_at == waiting.created_at + timedelta(seconds=60)
    assert heard(rt, "a") == []


def test_receiver_is_destroyed_and_used_again(rt: RuntimeUnderTest, roles: Roles) -> None:
    """Messages go to the receiver that is there when they are delivered, also to one that was made anew."""
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x")
    roles.settle()
    rt.ref("Sender", "s").tell(receivers=["a"], entry="y")
    assert rt.ref("Receiver", "a").destroy() is True
    roles.settle()

    assert heard(rt, "a") == ["y0"]


def test_sender_is_destroyed_before_the_delivery(rt: RuntimeUnderTest, roles: Roles, engine: Engine) -> None:
    """What a destroyed actor had not delivered is gone with it, and its receiver does not appear."""
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x")
    rt.ref("Sender", "s").destroy()
    roles.settle()

    assert (outbox(engine), count(engine, "instances")) == ([], 0)


def test_send_to_self(rt: RuntimeUnderTest, roles: Roles) -> None:
    """An actor may send to itself; the message runs in a turn of its own, later."""
    rt.ref("Sender", "s").tell_self(entry="x")
    before = rt.ref("Sender", "s").snapshot().sent
    roles.settle()

    assert (before, rt.ref("Sender", "s").snapshot().sent) == (0, 100)


def test_stuck_pair_costs_little(make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine) -> None:
    """A pass over a stuck pair with 300 messages costs as many statements as one over three."""
    rt = make_runtime(own=ALL, max_mailbox_length=1, retry_delay=lambda attempt: 3600.0)
    roles = make_roles(rt)
    rt.ref("Receiver", "a").hear.send(entry="first")
    costs = []
    for times in (3, 297):
        rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=times)
        roles.scheduler.run_once()
        make_due(engine)
        counter = StatementCounter(rt.database.engine)
        with counter.measure() as measured:
            roles.scheduler._delivering.run_once()
        counter.close()
        costs.append(measured.statements)

    assert costs[0] == costs[1] <= 20


def test_stuck_pair_does_not_fill_the_page(make_runtime: MakeRuntime, make_roles: MakeRoles) -> None:
    """A stuck pair with more messages than a pass looks at does not keep the role from looking on at once."""
    rt = make_runtime(own=ALL, max_mailbox_length=1, retry_delay=lambda attempt: 3600.0)
    roles = make_roles(rt)
    rt.ref("Receiver", "a").hear.send(entry="first")
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=60)
    rt.ref("Sender", "s").tell(receivers=["b"], entry="y")
    passes = [roles.scheduler.run_once() for _ in range(3)]
    rt.drain()

    assert passes == [True, True, False]
    assert heard(rt, "b") == ["y0"]
