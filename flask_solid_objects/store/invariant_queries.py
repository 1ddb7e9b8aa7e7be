"""The statements behind the invariants: each finds the rows that break one rule.

One statement sees one snapshot, and none reports a state that a turn under way may leave visible. They must stay
bearable on 100,000 messages, so each passes over a table once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    exists,
    false,
    func,
    literal,
    null,
    or_,
    select,
    true,
    union_all,
)

from flask_solid_objects.store.tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a check is judged by; both limits are database time, read before the first statement.

    ``now`` is the database's time as an expression, since a limit read earlier would report fresh hints as late.
    """

    now: ColumnElement[Any]
    expired_before: datetime
    stopped_before: datetime
    roles_running: bool
    pruned: bool


def _rows(tables: Tables, what: str = "instance", number: ColumnElement[Any] | None = None) -> Any:
    i = tables.instances
    name = literal(what)
    return select(
        i.c.id, i.c.actor_type, i.c.actor_id, name.label("what"), (null() if number is None else number).label("number")
    )


# -- work is found -----------------------------------------------------------------------------


def unfindable(tables: Tables, circumstances: Circumstances) -> Any:
    """An eligible row, and a hint that is absent or later than the row, than now, and than a parking with a reason.

    ``updated_at`` stands for now as well: MySQL fixes its time when a statement begins, before the snapshot is
    taken, and a hint written in between would look late. No hint lies after the time of its own write. The blocking
    ones are summed up first: a look for each waiting row would square a long mailbox.
    """
    i, r = tables.instances, tables.ready_messages
    b = tables.ready_messages.alias("blocker")
    first = (
        select(b.c.instance_id, func.min(b.c.sequence).label("sequence"))
        .where(b.c.blocking == true())
        .group_by(b.c.instance_id)
        .subquery("first_blocking")
    )
    waits = or_(r.c.delayed == true(), r.c.blocking == true())
    parked = and_(i.c.parked_until.is_not(None), i.c.parked_error.is_not(None))
    late = and_(
        i.c.ready_at > circumstances.now,
        i.c.ready_at > i.c.updated_at,
        case((waits, i.c.ready_at > r.c.available_at), else_=true()),
        case((parked, i.c.ready_at > i.c.parked_until), else_=true()),
    )
    return (
        _rows(tables, "sequence", r.c.sequence)
        .join_from(i, r, r.c.instance_id == i.c.id)
        .outerjoin(first, first.c.instance_id == r.c.instance_id)
        .where(
            i.c.paused_at.is_(None),
            or_(i.c.ready_at.is_(None), late),
            r.c.sequence <= func.coalesce(first.c.sequence, r.c.sequence),
        )
    )


def without_backlog(tables: Tables, circumstances: Circumstances) -> Any:
    i, r = tables.instances, tables.ready_messages
    in_order = or_(r.c.delayed == false(), r.c.blocking == true())
    return (
        _rows(tables, "sequence", r.c.sequence)
        .join_from(i, r, r.c.instance_id == i.c.id)
        .where(i.c.has_backlog == false(), in_order)
    )


# -- one holder --------------------------------------------------------------------------------


def disagreeing(tables: Tables, circumstances: Circumstances) -> Any:
    """A lease without an end counts too: nobody would ever take it over."""
    i, c = tables.instances, tables.claimed_messages
    return (
        _rows(tables, "message", c.c.message_id)
        .join_from(i, c, c.c.instance_id == i.c.id)
        .where(
            or_(
                i.c.activation_owner_id.is_distinct_from(c.c.process_id),
                i.c.activation_token.is_distinct_from(c.c.activation_token),
                i.c.activation_generation != c.c.activation_generation,
                i.c.activation_expires_at.is_(None),
            )
        )
    )


def idle_lease(tables: Tables, circumstances: Circumstances) -> Any:
    i, c = tables.instances, tables.claimed_messages
    leased = or_(
        i.c.activation_owner_id.is_not(None), i.c.activation_token.is_not(None), i.c.activation_expires_at.is_not(None)
    )
    return _rows(tables).where(leased, ~exists().where(c.c.instance_id == i.c.id))


def left_lying(tables: Tables, circumstances: Circumstances) -> Any:
    i, c, p = tables.instances, tables.claimed_messages, tables.processes
    claims = (
        _rows(tables, "message", c.c.message_id)
        .join_from(i, c, c.c.instance_id == i.c.id)
        .where(i.c.activation_expires_at < circumstances.expired_before)
    )
    e, r = tables.effects, tables.effect_recoveries
    # An effect may have chosen a longer silence, after which it is retired.
    patient = exists().where(r.c.effect_id == e.c.effect_id, r.c.recovery_timeout.is_not(None))
    outboxes = [
        _rows(tables, what, outbox.c.id)
        .join_from(i, outbox, outbox.c.instance_id == i.c.id)
        .join(p, p.c.id == outbox.c.claimed_by)
        .where(outbox.c.status == "processing", p.c.stopped_at < circumstances.stopped_before)
        for what, outbox in (("effect", e), ("broadcast", tables.broadcasts))
    ]
    lying = union_all(claims, outboxes[0].where(~patient), outboxes[1]).subquery("lying")
    return select(lying).where(true() if circumstances.roles_running else false())


