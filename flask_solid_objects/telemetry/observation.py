"""The end of an observation: what ``reference.observe(...)`` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self


class Observation:
    """Hears of an actor until it is called or its ``with`` block ends; ending it twice does nothing."""

    __slots__ = ("_stop",)

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def __call__(self) -> None:
        """Hear no more."""
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
