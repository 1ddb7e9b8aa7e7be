"""One process of the outbox campaign: its turns emit, send, schedule and broadcast, while every role runs in it.

``outbox_child.py URL SHARE SHARES OPERATIONS ACTORS OUTSIDE``. The outside world is a file to which effects append.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import Any

import sqlalchemy

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.attribute import attribute
from flask_solid_objects.actors.effects import EffectRegistry
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.cli.work import stop_on_signals
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.runtime.runtime import RoleCounts
from flask_solid_objects.values import EffectContext
from tests.actors import RuntimeUnderTest

LEASE = 2.0
EFFECTS = EffectRegistry()
_outside: list[str] = []


def _touch(context: EffectContext, *, number: int) -> int:
    """One line per execution; a short append is whole, whoever else writes."""
    line = f"{context.id} {number} {context.attempt}\n".encode()
    handle = os.open(_outside[0], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)
    return number


touch = EFFECTS.register(_touch, "touch", None)


class Stepper(Actor):
    """Every step stages one of everything."""

    steps: list[int] = attribute(default_factory=list, observable=True)
    done: list[int] = []
    rung: list[int] = []

    @operation
    def step(self, number: int, hearer: str) -> None:
        self.steps.append(number)
        touch.using(on_success=self.touched).emit(number=number)
        self._hearer(hearer).hear.send(sender=self.actor_id, number=number)
        self.ring.using(delay=0, key=number).schedule(number=number)

    @operation
    def touched(self, result: int) -> None:
        self.done.append(result)

    @operation
    def ring(self, number: int) -> None:
        self.rung.append(number)

    def _hearer(self, actor_id: str) -> Any:
        registry: Registry = type(self)._solid_registry  # type: ignore[attr-defined]
        return make_reference(registry, registry.get("Hearer"), actor_id)


class Hearer(Actor):
    """Hears from several senders."""

    heard: list[list[Any]] = []

    @operation
    def hear(self, sender: str, number: int) -> None:
        self.heard.append([sender, number])


def main(url: str, share: int, shares: int, operations: int, actors: int, outside: str) -> None:
    _outside.append(outside)
    runtime = RuntimeUnderTest(
        sqlalchemy.make_url(url),
        own=(Stepper, Hearer),
        lease_duration=LEASE,
        lease_renewal_interval=0.5,
        process_heartbeat_interval=0.5,
        process_alive_threshold=3.0,
        dead_process_cleanup_interval=1.0,
    )
    runtime.registry.effects = EFFECTS
    supervisor = runtime.runtime.supervisor(RoleCounts())
    stop_on_signals(supervisor.stop)
    client = threading.Thread(target=issue, args=(runtime, share, shares, operations, actors))
    client.start()
    supervisor.run()
    client.join()
    runtime.close()
    print("stopped", flush=True)


def issue(runtime: RuntimeUnderTest, share: int, shares: int, operations: int, actors: int) -> None:
    """Send every step of this share; any error is printed, and is a failure of the campaign."""
    try:
        for number in range(share, operations, shares):
            step = runtime.ref("Stepper", str(number % actors)).step
            step.using(idempotency_key=str(number)).send(number=number, hearer=f"h{number % 3}")
    except BaseException:
        print("ERROR " + traceback.format_exc().replace("\n", " | "), flush=True)
    else:
        print("issued", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *(int(argument) for argument in sys.argv[2:6]), sys.argv[6])