# -- messages ----------------------------------------------------------------------------------


def misplaced(tables: Tables, circumstances: Circumstances) -> Any:
    i, m, d = tables.instances, tables.messages, tables.dead_letters
    r, c = tables.ready_messages, tables.claimed_messages
    ended = or_(m.c.completed_at.is_not(None), m.c.rejected_at.is_not(None))
    places = [case((place, 1), else_=0) for place in (*(t.c.id.is_not(None) for t in (r, c, d)), ended)]
    return (
        _rows(tables, "message", m.c.id)
        .join_from(i, m, m.c.instance_id == i.c.id)
        .outerjoin(r, r.c.message_id == m.c.id)
        .outerjoin(c, c.c.message_id == m.c.id)
        .outerjoin(d, d.c.message_id == m.c.id)
        .where(places[0] + places[1] + places[2] + places[3] != 1)
    )


def overtaken(tables: Tables, circumstances: Circumstances) -> Any:
    """Compare with the last finished one per actor: a look for each waiting row would square a long mailbox."""
    i, m = tables.instances, tables.messages
    f, buried = tables.messages.alias("finished"), tables.dead_letters.alias("buried")
    last = (
        select(f.c.instance_id, func.max(f.c.sequence).label("sequence"))
        .outerjoin(buried, buried.c.message_id == f.c.id)
        .where(or_(f.c.completed_at.is_not(None), buried.c.id.is_not(None)))
        .group_by(f.c.instance_id)
        .subquery("last")
    )
    return (
        _rows(tables, "sequence", m.c.sequence)
        .join_from(i, m, m.c.instance_id == i.c.id)
        .join(last, last.c.instance_id == m.c.instance_id)
        .where(
            m.c.sequence < last.c.sequence,
            m.c.completed_at.is_(None),
            m.c.available_at <= m.c.enqueued_at,
            ~exists().where(tables.dead_letters.c.message_id == m.c.id),
        )
    )


def miscounted(tables: Tables, circumstances: Circumstances) -> Any:
    i, m, c = tables.instances, tables.messages, tables.claimed_messages
    uncounted = and_(c.c.id.is_not(None), m.c.attempt_count < 1)
    return (
        _rows(tables, "message", m.c.id)
        .join_from(i, m, m.c.instance_id == i.c.id)
        .outerjoin(c, c.c.message_id == m.c.id)
        .where(or_(m.c.attempt_count > m.c.max_attempts, uncounted))
    )


def misnumbered(tables: Tables, circumstances: Circumstances) -> Any:
    """Sequences are unique per actor, so a full count below the next one leaves no room for a gap."""
    i, m = tables.instances, tables.messages
    given = (
        select(m.c.instance_id, func.max(m.c.sequence).label("last"), func.count().label("number"))
        .group_by(m.c.instance_id)
        .subquery("given")
    )
    following = i.c.next_message_sequence
    wrong = given.c.last >= following
    if not circumstances.pruned:
        wrong = or_(wrong, func.coalesce(given.c.number, 0) != following - 1)
    return (
        _rows(tables, "next sequence", following).outerjoin_from(i, given, given.c.instance_id == i.c.id).where(wrong)
    )


# -- outboxes ----------------------------------------------------------------------------------


def untimely_broadcast(tables: Tables, circumstances: Circumstances) -> Any:
    """A broadcast tells of a committed revision, and those of one actor are written in the order of its commits."""
    i, b = tables.instances, tables.broadcasts
    before = func.lag(b.c.revision).over(partition_by=b.c.instance_id, order_by=b.c.id)
    told = select(b.c.id, b.c.instance_id, b.c.revision, before.label("before")).subquery("told")
    return (
        _rows(tables, "broadcast", told.c.id)
        .join_from(i, told, told.c.instance_id == i.c.id)
        .where(or_(told.c.revision > i.c.state_revision, told.c.before > told.c.revision))
    )


def out_of_order(tables: Tables, circumstances: Circumstances) -> Any:
    """Compare with the last delivered message of each pair; what an operator revived comes late by right.

    Such a message has had an end already, whose time it keeps until it has another one.
    """
    i, e = tables.instances, tables.effects
    done = tables.effects.alias("done")
    last = (
        select(done.c.instance_id, done.c.target, func.max(done.c.id).label("id"))
        .where(done.c.target.is_not(None), done.c.status == "completed")
        .group_by(done.c.instance_id, done.c.target)
        .subquery("last")
    )
    return (
        _rows(tables, "effect", e.c.id)
        .join_from(i, e, e.c.instance_id == i.c.id)
        .join(last, and_(last.c.instance_id == e.c.instance_id, last.c.target == e.c.target))
        .where(e.c.status.in_(("pending", "processing")), e.c.id < last.c.id, e.c.completed_at.is_(None))
    )
