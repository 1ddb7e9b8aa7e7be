"""A process that runs effects, notes each call outside in a file, and dies at a step."""

from __future__ import annotations

import logging
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

import sqlalchemy

from flask_solid_objects.seams import Seams
from flask_solid_objects.values import EffectContext
from tests.actors import RuntimeUnderTest
from tests.runtime.crashes.child import DeadlyCheckpoints
from tests.runtime.outboxes import actors
from tests.runtime.outboxes.actors import EFFECTS, Till


class NotedOutside(actors.Outside):
    """An outside world that several processes share, and that survives them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def charge(self, context: EffectContext, amount: int) -> str:
        with self._path.open("a") as file:
            file.write(f"{context.id}\n")
        return super().charge(context, amount)


def main(told: Connection, url: str, path: str, step: str, _operation: str) -> None:
    """Run one pass of the effect role, and tell what happened by short texts."""
    logging.disable()
    actors.OUTSIDE = NotedOutside(Path(path))
    rt = RuntimeUnderTest(sqlalchemy.make_url(url), seams=Seams(checkpoints=DeadlyCheckpoints(step, told)), own=(Till,))
    rt.registry.effects = EFFECTS
    try:
        rt.runtime.effect_worker().run_once()
    except BaseException:
        told.send(traceback.format_exc())
        raise
    told.send("survived")
