"""A process that has claimed an effect and is not heard of any more, beside one that lives."""

from __future__ import annotations

from datetime import datetime, timedelta

from flask_solid_objects.store.effects import EffectRow
from tests.actors import RuntimeUnderTest
from tests.runtime.outboxes.actors import Roles
from tests.runtime.outboxes.rows import execute


class Crashing:
    """A process that has claimed effects and was not heard of since, beside one that lives."""

    def __init__(self, dead: Roles, alive: Roles) -> None:
        self.dead, self.alive = dead, alive

    def claim(self) -> EffectRow:
        """The dead process claims the next effect, and says no more."""
        row = self.dead.effects._claim()
        assert row is not None
        return row

    def silence(self, seconds: int = 3600) -> None:
        """Move the last sign of life of the dead process into the past."""
        process_id = self.dead.effects.registration.id
        past = self.alive.rt.database.dialect.encode_time(_shifted(self.alive.rt, seconds))
        statement = "UPDATE solid_objects_processes SET last_heartbeat_at = :past WHERE id = :id"
        assert execute(self.alive.rt, statement, past=past, id=process_id) == 1

    def recover(self) -> None:
        """What maintenance and the effect role of the living process do now and then."""
        self.alive.rt.runtime.operators.clean_up()
        self.alive.effects._recovering.retire_abandoned()


def _shifted(rt: RuntimeUnderTest, seconds: int) -> datetime:
    return rt.database.read(lambda tx: tx.now()) - timedelta(seconds=seconds)
