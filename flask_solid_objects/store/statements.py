"""Tell reads from everything else in the application's own SQL, for the write guard and the look at open sessions."""

from __future__ import annotations

import re
from typing import Any

# Comments, literals and quoted names, in the order in which they begin: one of them may hold the mark of another. What
# MySQL executes although it looks like a comment is none.
_QUOTED = {
    escapes: re.compile(
        r"(?P<comment>/\*(?!M?!).*?\*/|--[^\n]*(?:\n|$))|"
        + "|".join(rf"{quote}(?:[^{quote}{escaped}]|{quote}{quote}{more})*{quote}" for quote in "'\"`"),
        re.DOTALL,
    )
    for escapes, escaped, more in ((False, "", ""), (True, r"\\", r"|\\."))
}
_READS = re.compile(r"\s*\(*\s*(select|values|table|show|explain|describe|desc|with|pragma)\b", re.IGNORECASE)
# Names of columns and functions are let pass: of those that follow a dot or go before a bracket.
_WRITES_INSIDE = re.compile(
    r"(?<![.\w])(insert(?!\s*\()|update|delete|merge|into(?!\s*@)|next\s+value\s+for|"
    r"for\s+(key\s+)?share|lock\s+in\s+share\s+mode|(nextval|setval|pg_(try_)?advisory\w*|get_lock)(?=\s*\())\b|"
    r";\s*\S|/\*M?!",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(r"\s*(explain|describe|desc)\b.*\b(create|execute|refresh)\b", re.IGNORECASE | re.DOTALL)
# Words and marks without one of which nothing in a SELECT writes or locks.
_TELLING = (
    *("insert", "update", "delete", "merge", "into", "share", "nextval", "setval", "next", "advisory", "get_lock"),
    *(";", "/*"),
)
_HARMLESS = re.compile(
    r"\s*(set\s+(local\s+|session\s+)?transaction|savepoint|release|rollback|begin(?!\s+not\b)|start\s+transaction)\b"
    r"(?!.*\bread\s+write\b)[^;]*;?\s*$",
    re.IGNORECASE | re.DOTALL,
)
# Questions about the schema; any other pragma sets something, or does something, when it is given a value.
_ASKS = re.compile(
    r"\s*pragma\s+(\w+\s*\.\s*|`?''`?\s*\.\s*)?(\w+\s*;?\s*$|"
    r"(table_x?info|table_list|index_x?info|index_list|foreign_key_(list|check)|integrity_check|quick_check)\s*\()",
    re.IGNORECASE,
)
_ACTS = re.compile(
    r"\s*pragma\s+(\w+\s*\.\s*)?(optimize|incremental_vacuum|wal_checkpoint|shrink_memory)\b", re.IGNORECASE
)

# Blocks and functions of PostgreSQL, which have a BEGIN and END of another kind.
_BODIES = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
# What ends a transaction; DDL does so unasked in MySQL. Going back to a savepoint does not.
_ENDS = re.compile(
    r"(^|;|/\*M?!\d*)\s*(commit|end|abort|begin|start\s+transaction|rollback(?!\s+((work|transaction)\s+)?to\b)|xa|"
    r"prepare\s+transaction|set\s+autocommit|(un)?lock\s+tables?|(create|alter|drop|truncate|rename)(?!\s+temp))\b",
    re.IGNORECASE,
)


def ends_transaction(statement: str) -> bool:
    """True for what ends the transaction in which it is sent, or would in one of the databases."""
    return any(_ENDS.search(_BODIES.sub("''", bare)) is not None for bare in _bare(statement))


def is_write(statement: str, context: Any = None) -> bool:
    """True for DML, DDL, locking reads and whatever else is not plainly a read.

    :param context: SQLAlchemy's execution context, which knows what its own constructs are.
    """
    if context is not None and (context.isinsert or context.isupdate or context.isdelete or context.isddl):
        return True
    # Almost every statement ends here, at a twentieth of the cost of the expressions below.
    lowered = statement.lower()
    if lowered.startswith("select ") and not any(word in lowered for word in _TELLING):
        return False
    return any(_is_write(bare) for bare in _bare(statement))


def _bare(statement: str) -> list[str]:
    """The statement without comments and literals; as both kinds of database read it where a backslash tells."""
    readings = (False, True) if "\\" in statement else (False,)
    return [_QUOTED[escapes].sub(lambda found: " " if found["comment"] else "''", statement) for escapes in readings]


def _is_write(text: str) -> bool:
    if _HARMLESS.match(text):
        return False
    if not _READS.match(text) or _EXPLAINED.match(text):
        return True
    if re.match(r"\s*pragma\b", text, re.IGNORECASE):
        return _ASKS.match(text) is None or _ACTS.match(text) is not None
    return _WRITES_INSIDE.search(text) is not None
