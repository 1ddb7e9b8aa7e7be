"""A statement over a list of keys, in a few lengths: each length is another text, and every text has to be compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import BindParameter, Column, bindparam
from sqlalchemy.sql.base import Executable

from flask_solid_objects.store.dialects import Dialect, Statement
from flask_solid_objects.store.transaction import Transaction

# Parameters of one statement; the oldest SQLite that is supported allows 32,766.
_LONGEST_LIST = 512


class Listed:
    """Compiled once for each power of two, and filled up with the last key.

    :param make: the statement for these keys, to be put in an IN.
    :param columns: that it assigns under their own names.
    """

    def __init__(
        self,
        dialect: Dialect,
        key: Column[Any],
        make: Callable[[Sequence[BindParameter[Any]]], Executable],
        *columns: str,
    ) -> None:
        self._dialect, self._key, self._make, self._columns = dialect, key, make, columns
        self._compiled: dict[int, Statement] = {}

    def rows(self, tx: Transaction, keys: Sequence[Any], **parameters: Any) -> list[tuple[Any, ...]]:
        """What it finds; ordered within each part of the list, which are in the order of the keys."""
        return [row for statement, listed in self._parts(keys) for row in tx.rows(statement, **listed, **parameters)]

    def write(self, tx: Transaction, keys: Sequence[Any], **parameters: Any) -> int:
        """How many rows it matched."""
        return sum(tx.write(statement, **listed, **parameters) for statement, listed in self._parts(keys))

    def _parts(self, keys: Sequence[Any]) -> list[tuple[Statement, dict[str, Any]]]:
        return [self._filled(keys[start : start + _LONGEST_LIST]) for start in range(0, len(keys), _LONGEST_LIST)]

    def _filled(self, keys: Sequence[Any]) -> tuple[Statement, dict[str, Any]]:
        width = 1 << (len(keys) - 1).bit_length()
        statement = self._compiled.get(width)
        if statement is None:
            parameters = [bindparam(f"key_{number}", type_=self._key.type) for number in range(width)]
            statement = self._compiled[width] = self._dialect.compile(self._make(parameters), *self._columns)
        filled = [*keys, *[keys[-1]] * (width - len(keys))]
        return statement, {f"key_{number}": key for number, key in enumerate(filled)}
