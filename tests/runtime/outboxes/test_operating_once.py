"""Acts of operators that are denied do nothing; those whose commit is lost are done and recorded once."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import (
    ActUnresolved,
    CommitUnknown,
    Unauthorized,
)
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.values import ActorKey
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Outside, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.operating import (
    LOST,
    Denying,
    actions,
    broadcast_id,
    events,
    kill_effects,
    only_reminder,
)
from tests.runtime.outboxes.rows import count, execute

ALL = (Till, Sender, Receiver, Alarm)
HOUR = 3600.0
MESSAGES, ENDED = "solid_objects_messages", "completed_at IS NOT NULL"


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=ALL, max_attempts=1)


Act = Callable[[RuntimeUnderTest, Roles, Outside], Callable[[], object]]
KEY = ActorKey(actor_type="Alarm", actor_id="a")


def _effect_retry(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> Callable[[], object]:
    (effect_id,) = kill_effects(rt, roles, outside, "a")
    return lambda: rt.runtime.operators.effects.retry(effect_id)


def _broadcast_retry(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> Callable[[], object]:
    public_id = broadcast_id(rt)
    return lambda: rt.runtime.operators.broadcasts.retry(public_id)


def _reminder(name: str, *, paused: bool = False) -> Act:
    def prepare(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> Callable[[], object]:
        rt.ref("Alarm", "a").arm_every(every=HOUR, delay=HOUR)
        if paused:
            execute(rt, "UPDATE solid_objects_reminders SET status = 'paused'")
        reminder_id = only_reminder(rt)
        return lambda: getattr(rt.runtime.operators.reminders, name)(reminder_id)

    return prepare


def _actor(name: str) -> Act:
    def prepare(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> Callable[[], object]:
        rt.ref("Alarm", "a").look.send()
        rt.ref("Alarm", "a").look.send()
        return lambda: getattr(rt.runtime.operators, name)(KEY)

    return prepare


def _dead_letter_retry(rt: RuntimeUnderTest, roles: Roles, outside: Outside) -> Callable[[], object]:
    rt.ref("Receiver", "a").explode.send()
    roles.settle()
    (letter,) = rt.runtime.operators.dead_letters()
    return lambda: rt.runtime.operators.retry_dead_letter(letter.id)


ACTS: dict[str, Act] = {
    "effect.retry": _effect_retry,
    "broadcast.retry": _broadcast_retry,
    "dead_letter.retry": _dead_letter_retry,
    "reminder.pause": _reminder("pause"),
    "reminder.resume": _reminder("resume", paused=True),
    "reminder.run": _reminder("run_now"),
    "reminder.cancel": _reminder("cancel"),
    "actor.pause": _actor("pause"),
    "actor.skip": _actor("skip"),
    "actor.destroy": _actor("destroy"),
}


@pytest.mark.parametrize("name", ACTS)
def test_denied_act_does_nothing(
    make_runtime: MakeRuntime,
    make_roles: Callable[[RuntimeUnderTest], Roles],
    outside: Outside,
    engine: Engine,
    name: str,
) -> None:
    """An act that the policy denies changes and records nothing."""
    policy = Denying(name.partition(".")[2])
    rt = make_runtime(own=ALL, max_attempts=1, policies=Policies(registered={"administration": policy}))
    act = ACTS[name](rt, make_roles(rt), outside)
    tables = ("effects", "broadcasts", "reminders", "messages", "instances")
    before = [count(rt, f"solid_objects_{table}") for table in tables]
    with pytest.raises(Unauthorized):
        act()

    assert [count(rt, f"solid_objects_{table}") for table in tables] == before
    assert events(engine) == []


def test_policy_is_asked_with_the_row(rt: RuntimeUnderTest, make_runtime: MakeRuntime) -> None:
    """The policy of an act gets what is acted on as the resource id."""
    policy = Denying("retry", "pause")
    operators = make_runtime(own=ALL, policies=Policies(registered={"administration": policy})).runtime.operators
    for act in (operators.effects.retry, operators.broadcasts.retry):
        with pytest.raises(Unauthorized):
            act("some-id")
    with pytest.raises(Unauthorized):
        operators.reminders.pause(7)

    assert policy.asked == [
        ("retry", "effect_dead_letters", "some-id"),
        ("retry", "broadcast_dead_letters", "some-id"),
        ("pause", "reminders", "7"),
    ]


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize(
    ("step", "error"),
    [("administration.acknowledging", LOST), ("administration.committing", CommitUnknown("lost"))],
    ids=["done", "not done"],
)
def test_lost_commit_is_done_once(
    rt: RuntimeUnderTest,
    roles: Roles,
    outside: Outside,
    checkpoints: HeldCheckpoints,
    engine: Engine,
    name: str,
    step: str,
    error: Exception,
) -> None:
    """An act whose commit is lost is done once and recorded once, whether it was committed or not."""
    act = ACTS[name](rt, roles, outside)
    messages, ended = count(rt, MESSAGES), count(rt, MESSAGES, ENDED)
    checkpoints.fail(step, error)
    act()
    new = {"dead_letter.retry": 1, "reminder.run": 1, "actor.destroy": -messages}.get(name, 0)

    assert actions(engine) == [name]
    assert count(rt, MESSAGES) == messages + new
    assert count(rt, MESSAGES, ENDED) == (0 if name == "actor.destroy" else ended + (name == "actor.skip"))


def test_lost_commit_and_lost_database(
    rt: RuntimeUnderTest,
    roles: Roles,
    outside: Outside,
    checkpoints: HeldCheckpoints,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the database stays away after a lost commit, the act ends with one clear error."""
    act = _effect_retry(rt, roles, outside)
    monkeypatch.setattr("flask_solid_objects.runtime.acts._SECONDS", 0.2)
    checkpoints.fail("administration.acknowledging", LOST)
    arrivals = itertools.count()
    # The commit of the first try passes; that of no other does.
    checkpoints.fail("administration.committing", LOST, times=1000, match=lambda _: next(arrivals) > 0)
    with pytest.raises(ActUnresolved, match="effect.retry"):
        act()
