"""A process that runs one pass of a role on the actors of this folder, and dies at a step of it."""

from __future__ import annotations

import logging
import traceback
from multiprocessing.connection import Connection

import sqlalchemy

from flask_solid_objects.seams import Seams
from tests.actors import RuntimeUnderTest
from tests.runtime.crashes.child import DeadlyCheckpoints
from tests.runtime.outboxes.actors import Alarm, Receiver, Sender, Till


def main(told: Connection, url: str, role: str, step: str, _operation: str) -> None:
    """Run a pass of ``scheduler`` or ``broadcaster``, and tell what happened by short texts."""
    logging.disable()
    seams = Seams(checkpoints=DeadlyCheckpoints(step, told))
    rt = RuntimeUnderTest(sqlalchemy.make_url(url), seams=seams, own=(Till, Sender, Receiver, Alarm))
    try:
        getattr(rt.runtime, role)().run_once()
    except BaseException:
        told.send(traceback.format_exc())
        raise
    told.send("survived")
