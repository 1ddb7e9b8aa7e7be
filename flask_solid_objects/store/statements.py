"""Tell reads from everything else in the application's own SQL, for the write guard and the look at open sessions."""

from __future__ import annotations

import re
from typing import Any

_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*(\n|$)", re.DOTALL)
_READS = re.compile(r"\s*\(*\s*(select|values|table|show|explain|describe|desc|with|pragma)\b", re.IGNORECASE)
_WRITES_INSIDE = re.compile(
    r"\b(insert\s+into|update\s+[\w\"`.\[]+\s+set|delete\s+from|merge\s+into|into\s+(out|dump)file|"
    r"for\s+(no\s+key\s+)?update|for\s+(key\s+)?share|lock\s+in\s+share\s+mode|nextval\s*\(|setval\s*\(|pg_advisory\w*\s*\()",
    re.IGNORECASE,
)
# Words without one of which nothing in a SELECT writes or locks.
_TELLING = ("insert", "update", "delete", "merge", "file", "share", "nextval", "setval", "advisory")
_LITERALS = re.compile(r"'(?:[^']|'')*'")
_HARMLESS = re.compile(
    r"\s*(set\s+(local\s+|session\s+)?transaction|savepoint|release|rollback|begin|start)\b", re.IGNORECASE
)

# Blocks and functions of PostgreSQL, which have a BEGIN and END of another kind.
_BODIES = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
# What ends a transaction; DDL does so unasked in MySQL. Going back to a savepoint does not.
_ENDS = re.compile(
    r"(^|;)\s*(commit|end|abort|begin|start\s+transaction|rollback(?!\s+((work|transaction)\s+)?to\b)|xa|"
    r"prepare\s+transaction|set\s+autocommit|(un)?lock\s+tables?|(create|alter|drop|truncate|rename)(?!\s+temp))\b",
    re.IGNORECASE,
)


def ends_transaction(statement: str) -> bool:
    """True for what ends the transaction in which it is sent, or would in one of the databases."""
    bare = _BODIES.sub("''", _LITERALS.sub("''", _COMMENTS.sub(" ", statement)))
    return _ENDS.search(bare) is not None


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
    text = _LITERALS.sub("''", _COMMENTS.sub(" ", statement))
    if _HARMLESS.match(text):
        return False
    if not _READS.match(text):
        return True
    if re.match(r"\s*pragma\s+\w+\s*=", text, re.IGNORECASE):
        return True
    return _WRITES_INSIDE.search(text) is not None
