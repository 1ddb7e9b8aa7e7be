"""The public surface: what the package re-exports, what it says so, and what importing it costs."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import flask_solid_objects
from flask_solid_objects import errors

# Errors that stay inside the runtime.
INTERNAL = {"LostActivation", "DatabaseDeadlineExceeded", "CommitUnknown"}


def _errors() -> list[str]:
    found = inspect.getmembers(errors, inspect.isclass)
    return [name for name, value in found if value.__module__.startswith(errors.__name__) and not name.startswith("_")]


def test_all_lists_every_name() -> None:
    """``__all__`` is sorted and holds exactly what the package re-exports."""
    names = [
        name
        for name, value in vars(flask_solid_objects).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    ]

    assert sorted(names) == flask_solid_objects.__all__


def test_every_name_is_re_exported_on_its_own_line() -> None:
    """Type checkers take a name for public only in the form ``import X as X``."""
    source = Path(flask_solid_objects.__file__).read_text()
    aliases = re.findall(r"^from \S+ import (\w+) as \1$", source, re.MULTILINE)

    assert sorted(aliases) == flask_solid_objects.__all__


def test_every_error_that_reaches_people_is_public() -> None:
    """All errors are importable from the package, but for those that never leave the runtime."""
    assert set(_errors()) - set(flask_solid_objects.__all__) == INTERNAL


def test_the_tree_of_errors_is_drawn() -> None:
    """The docstring of the errors names each of them."""
    assert [name for name in _errors() if not re.search(rf"\b{name}\b", errors.__doc__ or "")] == []


def test_importing_starts_nothing() -> None:
    """An import opens no socket, starts no thread, loads no optional driver, and warns of nothing."""
    program = (
        "import socket, sys, threading\n"
        "def refuse(*arguments): raise AssertionError('a socket')\n"
        "socket.socket.connect = refuse\n"
        "import flask_solid_objects\n"
        "assert threading.active_count() == 1\n"
        "print(sorted({'redis', 'pymysql'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])

    assert (result.stdout, result.returncode) == ("[]\n", 0), result.stderr
