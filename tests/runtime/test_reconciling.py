"""Reads that compare actors with the application: active, resting, orphaned, and their states."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, insert

from flask_solid_objects.errors import Unauthorized
from flask_solid_objects.runtime.policies import Policies
from flask_solid_objects.runtime.reconciling import InstanceReads
from flask_solid_objects.values import ActorEntry, ActorKey
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime


def ids(entries: list[ActorEntry]) -> list[str]:
    return [each.actor_id for each in entries]


@pytest.fixture
def reads(rt: RuntimeUnderTest) -> InstanceReads:
    """Five actors, of which one is paused, one has a message waiting and one a delayed one."""
    for actor_id in ("1", "2", "3", "01", "x "):
        rt.journal(actor_id).add(entry="a")
    rt.runtime.operators.pause(ActorKey(actor_type="Journal", actor_id="2"))
    rt.journal("2").add.send(entry="b")
    rt.journal("3").add.using(delay=600).send(entry="c")
    return rt.runtime.instances


def test_active_are_those_that_are_not_paused(reads: InstanceReads) -> None:
    """A paused actor is left out; ids are as they were given, byte for byte."""
    assert ids(reads.active("Journal")) == ["1", "3", "01", "x "]
    assert reads.active("Other") == []


def test_pages_follow_each_other(reads: InstanceReads) -> None:
    """The last number of a page leads to the next one, until none is left."""
    first = reads.active("Journal", most=3)
    second = reads.active("Journal", most=3, after=first[-1].id)

    assert ids(first + second) == ["1", "3", "01", "x "]
    assert reads.active("Journal", after=second[-1].id) == []


def test_resting_have_nothing_under_way(reads: InstanceReads) -> None:
    """Actors with a message that waits, also one that is not due, do not rest; nor do those that were used just now."""
    assert ids(reads.without_pending_work("Journal", quiet_for=0)) == ["1", "01", "x "]
    assert reads.without_pending_work("Journal", quiet_for=timedelta(hours=1)) == []


def test_orphans_have_no_owner(reads: InstanceReads, engine: Engine) -> None:
    """Ids are compared as text with a column of the application, whatever its type."""
    owners = Table("app_owners", MetaData(), Column("id", Integer, primary_key=True))
    owners.create(engine)
    try:
        with engine.begin() as connection:
            connection.execute(insert(owners).values([{"id": 1}, {"id": 3}, {"id": 7}]))
        found = reads.orphaned("Journal", owners.c.id)
    finally:
        owners.drop(engine)

    assert ids(found) == ["2", "01", "x "]


def test_states_come_by_id(reads: InstanceReads) -> None:
    """Plain JSON of those that exist."""
    found = reads.states("Journal", ["1", "x ", "x", "nobody"])

    assert {actor_id: state["entries"] for actor_id, state in found.items()} == {"1": ["a"], "x ": ["a"]}
    assert reads.states("Journal", [str(number) for number in range(900)]).keys() == {"1", "2", "3"}


@pytest.mark.parametrize("most", [0, 1001])
def test_a_page_is_bounded(reads: InstanceReads, most: int) -> None:
    """No page is empty by request, and none has the whole table."""
    with pytest.raises(ValueError, match="from 1 to 1000"):
        reads.active("Journal", most=most)


def test_reads_ask_the_policy(make_runtime: MakeRuntime) -> None:
    """Without the right to look nothing is read."""
    asked = []

    def deny(access: object) -> bool:
        asked.append(access)
        return False

    reads = make_runtime(policies=Policies(registered={"administration": deny})).runtime.instances
    for read in (
        lambda: reads.active("Journal"),
        lambda: reads.without_pending_work("Journal", quiet_for=0),
        lambda: reads.states("Journal", ["1"]),
    ):
        with pytest.raises(Unauthorized):
            read()

    assert len(asked) == 3
