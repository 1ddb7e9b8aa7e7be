"""A full mailbox holds its senders back without using up their attempts, and what is revived keeps out of the order."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Engine

from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import Violation
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Receiver, Roles, Sender
from tests.runtime.outboxes.looking import errors, heard, outbox
from tests.runtime.outboxes.rows import execute

MakeRoles = Callable[[RuntimeUnderTest], Roles]
ALL = (Sender, Receiver)


def violations(engine: Engine, tables: Tables) -> list[Violation]:
    with engine.connect() as connection:
        return check_invariants(connection, tables, lease_duration=30.0, roles_running=False)


def test_waiting_for_room_uses_up_no_attempt(
    make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine, checkpoints: HeldCheckpoints
) -> None:
    """A message that has waited for room more often than it may be tried survives an error that comes after that."""
    rt = make_runtime(own=ALL, max_mailbox_length=1, max_attempts=2)
    roles = make_roles(rt)
    rt.ref("Receiver", "a").hear.send(entry="first")
    rt.ref("Sender", "s").tell(receivers=["a"], entry="x")
    for _ in range(3):
        roles.scheduler.run_once()
    checkpoints.fail("delivery.locked", RuntimeError("no"), times=2)
    roles.scheduler.run_once()
    assert outbox(engine) == [("pending", 1)]

    roles.settle()
    assert heard(rt, "a") == ["first", "x0"]


def test_pause_for_room_grows_with_the_wait(make_runtime: MakeRuntime) -> None:
    """Looks for room are as far apart as attempts would be, told from the time that has passed."""
    settings = make_runtime(retry_delay=lambda attempt: float(2 ** (attempt - 1)) if attempt < 7 else 60.0).settings

    assert [settings.pause_after_waiting(waited) for waited in (0.0, 1.0, 3.5, 62.9, 1e9)] == [1, 2, 4, 32, 60]


def test_revived_message_that_waits_again_is_in_order(
    make_runtime: MakeRuntime, make_roles: MakeRoles, engine: Engine, tables: Tables, checkpoints: HeldCheckpoints
) -> None:
    """A message that died and was revived after later ones breaks no order, whatever holds it up once more."""
    rt = make_runtime(own=ALL, max_mailbox_length=1, max_attempts=1)
    roles = make_roles(rt)
    first, _ = rt.ref("Sender", "s").tell(receivers=["a"], entry="x", times=2)
    checkpoints.fail("delivery.locked", RuntimeError("no"), times=2)
    roles.scheduler.run_once()
    roles.scheduler.run_once()
    assert outbox(engine) == [("dead", 1), ("completed", 1)]
    rt.runtime.operators.effects.retry(first)
    execute(rt, "UPDATE solid_objects_effects SET max_attempts = 2 WHERE status = 'pending'")

    roles.scheduler.run_once()
    assert (outbox(engine)[0], errors(engine)[0], violations(engine, tables)) == (("pending", 0), "MailboxFull", [])
    checkpoints.fail("delivery.locked", RuntimeError("no"), times=2)
    roles.scheduler.run_once()
    assert (outbox(engine)[0], errors(engine)[0], violations(engine, tables)) == (("pending", 1), "RuntimeError", [])
    roles.settle()
    assert heard(rt, "a") == ["x1", "x0"]
