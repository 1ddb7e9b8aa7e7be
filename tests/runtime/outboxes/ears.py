"""Somebody who hears broadcasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flask_solid_objects.values import Broadcast


class Ears:
    """A function of the application that hears broadcasts, and raises for actors that it cannot bear."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, int]] = []
        self.raw: list[Broadcast] = []
        self.refused: set[str] = set()
        self.on_single: Callable[[], object] = lambda: None

    def __call__(self, broadcasts: Sequence[Broadcast]) -> None:
        if len(broadcasts) == 1:
            self.on_single()
        if self.refused & {each.actor_id for each in broadcasts}:
            raise LookupError("refused")
        self.raw.extend(broadcasts)
        self.heard.extend((each.actor_id, each.observable, each.revision) for each in broadcasts)
