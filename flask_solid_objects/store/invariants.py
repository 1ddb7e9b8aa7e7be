"""What must be true of the tables at any time, while everything runs: the protocol's invariants as statements.

They may be checked beside any load, and give rows only for what is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, select

from flask_solid_objects.store import invariant_queries as queries
from flask_solid_objects.store.dialects import Dialect, dialect_for
from flask_solid_objects.store.invariant_queries import Circumstances
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One rule: its number, what it says, and the statement that finds rows that break it.

    The rows are (instance id, actor type, actor id, what is wrong with, its number).
    """

    name: str
    text: str
    broken: Callable[[Tables, Circumstances], Any]


def check_invariants(
    connection: Connection,
    tables: Tables,
    *,
    lease_duration: float,
    roles_running: bool,
    process_threshold: float = 60.0,
    pruned: bool = False,
    limit: int = 100,
) -> list[Violation]:
    """Run every invariant beside whatever else runs, and return what is broken.

    :param roles_running: a worker or maintenance role has been running for two lease lengths at least, so that
        nothing may be left lying about.
    :param pruned: retention has deleted messages, so that gaps in the sequences say nothing.
    :param limit: of rows per invariant.
    """
    dialect = dialect_for(connection.engine.url)
    found: list[Violation] = []
    with nullcontext() if connection.in_transaction() else connection.begin():
        now = dialect.decode_time(connection.execute(select(dialect.now)).scalar_one())
        assert now is not None, "the database knows the time"
        circumstances = Circumstances(
            now=dialect.now,
            expired_before=now - timedelta(seconds=2 * lease_duration),
            stopped_before=now - timedelta(seconds=2 * process_threshold),
            roles_running=roles_running,
            pruned=pruned,
        )
        for invariant in INVARIANTS:
            rows = connection.execute(invariant.broken(tables, circumstances).limit(limit))
            found += [_violation(invariant, dialect, tuple(row)) for row in rows]
    return found


def _violation(invariant: Invariant, dialect: Dialect, row: tuple[Any, ...]) -> Violation:
    instance_id, actor_type, actor_id, what, number = row
    detail = "" if number is None else f", {what} {number}"
    subject = f"{actor_type} {dialect.decode_text(actor_id)!r} (instance {instance_id}){detail}"
    return Violation(invariant=invariant.name, statement=invariant.text, subject=subject)


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        name="I1",
        text="an unpaused actor with an eligible waiting message has a hint that is not later than the message",
        broken=queries.unfindable,
    ),
    Invariant(
        name="I2",
        text="a claim agrees with the lease of its actor, and the lease has an end",
        broken=queries.disagreeing,
    ),
    Invariant(name="I3", text="no actor is leased without a claim", broken=queries.idle_lease),
    Invariant(name="I4", text="a message is in one place: ready, claimed, ended or dead", broken=queries.misplaced),
    Invariant(
        name="I5", text="no prompt message is unfinished while a later one is finished", broken=queries.overtaken
    ),
    Invariant(name="I6", text="an actor with a waiting message in order has a backlog", broken=queries.without_backlog),
    Invariant(
        name="I7", text="attempts stay within their maximum, and a claim has counted one", broken=queries.miscounted
    ),
    Invariant(
        name="I8", text="sequences lie below the next one, without gaps before pruning", broken=queries.misnumbered
    ),
    Invariant(
        name="I9",
        text="a broadcast tells of a committed revision, and those of an actor rise in the order of commits",
        broken=queries.untimely_broadcast,
    ),
    Invariant(
        name="I10",
        text="no message to an actor is delivered while an earlier one of the same sender waits",
        broken=queries.out_of_order,
    ),
    Invariant(name="I11", text="nothing that was held by a dead process is left lying", broken=queries.left_lying),
)
