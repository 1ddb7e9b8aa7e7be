"""The search for work: known types only, the longest-waiting first, locked rows passed over; and expired leases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, select

from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import ActorKey
from tests import requires
from tests.store.acts import KEY, LEASE, OTHER, Acts

TYPES = ["Account", "Counter"]
ACCOUNT = ActorKey(actor_type="Account", actor_id="a")


def ready(acts: Acts, types: Sequence[str] = TYPES) -> list[str]:
    return acts.db.transact("search", lambda tx: acts.store.candidates.ready_types(tx, types))


def found(acts: Acts, actor_type: str = "Counter") -> int | None:
    """The id of the actor that the locking search gives."""
    instance = acts.db.transact("search", lambda tx: acts.store.candidates.lock_first(tx, actor_type))
    return None if instance is None else instance.id


def expired(acts: Acts, most: int = 10) -> list[int]:
    return acts.db.read(lambda tx: acts.store.candidates.expired(tx, most))


@contextmanager
def locked(engine: Engine, tables: Tables, instance_ids: Sequence[int]) -> Iterator[None]:
    """Somebody else holds these rows."""
    i = tables.instances
    with engine.begin() as connection:
        # One by one: asked for several, a server may read, and then lock, the whole table.
        for instance_id in instance_ids:
            connection.execute(select(i.c.id).where(i.c.id == instance_id).with_for_update())
        yield


# -- work --------------------------------------------------------------------------------------


def test_actor_with_work_is_found_locked(acts: Acts) -> None:
    """The search gives the locked row of an actor that has work, as the lock shows it."""
    sent = acts.send()
    instance = acts.db.transact("search", lambda tx: acts.store.candidates.lock_first(tx, "Counter"))

    assert ready(acts) == ["Counter"]
    assert instance is not None
    assert (sent.instance_id, KEY, True, 2) == (
        instance.id,
        instance.key,
        instance.has_backlog,
        instance.next_sequence,
    )


def test_type_that_has_waited_longest_comes_first(acts: Acts) -> None:
    """The types come in the order of their longest-waiting actors, whatever the order they are asked in."""
    acts.send(KEY)
    acts.pass_time(5)
    acts.send(ACCOUNT)

    assert ready(acts) == ["Counter", "Account"]
    assert ready(acts, TYPES[::-1]) == ["Counter", "Account"]
    acts.take(KEY)
    acts.send(KEY)
    assert ready(acts) == ["Account"]


def test_actor_that_has_waited_longest_comes_first(acts: Acts) -> None:
    """Within a type the oldest hint comes first, and after a claim and a yield the others have their turn."""
    first = acts.send(KEY)
    acts.send(KEY)
    acts.pass_time(5)
    second = acts.send(OTHER)
    acts.pass_time(5)
    assert first.instance_id == found(acts)
    acts.go_on(acts.take(KEY), go_on=False)

    assert second.instance_id == found(acts)


@pytest.mark.parametrize("types", [[], ["Unknown"], ["counter"], ["Account"]])
def test_unknown_types_are_left_as_they_are(acts: Acts, types: list[str]) -> None:
    """An actor whose type is not asked for is not found, in whatever spelling, and stays as it was."""
    sent = acts.send()
    before = acts.everything()

    assert ready(acts, types) == []
    assert [None] * len(types) == [found(acts, actor_type) for actor_type in types]
    assert before == acts.everything()
    assert acts.record(sent.message_id).attempts == 0


@pytest.mark.parametrize("why", ["paused", "parked", "not due", "back-off", "held", "idle"])
def test_actor_that_may_not_run_is_not_found(acts: Acts, why: str) -> None:
    """Neither search gives an actor that is paused, parked, held, or has no message that is due."""
    if why == "not due":
        acts.send(delay=60)
    else:
        claim = acts.run()
        ends = {"paused": lambda: acts.hand_back(claim), "parked": lambda: acts.park(claim, 60)}
        ends |= {"back-off": lambda: acts.fail(claim, retry=60), "idle": lambda: acts.finish(claim)}
        ends.get(why, acts.send)()
    if why == "paused":
        acts.pause()

    assert ready(acts) == []
    assert found(acts) is None
    assert acts.db.read(lambda tx: acts.store.candidates.first(tx, "Counter")) is None


@pytest.mark.parametrize("why", ["parked", "not due", "back-off"])
def test_actor_is_found_when_its_time_has_come(acts: Acts, why: str) -> None:
    """What was not due is found once it is."""
    if why == "not due":
        acts.send(delay=60)
    elif why == "parked":
        acts.park(acts.run(), 60)
    else:
        acts.fail(acts.run(), retry=60)
    acts.pass_time(61)

    assert acts.instance().id == found(acts)


@requires.skip_locked
def test_locked_candidates_do_not_hide_a_free_one(acts: Acts, engine: Engine, tables: Tables) -> None:
    """However many actors of the type are locked, the search gives the first that is not."""
    keys = [replace(KEY, actor_id=str(number)) for number in range(8)]
    ids = []
    for key in keys:
        ids.append(acts.send(key).instance_id)
        acts.pass_time(1)

    with locked(engine, tables, ids[:6]):
        assert ids[6] == found(acts)
        assert ready(acts) == ["Counter"]
    assert ids[0] == found(acts)


@requires.skip_locked
def test_all_candidates_locked(acts: Acts, engine: Engine, tables: Tables) -> None:
    """When all are locked the locking search waits for nobody; the plain one says which to wait for."""
    sent = acts.send()

    with locked(engine, tables, [sent.instance_id]):
        assert found(acts) is None
        assert sent.instance_id == acts.db.read(lambda tx: acts.store.candidates.first(tx, "Counter"))


@requires.skip_locked
def test_search_locks_no_more_than_it_gives(acts: Acts, engine: Engine, tables: Tables) -> None:
    """While one searcher holds the actor it found, a second one gets the next."""
    first, second = acts.send(KEY), acts.send(OTHER)

    def search(tx: Any) -> tuple[int | None, int | None]:
        instance = acts.store.candidates.lock_first(tx, "Counter")
        return None if instance is None else instance.id, found(acts)

    assert (first.instance_id, second.instance_id) == acts.db.transact("search", search)


# -- expired leases ----------------------------------------------------------------------------


def test_expired_leases_of_any_type(acts: Acts) -> None:
    """Leases that ran out are found whatever the type, paused or not, the oldest first and no more than asked."""
    keys = [KEY, ACCOUNT, ActorKey(actor_type="Unknown", actor_id="a"), OTHER]
    ids = []
    for key in keys:
        ids.append(acts.run(key).lease.instance_id)
        acts.pass_time(LEASE / 2)
    acts.pause(ACCOUNT)

    # Of four leases the last has half its time left, and the third has just run out.
    assert ids[:3] == expired(acts)
    assert ids[:2] == expired(acts, 2)


def test_live_and_ended_leases_are_not_found(acts: Acts) -> None:
    """A lease that is alive, renewed or over is no work for recovery."""
    claims = [acts.run(key) for key in (KEY, OTHER)]
    acts.finish(claims[0])
    acts.pass_time(2 * LEASE)
    acts.db.transact("renew", lambda tx: acts.store.leases.renew(tx, claims[1].lease, seconds=LEASE, wait=True))
    acts.run(ACCOUNT)

    assert expired(acts) == []


def test_expired_lease_is_no_candidate_for_the_search(acts: Acts) -> None:
    """Work behind an expired lease is found through the lease, and after its recovery through the hint."""
    claim = acts.run()
    acts.send()
    acts.pass_time(2 * LEASE)

    assert found(acts) is None
    acts.recover(claim.lease.instance_id)
    assert claim.lease.instance_id == found(acts)
    assert expired(acts) == []
