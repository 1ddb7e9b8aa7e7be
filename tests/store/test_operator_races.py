"""Operators against turns, calls and claims: A is held at a step, B waits for A's lock, and the rows are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flask_solid_objects.errors import ActorDestroyed, LostActivation
from flask_solid_objects.values import MessageStatus
from tests.store.acts import Acts, claim_of
from tests.store.conftest import Race

# -- pause -------------------------------------------------------------------------------------


def test_pause_after_a_claim_lets_the_turn_run(acts: Acts, race: Race) -> None:
    """A claims; B's pause waits and comes second: the turn finishes, and nothing follows it."""
    acts.send()
    acts.send()
    claim, paused = race(acts.claim, "claim.committing", acts.pause)

    assert paused is True
    assert acts.go_on(claim) is None
    assert acts.hints() == (None, True)


@pytest.mark.parametrize("act", ["claim", "call", "go_on"])
def test_no_turn_begins_after_a_pause(acts: Acts, race: Race, act: str) -> None:
    """A pauses; B waits for the lock, and then neither claims, nor admits to run, nor goes on."""
    claim = acts.run()
    if act != "go_on":
        acts.finish(claim)
    if act != "call":
        acts.send()
    late: dict[str, Callable[[], Any]] = {"claim": acts.claim, "call": acts.call, "go_on": lambda: acts.go_on(claim)}
    paused, result = race(acts.pause, "pause.committing", late[act])

    assert paused is True
    assert result is None or result.claim is None
    assert acts.hints() == (None, True)
    assert acts.claims() == []


def test_resume_against_a_send(acts: Acts, race: Race) -> None:
    """A sends to a paused actor; B's resume waits for the message and shows it."""
    acts.finish(acts.run())
    acts.pause()
    sent, resumed = race(acts.send, "admit.committing", acts.resume)

    assert resumed is True
    assert sent.message_id == acts.take().message.id


# -- destroy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["finish", "go_on", "fail"])
def test_commit_against_a_destroy(acts: Acts, race: Race, act: str) -> None:
    """A destroys the actor; B's commit waits, finds no row, and writes nothing."""
    claim = acts.run()
    destroyed, ended = race(acts.destroy, "destroy.locked", lambda: acts.end(act, claim))

    assert claim.lease.instance_id == destroyed
    assert isinstance(ended, LostActivation)
    assert [acts.tables.processes.name] == [name for name, rows in acts.everything().items() if rows]


def test_destroy_against_a_commit(acts: Acts, race: Race) -> None:
    """A commits; B's destroy waits for it, and takes everything with it."""
    claim = acts.run()
    ended, destroyed = race(lambda: acts.finish(claim), "finish.committing", acts.destroy)

    assert (None, claim.lease.instance_id) == (ended, destroyed)
    assert [acts.tables.processes.name] == [name for name, rows in acts.everything().items() if rows]


@pytest.mark.parametrize("known", [False, True])
def test_admit_against_a_destroy(acts: Acts, race: Race, known: bool) -> None:
    """A destroys the actor; B's call waits and makes the next incarnation, unless it asked for the one that is gone."""
    claim = acts.run()
    acts.finish(claim)
    destroyed = claim.lease.instance_id
    _, called = race(acts.destroy, "destroy.locked", lambda: acts.call(instance_id=destroyed if known else None))

    if known:
        assert isinstance(called, ActorDestroyed)
    else:
        assert called.instance_id > destroyed
        assert (called.sequence, claim_of(called).lease.generation) == (1, 1)


def test_destroy_against_an_admit(acts: Acts, race: Race) -> None:
    """A's message is about to be stored; B's destroy waits and takes it along, and its turn cannot commit."""
    acts.finish(acts.run())
    called, destroyed = race(acts.call, "admit.committing", acts.destroy)

    assert called.instance_id == destroyed
    with pytest.raises(LostActivation):
        acts.finish(claim_of(called))
    assert [acts.tables.processes.name] == [name for name, rows in acts.everything().items() if rows]


# -- operators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["finish", "go_on", "fail"])
def test_commit_against_a_skip(acts: Acts, race: Race, act: str) -> None:
    """A skips the running head; B's commit waits and is refused, and the next message can run."""
    claim = acts.run()
    following = acts.send()
    skipped, ended = race(acts.skip, "skip.committing", lambda: acts.end(act, claim))

    assert claim.message.id == skipped
    assert isinstance(ended, LostActivation)
    assert MessageStatus.SKIPPED is acts.record(claim.message.id).status
    assert following.message_id == acts.take().message.id


def test_skip_against_a_commit(acts: Acts, race: Race) -> None:
    """A commits; B's skip waits and finds no head any more."""
    claim = acts.run()
    ended, skipped = race(lambda: acts.finish(claim), "finish.committing", acts.skip)

    assert (ended, skipped) == (None, None)
    assert MessageStatus.COMPLETED is acts.record(claim.message.id).status


def test_retry_now_against_a_failure(acts: Acts, race: Race) -> None:
    """A's turn fails; B's retry-now waits for the back-off to begin, and ends it."""
    claim = acts.run()
    _, retried = race(lambda: acts.fail(claim, retry=600), "fail.committing", acts.retry_now)

    assert retried is True
    assert acts.take().message.attempt == 2
