"""Commit a turn and free its actor in one statement, for databases whose CTEs may write."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    String,
    bindparam,
    delete,
    func,
    null,
    select,
    update,
)

from flask_solid_objects.errors import LostActivation
from flask_solid_objects.store.completion import Completion
from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import Claim


class CteCommit:
    """The commit of ``turns`` in one round trip."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._tables, self._dialect = tables, dialect
        self._finishes: dict[tuple[str, ...], Statement] = {}

    def finish(self, tx: Transaction, claim: Claim, completion: Completion) -> None:
        """Commit a turn and free its actor; the counts of changed rows are the proof that the lease was ours."""
        lease, values = claim.lease, completion.instance_columns()
        row = tx.one(
            self._finish_for(tuple(values)),
            w_id=lease.instance_id,
            w_owner=lease.owner,
            w_token=lease.token,
            w_generation=lease.generation,
            w_message_id=claim.message.id,
            result=completion.result,
            revision=completion.revision,
            **values,
        )
        if row != (1, 1, 1):
            raise LostActivation(f"{claim.key}: the lease of generation {lease.generation} was taken over ({row}).")

    def _finish_for(self, columns: tuple[str, ...]) -> Statement:
        """Compiled at the first use of each combination; there are six."""
        statement = self._finishes.get(columns)
        if statement is None:
            statement = self._finishes[columns] = self._dialect.compile(self._finish_statement(columns))
        return statement

    def _finish_statement(self, columns: tuple[str, ...]) -> Any:
        t = self._tables
        i, c, m = t.instances, t.claimed_messages, t.messages
        token, generation = bindparam("w_token", type_=String), bindparam("w_generation", type_=BigInteger)
        written: dict[str, Any] = {name: bindparam(name, type_=i.c[name].type) for name in columns}
        fenced = (
            update(i)
            .where(
                i.c.id == bindparam("w_id"),
                i.c.activation_owner_id == bindparam("w_owner"),
                i.c.activation_token == token,
                i.c.activation_generation == generation,
            )
            .values(
                **written,
                activation_owner_id=null(),
                activation_token=null(),
                activation_expires_at=null(),
                parked_until=null(),
                parked_count=0,
                parked_error=null(),
                last_used_at=self._dialect.now,
                touched_at=self._dialect.now,
                updated_at=self._dialect.now,
            )
            .returning(i.c.id)
            .cte("fenced")
        )
        ended = (
            delete(c)
            .where(
                c.c.instance_id == fenced.c.id,
                c.c.message_id == bindparam("w_message_id", type_=BigInteger),
                c.c.activation_token == token,
                c.c.activation_generation == generation,
            )
            .returning(c.c.message_id)
            .cte("ended")
        )
        completed = (
            update(m)
            .where(m.c.id == ended.c.message_id)
            .values(
                result=bindparam("result", type_=m.c.result.type),
                revision=bindparam("revision", type_=BigInteger),
                error=null(),
                rejection=null(),
                completed_at=self._dialect.now,
                updated_at=self._dialect.now,
            )
            .returning(m.c.id)
            .cte("completed")
        )
        return select(*(select(func.count()).select_from(cte).scalar_subquery() for cte in (fenced, ended, completed)))
