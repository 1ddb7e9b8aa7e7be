"""Parking: an actor that cannot be activated is left alone for a while, with the reason, at nobody's cost."""

from __future__ import annotations

import pytest

from tests.store.acts import Acts, document


def test_parked_actor_is_left_alone_for_a_while(acts: Acts) -> None:
    """After a failed activation the message waits uncounted, and nobody claims before the time is over."""
    claim = acts.run()
    acts.park(claim, 60)
    row = acts.instance()

    assert (1, row.parked_until) == (row.parked_count, row.ready_at)
    assert document(row.parked_error)["class"] == "ValueError"
    assert acts.record(claim.message.id).attempts == 0
    assert acts.call().claim is None
    acts.send()
    acts.send(delay=5)
    assert acts.claim() is None
    assert row.parked_until == acts.instance().ready_at
    acts.pass_time(61)
    assert claim.message.id == acts.take().message.id


def test_parking_counts_until_an_activation_succeeds(acts: Acts) -> None:
    """Each failed activation in a row counts, the next claim says how many, and a finished turn clears it."""
    acts.park(acts.run(), 60)
    acts.pass_time(61)
    again = acts.take()
    assert again.parked_count == 1
    acts.park(again, 60)
    acts.pass_time(61)
    third = acts.take()
    assert third.parked_count == 2
    acts.finish(third)

    row = acts.instance()
    assert (row.parked_until, row.parked_count, row.parked_error) == (None, 0, None)


@pytest.mark.parametrize("end", ["go_on", "fail", "dead"])
def test_any_turn_that_ran_clears_the_parking(acts: Acts, end: str) -> None:
    """A turn that was activated and then failed has shown that the actor can be activated."""
    acts.park(acts.run(), 60)
    acts.pass_time(61)
    claim = acts.take()
    if end == "go_on":
        acts.go_on(claim)
    else:
        acts.fail(claim, retry=5 if end == "fail" else None)

    row = acts.instance()
    assert (row.parked_until, row.parked_count, row.parked_error) == (None, 0, None)


def test_parking_a_paused_actor_leaves_it_hidden(acts: Acts) -> None:
    """A pause is stronger than a parking, and a resume is not below its end."""
    claim = acts.run()
    acts.pause()
    acts.park(claim, 60)
    assert acts.hints() == (None, True)
    acts.resume()

    assert acts.instance().parked_until == acts.instance().ready_at
