"""What a redrive is about and how a batch of it is revived: dead rows of an outbox, or dead messages.

A batch first finds ids and locks nothing, then locks rows in one global order and looks again at what it locked, so
that batches never wait for each other in a circle, and nothing is revived that has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Table, bindparam, func, select

from flask_solid_objects.errors import IdempotencyConflict, MailboxFull, MessagePruned
from flask_solid_objects.store.dead_letters import DeadLetter, DeadLetters
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.instances import Instances
from flask_solid_objects.store.listed import Listed
from flask_solid_objects.store.outbox_administration import revival
from flask_solid_objects.store.resending import Resending
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.store.windows import capped, if_given

_FAR_BACK = datetime(1970, 1, 1, tzinfo=UTC)
# A copy takes several statements, and the locks of its actor are held until the end of the batch.
_MOST_LETTERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which dead rows are meant: all that had died by ``before``, less what the filters leave out."""

    before: datetime
    failed_after: datetime | None = None
    actor_type: str | None = None
    operation: str | None = None
    exception_class: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a batch did; ``last`` is the last id that it looked at, None when there was none.

    ``refused`` are the actors that had no room, now or earlier in this pass: what comes later of them has to wait, too.
    So do ``busy`` ones, whose rows others had locked: nobody waits for them here, so that one of them stalls no others.
    """

    moved: int = 0
    last: int | None = None
    refused: frozenset[int] = frozenset()
    busy: bool = False


class Revivals(Protocol):
    """The dead rows of one kind."""

    def count(self, tx: Transaction, selection: Selection) -> int: ...

    def preview(self, tx: Transaction, selection: Selection) -> int:
        """Count up to one more than ``MOST_COUNTED``."""
        ...

    def find(self, tx: Transaction, selection: Selection, after: int, most: int) -> list[int]:
        """The next ids above one, in their order; fewer than ``most`` where a batch has to be short."""
        ...

    def revive(self, tx: Transaction, selection: Selection, ids: Sequence[int], refused: frozenset[int]) -> Batch:
        """Lock those that are still as they were found, and revive them in the order of their ids."""
        ...


class OutboxRevivals:
    """Dead rows of an outbox, which become pending again."""

    def __init__(self, table: Table, tables: Tables, dialect: Dialect) -> None:
        i, c = tables.instances, table.c
        self._dialect = dialect
        dead = (c.status == "dead", *_between(c.updated_at))
        of_type = c.instance_id.in_(select(i.c.id).where(i.c.actor_type == bindparam("actor_type")))
        self._every, self._of_type = _Selected(dialect, table, *dead), _Selected(dialect, table, *dead, of_type)
        self._lock = Listed(
            dialect, c.id, lambda ids: select(c.id).where(c.id.in_(ids), *dead).order_by(c.id).with_for_update()
        )
        self._revive = Listed(dialect, c.id, lambda ids: revival(table, dialect).where(c.id.in_(ids)))

    def count(self, tx: Transaction, selection: Selection) -> int:
        selected, values = self._selected(selection)
        return selected.number(tx, selected.count, values)

    def preview(self, tx: Transaction, selection: Selection) -> int:
        selected, values = self._selected(selection)
        return selected.number(tx, selected.preview, values)

    def find(self, tx: Transaction, selection: Selection, after: int, most: int) -> list[int]:
        # Nothing is locked, since a look by actor type would lock actors too.
        selected, values = self._selected(selection)
        return [row[0] for row in tx.rows(selected.next, **values, after=after, most=most)]

    def revive(self, tx: Transaction, selection: Selection, ids: Sequence[int], refused: frozenset[int]) -> Batch:
        locked = [row[0] for row in self._lock.rows(tx, ids, **_times(self._dialect, selection))]
        return Batch(moved=self._revive.write(tx, locked), last=ids[-1])

    def _selected(self, selection: Selection) -> tuple[_Selected, dict[str, Any]]:
        values = _times(self._dialect, selection)
        if selection.actor_type is None:
            return self._every, values
        return self._of_type, {**values, "actor_type": selection.actor_type}


class LetterRevivals:
    """Dead messages, of which copies are sent, for each actor in the order in which they died."""

    def __init__(
        self, tables: Tables, dialect: Dialect, instances: Instances, dead_letters: DeadLetters, resending: Resending
    ) -> None:
        d = tables.dead_letters
        self._dialect, self._instances, self._resending = dialect, instances, resending
        self._row_of = dead_letters.row_of
        waiting = (d.c.retried_message_id.is_(None), *_between(d.c.last_failed_at))
        self._selected = _Selected(
            dialect, d, *waiting, *(if_given(column) for column in (d.c.actor_type, d.c.operation, d.c.exception_class))
        )
        self._actors = Listed(dialect, d.c.id, lambda ids: select(d.c.id, d.c.instance_id).where(d.c.id.in_(ids)))
        self._lock = Listed(
            dialect,
            d.c.id,
            lambda ids: dead_letters.select_rows().where(d.c.id.in_(ids), *waiting).order_by(d.c.id).with_for_update(),
        )

    def count(self, tx: Transaction, selection: Selection) -> int:
        return self._selected.number(tx, self._selected.count, self._values(selection))

    def preview(self, tx: Transaction, selection: Selection) -> int:
        return self._selected.number(tx, self._selected.preview, self._values(selection))

    def find(self, tx: Transaction, selection: Selection, after: int, most: int) -> list[int]:
        values, most = self._values(selection), min(most, _MOST_LETTERS)
        return [row[0] for row in tx.rows(self._selected.next, **values, after=after, most=most)]

    def revive(self, tx: Transaction, selection: Selection, ids: Sequence[int], refused: frozenset[int]) -> Batch:
        actors = {row[0]: row[1] for row in self._actors.rows(tx, ids)}
        wanted = sorted({*actors.values()} - refused)
        held = {instance_id for instance_id in wanted if self._instances.try_lock_by_id(tx, instance_id) is not None}
        full, moved = set(refused), 0
        free = [letter_id for letter_id in ids if actors.get(letter_id) in held]
        for row in self._lock.rows(tx, free, **_times(self._dialect, selection)):
            letter = self._row_of(row)
            if letter.instance_id in full:
                continue
            try:
                moved += self._send(tx, letter)
            except MailboxFull:
                full.add(letter.instance_id)
        busy = {*wanted} - held
        return Batch(moved=moved, last=ids[-1], refused=frozenset(full | busy), busy=bool(busy))

    def _send(self, tx: Transaction, letter: DeadLetter) -> bool:
        try:
            return self._resending.send(tx, letter) is not None
        except (IdempotencyConflict, MessagePruned):
            # Its copy was sent with other arguments, or has ended and is pruned: there is no second one.
            return False

    def _values(self, selection: Selection) -> dict[str, Any]:
        return {
            **_times(self._dialect, selection),
            "actor_type": selection.actor_type,
            "operation": selection.operation,
            "exception_class": selection.exception_class,
        }


class _Selected:
    """The statements that look at the rows of a table for which the conditions hold."""

    def __init__(self, dialect: Dialect, table: Table, *conditions: ColumnElement[bool]) -> None:
        row_id = table.c.id
        following = select(row_id).where(*conditions, row_id > bindparam("after")).order_by(row_id)
        self.next = dialect.compile(following.limit(bindparam("most")))
        self.count = dialect.compile(select(func.count()).select_from(table).where(*conditions))
        self.preview = dialect.compile(select(capped(row_id, *conditions)))

    @staticmethod
    def number(tx: Transaction, statement: Statement, values: Mapping[str, Any]) -> int:
        return int(tx.rows(statement, **values)[0][0])


def _between(died: ColumnElement[datetime]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return died <= bindparam("before", type_=died.type), died >= bindparam("failed_after", type_=died.type)


def _times(dialect: Dialect, selection: Selection) -> dict[str, Any]:
    return {
        "before": dialect.encode_time(selection.before),
        "failed_after": dialect.encode_time(selection.failed_after or _FAR_BACK),
    }
