"""What a test needs of a database. Tests ask for a capability and never for a database by name.

Put a mark on the test: ``@requires.concurrent_writers``. It is skipped on a database that cannot.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

CAPABILITIES: dict[str, frozenset[str]] = {
    "sqlite": frozenset({"single_writer", "database_file"}),
    "postgresql": frozenset({"concurrent_writers", "skip_locked", "server", "writable_cte", "notifications"}),
    "mysql": frozenset({"concurrent_writers", "skip_locked", "server", "byte_keys"}),
}

concurrent_writers = pytest.mark.requires("concurrent_writers")  # two transactions may write at the same time
single_writer = pytest.mark.requires("single_writer")  # a second writer waits for the first, whatever it writes
skip_locked = pytest.mark.requires("skip_locked")  # a search may pass over rows that others hold
server = pytest.mark.requires("server")  # connections can break and be ended from elsewhere
database_file = pytest.mark.requires("database_file")  # the database is a file that can be copied
writable_cte = pytest.mark.requires("writable_cte")  # one statement may write in several tables
notifications = pytest.mark.requires("notifications")  # the database itself can wake listeners
byte_keys = pytest.mark.requires("byte_keys")  # actor ids and idempotency keys are stored as bytes


def missing(node: pytest.Item, name: str) -> set[str]:
    """Return the capabilities that a test asks for and this database lacks."""
    return _asked(node.iter_markers("requires")) - CAPABILITIES[name]


def _asked(marks: Iterable[pytest.Mark]) -> set[str]:
    asked = {str(capability) for mark in marks for capability in mark.args}
    unknown = asked - frozenset().union(*CAPABILITIES.values())
    if unknown:
        raise LookupError(f"No database has {', '.join(sorted(unknown))}; see tests/requires.py.")
    return asked
