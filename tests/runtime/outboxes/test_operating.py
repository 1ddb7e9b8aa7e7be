"""What operators do with single effects, broadcasts and reminders: done once, recorded once, or not at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine

from flask_solid_objects.errors import (
    ActUnresolved,
    CommitUnknown,
    MailboxFull,
    ReminderCompleted,
    Unauthorized,
    UnknownOutboxRow,
    UnknownReminder,
)
from flask_solid_objects.runtime.operators import Operators
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.values import ActorKey
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes.actors import Alarm, Outside, Receiver, Roles, Sender, Till
from tests.runtime.outboxes.looking import Beside, heard
from tests.runtime.outboxes.operating import (
    LOST,
    Denying,
    actions,
    dead,
    events,
    kill_effects,
    only_reminder,
    stands,
)
from tests.runtime.outboxes.rows import count, error_of, execute, find_effect

ALL = (Till, Sender, Receiver, Alarm)
HOUR = 3600.0
MESSAGES, ENDED = "solid_objects_messages", "completed_at IS NOT NULL"
KILL = "UPDATE solid_objects_{} SET status = 'dead', attempt_count = 2, error = '{{\"class\":\"X\"}}' WHERE {}"


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=ALL, max_attempts=1)


@pytest.fixture
def operators(rt: RuntimeUnderTest) -> Operators:
    return rt.runtime.operators


@pytest.fixture
def alarm(rt: RuntimeUnderTest) -> Any:
    return rt.ref("Alarm", "a")


def kill(rt: RuntimeUnderTest, table: str, condition: str = "1 = 1") -> None:
    execute(rt, KILL.format(table, condition))


def status_of(rt: RuntimeUnderTest, reminder_id: int) -> str:
    (row,) = [row for row in rt.runtime.operators.reminders.list() if row.id == reminder_id]
    return row.reminder.status


def broadcast_id(rt: RuntimeUnderTest) -> str:
    """One dead broadcast; its id."""
    rt.ref("Till", "a").add()
    kill(rt, "broadcasts", "observable_name = 'total'")
    (row,) = rt.runtime.operators.broadcasts.dead()
    return row.broadcast_id


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
    with pytest.raises(UnknownOutboxRow, match="no effect x"):
        operators.effects.retry("x")
    with pytest.raises(UnknownOutboxRow, match="no broadcast x"):
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


# -- reminders ---------------------------------------------------------------------------------


def test_reminders_are_listed_by_id(rt: RuntimeUnderTest, operators: Operators) -> None:
    """Reminders are listed after an id, by type and status."""
    for actor in ("a", "b", "c"):
        rt.ref("Alarm", actor).arm(delay=HOUR)
    first, second, third = operators.reminders.list()
    operators.reminders.pause(second.id)

    assert [row.id for row in operators.reminders.list(after=first.id, most=1)] == [second.id]
    assert [row.id for row in operators.reminders.list(actor_type="Alarm", status="scheduled")] == [first.id, third.id]
    assert operators.reminders.list(actor_type="Till") == []


def test_paused_reminder_does_not_ring(rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators) -> None:
    """A paused reminder does not ring when it is due, and rings late when it is resumed."""
    alarm.arm(delay=0.0)
    reminder_id = only_reminder(rt)

    assert operators.reminders.pause(reminder_id) is True
    assert operators.reminders.pause(reminder_id) is False
    roles.settle()
    assert alarm.rung == []
    assert operators.reminders.resume(reminder_id) is True
    assert operators.reminders.resume(reminder_id) is False
    roles.settle()
    assert alarm.rung == ["ring"]


def test_dead_reminder_is_revived(rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators) -> None:
    """Resuming a dead reminder forgets its attempts and its error, and it rings."""
    alarm.arm(delay=0.0)
    kill(rt, "reminders")
    reminder_id = only_reminder(rt)

    assert operators.reminders.pause(reminder_id) is False
    assert operators.reminders.resume(reminder_id) is True
    assert [(row.attempts, row.error) for row in operators.reminders.list()] == [(0, None)]
    roles.settle()
    assert alarm.rung == ["ring"]


def test_one_shot_that_is_run_is_completed(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators
) -> None:
    """A one-shot that is run now rings once and is completed, with the time of the act as its time."""
    alarm.arm(delay=HOUR)
    reminder_id, before = only_reminder(rt), datetime.now(UTC)
    message = operators.reminders.run_now(reminder_id)
    roles.settle()

    assert (message.actor_id, status_of(rt, reminder_id), alarm.rung) == ("a", "completed", ["ring"])
    assert abs(datetime.fromisoformat(alarm.contexts[0]["due_at"]) - before).total_seconds() < 60


def test_recurring_one_that_is_run_keeps_its_time(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators
) -> None:
    """A recurring reminder that is run now rings once more, and its row stays as it is, also while it is paused."""
    alarm.arm_every(every=HOUR, delay=HOUR)
    reminder_id, (row,) = only_reminder(rt), operators.reminders.list()
    operators.reminders.run_now(reminder_id)
    operators.reminders.pause(reminder_id)
    operators.reminders.run_now(reminder_id)
    operators.reminders.resume(reminder_id)
    roles.settle()

    assert alarm.rung == ["tick", "tick"]
    assert operators.reminders.list() == [row]


def test_completed_reminder(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators, engine: Engine
) -> None:
    """A completed reminder can only be cancelled; everything else is a clear error that is not recorded."""
    alarm.arm(delay=0.0)
    roles.settle()
    reminder_id = only_reminder(rt)

    for act in (operators.reminders.pause, operators.reminders.resume, operators.reminders.run_now):
        with pytest.raises(ReminderCompleted, match="rung for the last time"):
            act(reminder_id)
    assert events(engine) == []
    operators.reminders.cancel(reminder_id)
    assert (operators.reminders.list(), actions(engine)) == ([], ["reminder.cancel"])


def test_message_of_a_cancelled_reminder_is_skipped(
    rt: RuntimeUnderTest, roles: Roles, alarm: Any, operators: Operators
) -> None:
    """What a reminder had rung before an operator cancelled it does not run."""
    alarm.arm(delay=0.0)
    reminder_id = only_reminder(rt)
    roles.scheduler.run_once()
    operators.reminders.cancel(reminder_id)
    roles.settle()

    assert alarm.rung == []


def test_unknown_reminder(operators: Operators, engine: Engine) -> None:
    """Each act on a reminder that is not there is an error that is not recorded."""
    reminders = operators.reminders
    for act in (reminders.pause, reminders.resume, reminders.run_now, reminders.cancel):
        with pytest.raises(UnknownReminder, match="no reminder 7"):
            act(7)

    assert events(engine) == []


def test_full_mailbox_refuses_the_ringing(make_runtime: MakeRuntime, engine: Engine) -> None:
    """A reminder that is run into a full mailbox stays as it is, and nothing is recorded."""
    rt = make_runtime(own=ALL, max_mailbox_length=1)
    rt.ref("Alarm", "a").arm(delay=HOUR)
    rt.ref("Alarm", "a").look.send()
    (row,) = rt.runtime.operators.reminders.list()
    with pytest.raises(MailboxFull):
        rt.runtime.operators.reminders.run_now(row.id)

    assert (rt.runtime.operators.reminders.list(), events(engine)) == ([row], [])


def test_cancelled_while_the_operator_waits(
    rt: RuntimeUnderTest, alarm: Any, operators: Operators, checkpoints: HeldCheckpoints, engine: Engine
) -> None:
    """An act that waited for a turn which cancelled the reminder finds that out."""
    alarm.arm(delay=HOUR)
    reminder_id, found = only_reminder(rt), list[BaseException]()

    def pause() -> None:
        with pytest.raises(UnknownReminder) as raised:
            operators.reminders.pause(reminder_id)
        found.append(raised.value)

    with checkpoints.hold("commit.committing") as hold:
        turn = Beside(alarm.disarm)
        hold.wait_reached()
        pausing = Beside(pause)
        hold.release()
        turn.join()
        pausing.join()

    assert (len(found), events(engine)) == (1, [])


# -- policies and lost commits -----------------------------------------------------------------

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
