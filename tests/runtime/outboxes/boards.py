"""Actors that are watched: with shared values, with changes that are only told of, with a payload, and broken ones."""

from __future__ import annotations

from typing import Any

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.attribute import attribute
from flask_solid_objects.actors.observable import observable, payload
from flask_solid_objects.actors.operation import operation, query
from flask_solid_objects.errors import Rejected


class Board(Actor):
    """Counts, and tells its watchers."""

    total: int = attribute(0, observable=True)
    hidden: int = 0

    @observable(broadcast="value")
    def parity(self) -> str:
        return "even" if self.total % 2 == 0 else "odd"

    @observable
    def tens(self) -> int:
        return self.total // 10

    @operation
    def add(self, amount: int = 1) -> None:
        self.total += amount

    @operation
    def hide(self) -> None:
        self.hidden += 1

    @operation
    def add_and_refuse(self) -> None:
        self.total += 1
        raise Rejected("no")

    @operation
    def add_and_fail(self) -> None:
        self.total += 1
        raise RuntimeError("no")

    @query
    def peek(self) -> int:
        return self.total


class Private(Actor):
    """Has nothing to watch but a payload."""

    total: int = 0

    @payload
    def view(self, viewer: Any) -> int:
        return self.total

    @operation
    def add(self, amount: int = 1) -> None:
        self.total += amount


class Meddling(Actor):
    """Its observable changes what it looks at."""

    total: int = 0

    @observable
    def next(self) -> int:
        self.total += 1
        return self.total

    @operation
    def add(self) -> None:
        self.total += 1


ALL: tuple[type[Actor], ...] = (Board, Private, Meddling)
