"""The registry of processes: registered, heard of, draining, stopped, stale."""

from __future__ import annotations

import json
import os
import uuid

import pytest

from flask_solid_objects.store.processes import Process
from flask_solid_objects.store.transaction import Transaction
from tests.store.acts import Acts


def find(acts: Acts, process_id: str, threshold: float = 60.0) -> Process:
    process = acts.db.read(lambda tx: acts.store.processes.find(tx, process_id, threshold))
    assert process is not None
    return process


def beat(acts: Acts, process_id: str) -> bool:
    return acts.db.transact("beat", lambda tx: acts.store.processes.beat(tx, process_id))


def stop(acts: Acts, process_id: str) -> bool:
    return acts.db.transact("stop", lambda tx: acts.store.processes.stop(tx, process_id))


def drain(acts: Acts, process_id: str) -> None:
    acts.db.transact("drain", lambda tx: acts.store.processes.drain(tx, process_id))


def running(acts: Acts) -> list[str]:
    return [process.id for process in acts.db.read(lambda tx: acts.store.processes.running(tx, 60.0))]


def stale(acts: Acts) -> list[str]:
    return acts.db.read(lambda tx: acts.store.processes.stale(tx, 60.0))


def test_registered_process_is_running(acts: Acts) -> None:
    """A process is stored with its labels, running and heard of now."""
    process_id = str(uuid.uuid4())

    def register(tx: Transaction) -> None:
        values = {"kind": "caller", "hostname": "h" * 300, "pid": os.getpid(), "metadata": '{"python": "3"}'}
        acts.store.processes.register(tx, process_id=process_id, **values)  # type: ignore[arg-type]

    acts.db.transact("register", register)
    process = find(acts, process_id)

    assert ("caller", "h" * 255, os.getpid(), {"python": "3"}) == (
        process.kind,
        process.hostname,
        process.pid,
        json.loads(process.metadata),
    )
    assert (process.shutdown_state, process.stopped_at, process.is_stale) == ("running", None, False)
    assert process.started_at == process.last_heartbeat_at
    assert {acts.owner, process_id} == set(running(acts))


def test_sign_of_life_moves_the_heartbeat(acts: Acts) -> None:
    """A beat of a known process is recorded, also twice within one moment."""
    acts.pass_time(100)
    assert find(acts, acts.owner).is_stale is True

    assert [beat(acts, acts.owner), beat(acts, acts.owner)] == [True, True]
    process = find(acts, acts.owner)
    assert process.is_stale is False
    assert process.last_heartbeat_at > process.started_at


def test_process_that_was_declared_dead_must_register_anew(acts: Acts) -> None:
    """After its row is stopped, or where there is none, a beat says so and changes nothing."""
    stop(acts, acts.owner)
    before = acts.everything()

    assert beat(acts, acts.owner) is False
    assert beat(acts, str(uuid.uuid4())) is False
    assert before == acts.everything()


def test_process_stops_once(acts: Acts) -> None:
    """The first to stop a process is told so, and a stopped process is neither running nor stale."""
    acts.pass_time(100)

    assert [stop(acts, acts.owner), stop(acts, acts.owner)] == [True, False]
    process = find(acts, acts.owner)
    assert (process.shutdown_state, process.is_stale) == ("stopped", False)
    assert process.stopped_at is not None
    assert (running(acts), stale(acts)) == ([], [])


def test_draining_process_still_runs(acts: Acts) -> None:
    """A draining process is listed, beats, can be found stale, and stays stopped once it is."""
    drain(acts, acts.owner)
    assert find(acts, acts.owner).shutdown_state == "draining"
    assert running(acts) == [acts.owner]
    assert beat(acts, acts.owner) is True
    acts.pass_time(100)
    assert stale(acts) == [acts.owner]
    stop(acts, acts.owner)
    drain(acts, acts.owner)

    assert find(acts, acts.owner).shutdown_state == "stopped"


def test_only_silent_processes_are_stale(acts: Acts, other: Acts) -> None:
    """Silence is measured per process, against the database's time; the oldest is listed first."""
    acts.pass_time(61)
    beat(acts, other.owner)

    assert stale(acts) == [acts.owner]
    assert running(acts) == [acts.owner, other.owner]


@pytest.mark.parametrize("ended", [False, True])
def test_stopping_a_process_leaves_its_claims(acts: Acts, other: Acts, ended: bool) -> None:
    """A claim outlives the registration of its process: it is committed, or taken over when its lease has run out."""
    claim = acts.run()
    stop(acts, acts.owner)
    if ended:
        acts.finish(claim)
    else:
        acts.pass_time(100)
        assert claim.message.id == other.recover(claim.lease.instance_id)

    assert acts.claims() == []


def test_no_process_of_that_id(acts: Acts) -> None:
    """A process that is not there is None."""
    assert acts.db.read(lambda tx: acts.store.processes.find(tx, str(uuid.uuid4()), 60.0)) is None
