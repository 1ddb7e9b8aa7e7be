"""Run actor code with the application and without the caller: a new context, a fresh app context, nothing else.

The caller's ``request``, ``session`` and ``g`` are not visible, so that a turn is the same in a request and in a
worker (promise 4). A ``db.session`` that the code opens belongs to this app context, and is removed with it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TypeVar

from flask import Flask

_T = TypeVar("_T")


def run_in_app_context(app: Flask, function: Callable[[], _T]) -> _T:
    """Run a function in a new ``contextvars.Context`` with a fresh app context."""

    def run() -> _T:
        with app.app_context():
            return function()

    return contextvars.Context().run(run)
