"""What operators do with single effects and broadcasts: listed in pages, revived once, recorded at each press."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import (
    UnknownOutboxRow,
)
from flask_solid_objects.runtime.operators import Operators
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Outside, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.looking import Beside, heard
from tests.runtime.outboxes.operating import (
    broadcast_id,
    dead,
    events,
    kill,
    kill_effects,
    stands,
)
from tests.runtime.outboxes.rows import error_of, execute, find_effect

ALL = (Till, Sender, Receiver, Alarm)
HOUR = 3600.0


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=ALL, max_attempts=1)


@pytest.fixture
def operators(rt: RuntimeUnderTest) -> Operators:
    return rt.runtime.operators


# -- effects -----------------------------------------------------------------------------------


def test_pages_of_dead_effects(rt: RuntimeUnderTest, roles: Roles, outside: Outside, operators: Operators) -> None:
    """Dead effects and dead messages are listed newest first, page by page, of one type if wanted."""
    first, second = kill_effects(rt, roles, outside, "a", "b")
    (sent,) = rt.ref("Sender", "s").tell(receivers=["r"], entry="e")
    kill(rt, "effects", "name = '__actor_message__'")
    page = operators.effects.dead(most=2)

    assert [row.effect_id for row in page] == [sent, second]
    assert dead(rt, most=2, before=page[-1].id) == [first]
    assert dead(rt, actor_type="Till") == [second, first]
    assert dead(rt, actor_type="till") == []


def test_pages_of_waiting_effects(rt: RuntimeUnderTest, operators: Operators) -> None:
    """Effects that wait and effects that run are listed apart, newest first."""
    ids = [rt.ref("Till", actor).pay_quietly(amount=1) for actor in ("a", "b")]
    execute(rt, "UPDATE solid_objects_effects SET status = 'processing' WHERE effect_id = :id", id=ids[0])

    assert [row.effect_id for row in operators.effects.waiting()] == ids[1:]
    assert [row.effect_id for row in operators.effects.waiting(status="processing", actor_type="Till")] == ids[:1]
    with pytest.raises(ValueError, match="pending, processing"):
        operators.effects.waiting(status="dead")  # type: ignore[arg-type]


def test_retried_effect_starts_from_the_beginning(
    rt: RuntimeUnderTest, roles: Roles, outside: Outside, operators: Operators
) -> None:
    """A dead effect is pending again under its id, its attempts forgotten, and runs."""
    (effect_id,) = kill_effects(rt, roles, outside, "a")

    assert stands(operators.effects.retry(effect_id)) == ("pending", 0, None)
    assert error_of(rt, effect_id)["class"] == "RuntimeError"
    roles.settle()
    assert (outside.ids, find_effect(rt, effect_id).status) == ([effect_id], "completed")


def test_retry_of_what_is_not_dead_changes_nothing(
    rt: RuntimeUnderTest, roles: Roles, operators: Operators, outside: Outside
) -> None:
    """A retry of a pending, running or completed effect returns it as it is."""
    effect_id = rt.ref("Till", "a").pay_quietly(amount=1, delay=HOUR)
    pending = find_effect(rt, effect_id)

    assert operators.effects.retry(effect_id) == pending
    execute(rt, "UPDATE solid_objects_effects SET status = 'completed'")
    assert operators.effects.retry(effect_id).status == "completed"


def test_unknown_outbox_rows(operators: Operators, engine: Engine) -> None:
    """A retry of what is not there is an error that names the kind, and is not recorded."""
    with pytest.raises(UnknownOutboxRow, match="no effect x: it is named by its effect_id"):
        operators.effects.retry("x")
    with pytest.raises(UnknownOutboxRow, match="no broadcast x: it is named by its broadcast_id"):
        operators.broadcasts.retry("x")

    assert events(engine) == []


def test_each_press_is_recorded(
    rt: RuntimeUnderTest, roles: Roles, outside: Outside, operators: Operators, engine: Engine
) -> None:
    """Each press of a retry writes one event with its operator; the second changes nothing."""
    (effect_id,) = kill_effects(rt, roles, outside, "a")
    operators.effects.retry(effect_id, context="ann")
    operators.effects.retry(effect_id, context="bob")
    roles.settle()

    assert events(engine) == [
        ("effect.retry", "effect", effect_id, "ann"),
        ("effect.retry", "effect", effect_id, "bob"),
    ]
    assert outside.ids == [effect_id]


def test_revived_message_is_delivered_beside_others(
    rt: RuntimeUnderTest, roles: Roles, operators: Operators, checkpoints: HeldCheckpoints
) -> None:
    """A message that is revived while later ones of its pair are being delivered is delivered itself, too."""
    first, *_ = rt.ref("Sender", "s").tell(receivers=["r"], entry="e", times=3)
    kill(rt, "effects", f"effect_id = '{first}'")
    with checkpoints.hold("delivery.locked") as hold:
        delivering = Beside(roles.scheduler.run_once)
        hold.wait_reached()
        retrying = Beside(lambda: operators.effects.retry(first))
        if not rt.database.dialect.single_writer:
            retrying.join()
        hold.release()
        delivering.join()
        retrying.join()
    roles.settle()

    assert heard(rt, "r") == ["e1", "e2", "e0"]


# -- broadcasts --------------------------------------------------------------------------------


def test_pages_of_dead_broadcasts(rt: RuntimeUnderTest, operators: Operators) -> None:
    """Dead broadcasts are listed newest first, page by page, of one type if wanted."""
    for actor in ("a", "b", "c"):
        rt.ref("Till", actor).add()
    kill(rt, "broadcasts", "observable_name = 'total'")
    page = operators.broadcasts.dead(most=2)

    assert [row.actor.actor_id for row in page] == ["c", "b"]
    assert [row.actor.actor_id for row in operators.broadcasts.dead(before=page[-1].id)] == ["a"]
    assert operators.broadcasts.dead(actor_type="Sender") == []


def test_retried_broadcast_is_delivered(rt: RuntimeUnderTest, roles: Roles, operators: Operators) -> None:
    """A dead broadcast is pending again under its id, and is delivered; another press changes nothing."""
    public_id = broadcast_id(rt)
    row = operators.broadcasts.retry(public_id)
    roles.settle()

    assert (row.status, row.attempts) == ("pending", 0)
    assert operators.broadcasts.retry(public_id).status == "delivered"
