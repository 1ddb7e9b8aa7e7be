"""Insert many rows with one statement, so that what a turn stages costs the same however much it is.

The text of a statement depends on the number of its rows; each number is compiled once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Table, bindparam

from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.transaction import Transaction

# Twenty columns of so many rows stay far below every driver's limit of parameters.
_MOST_ROWS = 64


class RowInsert:
    """The multi-row INSERT of one table.

    :param columns: bound for each row; ``fixed`` are the same expression in every row.
    :param finish: adds what follows VALUES, such as an upsert.
    """

    def __init__(
        self,
        table: Table,
        dialect: Dialect,
        columns: Sequence[str],
        fixed: Mapping[str, Any],
        finish: Callable[[Any], Any] = lambda construct: construct,
    ) -> None:
        self._table, self._dialect, self._columns = table, dialect, tuple(columns)
        self._fixed, self._finish = dict(fixed), finish
        self._statements: dict[int, Statement] = {}
        self._lock = threading.Lock()

    def write(self, tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows in their order, so that their ids rise; encoded values, in as few statements as possible."""
        for start in range(0, len(rows), _MOST_ROWS):
            chunk = rows[start : start + _MOST_ROWS]
            values = {f"{name}_{n}": row[name] for n, row in enumerate(chunk) for name in self._columns}
            tx.write(self._statement(len(chunk)), **values)

    def _statement(self, count: int) -> Statement:
        statement = self._statements.get(count)
        if statement is None:
            with self._lock:
                statement = self._statements[count] = self._compile(count)
        return statement

    def _compile(self, count: int) -> Statement:
        table = self._table
        rows = [
            {name: bindparam(f"{name}_{n}", type_=table.c[name].type) for name in self._columns} | self._fixed
            for n in range(count)
        ]
        return self._dialect.compile(self._finish(self._dialect.insert(table).values(rows)))
