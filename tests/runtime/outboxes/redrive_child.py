"""A process that runs redrives, and dies at a step of its second batch."""

from __future__ import annotations

import logging
import traceback
from multiprocessing.connection import Connection

import sqlalchemy

from flask_solid_objects.seams import Seams
from tests.actors import RuntimeUnderTest
from tests.runtime.crashes.child import DeadlyCheckpoints
from tests.runtime.outboxes.operating import runner_of

BATCH = 3


def main(told: Connection, url: str, _role: str, step: str, _operation: str) -> None:
    """Run two batches, and tell what happened by short texts."""
    logging.disable()
    checkpoints = DeadlyCheckpoints("none yet", told)
    rt = RuntimeUnderTest(
        sqlalchemy.make_url(url),
        seams=Seams(checkpoints=checkpoints),
        max_attempts=1,
        redrive_batch_size=BATCH,
        redrive_batch_pause=0.0,
    )
    try:
        runner = runner_of(rt)
        runner.step()
        checkpoints.step = step
        runner.step()
    except BaseException:
        told.send(traceback.format_exc())
        raise
    told.send("survived")
