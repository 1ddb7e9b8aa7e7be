"""Actors that stage everything there is, the outside world of their effects, and roles run in the test's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.attribute import attribute
from flask_solid_objects.actors.effects import EffectRegistry
from flask_solid_objects.actors.observable import observable
from flask_solid_objects.actors.operation import operation, query
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.errors import NonRetryableError, Rejected
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.values import EffectContext, EffectError
from tests.actors import RuntimeUnderTest

EFFECTS = EffectRegistry()


class Outside:
    """The outside world: what was asked of it, and what it answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[EffectContext, int]] = []
        self.answer: Callable[[EffectContext, int], str] = lambda context, amount: f"paid {amount}"
        self._lock = threading.Lock()

    def charge(self, context: EffectContext, amount: int) -> str:
        with self._lock:
            self.calls.append((context, amount))
        return self.answer(context, amount)

    @property
    def amounts(self) -> list[int]:
        return [amount for _, amount in self.calls]

    @property
    def ids(self) -> list[str]:
        return [context.id for context, _ in self.calls]


OUTSIDE = Outside()


def _charge(context: EffectContext, *, amount: int) -> str:
    return OUTSIDE.charge(context, amount)


charge = EFFECTS.register(_charge, "charge", None)


class Till(Actor):
    """Emits effects, and hears how they ended."""

    log: list[str] = []
    total: int = attribute(0, observable=True)

    @observable(broadcast="value")
    def parity(self) -> str:
        return "even" if self.total % 2 == 0 else "odd"

    @operation
    def pay(self, amount: int, times: int = 1) -> list[str]:
        verb = charge.using(on_success=self.paid, on_failure=self.declined)
        return [verb.emit(amount=amount + number) for number in range(times)]

    @operation
    def pay_quietly(self, amount: int, attempts: int | None = None, delay: float = 0.0) -> str:
        return charge.using(max_attempts=attempts, delay=delay).emit(amount=amount)

    @operation
    def pay_with_recovery(self, amount: int, timeout: float | None = None) -> str:
        return charge.using(
            on_success=self.paid, on_recovery=self.abandoned, on_status=self.told, recovery_timeout=timeout
        ).emit(amount=amount)

    @operation
    def pay_and_raise(self, amount: int) -> None:
        charge.emit(amount=amount)
        raise RuntimeError("after the emit")

    @operation
    def ask(self, effect_id: str) -> None:
        charge.using(on_status=self.told).request_status(effect_id)

    @operation
    def paid(self, effect_id: str, result: str) -> None:
        self.log.append(result)
        self.total += 1

    @operation
    def declined(self, error: EffectError, arguments: dict[str, Any]) -> None:
        self.log.append(f"declined {arguments['amount']}: {error['class']}")

    @operation
    def abandoned(self, outcome: str, arguments: dict[str, Any]) -> None:
        self.log.append(f"{outcome} {arguments['amount']}")

    @operation
    def told(self, outcome: str, result: str | None = None) -> None:
        self.log.append(f"told {outcome} {result}")

    @operation
    def add(self, amount: int = 1) -> int:
        self.total += amount
        return self.total

    @operation
    def read_log(self) -> list[str]:
        return self.log

    @query
    def emit_in_query(self) -> str:
        return charge.emit(amount=1)


class Sender(Actor):
    """Sends to other actors."""

    sent: int = 0

    def _receiver(self, actor_id: str) -> Any:
        """A reference to the receiver of this class's own runtime."""
        registry: Registry = type(self)._solid_registry  # type: ignore[attr-defined]
        return make_reference(registry, registry.get("Receiver"), actor_id)

    @operation
    def tell(self, receivers: list[str], entry: str, times: int = 1) -> list[str]:
        ids = [
            self._receiver(receiver).hear.send(entry=f"{entry}{number}").request_id
            for receiver in receivers
            for number in range(times)
        ]
        self.sent += len(ids)
        return ids

    @operation
    def tell_later(self, receiver: str, entry: str, delay: float) -> None:
        self._receiver(receiver).hear.using(delay=delay).send(entry=entry)

    @operation
    def tell_once(self, receiver: str, entry: str, key: str) -> None:
        self._receiver(receiver).hear.using(idempotency_key=key).send(entry=entry)

    @operation
    def tell_and_raise(self, receiver: str) -> None:
        self._receiver(receiver).hear.send(entry="never")
        raise Rejected("no")

    @operation
    def send_any(self, receiver: str, operation: str, arguments: dict[str, Any]) -> str:
        request_id: str = getattr(self._receiver(receiver), operation).send(**arguments).request_id
        return request_id

    @operation
    def read_unsent(self, receiver: str) -> list[str | None]:
        message = self._receiver(receiver).hear.send(entry="x")
        return [message.status().value, None if message.id is None else "numbered", message.request_id]

    @operation
    def tell_and_fail(self, receiver: str) -> None:
        self._receiver(receiver).hear.send(entry="never")
        raise NonRetryableError("no")

    @operation
    def tell_self(self, entry: str) -> None:
        self.hear_self.send(entry=entry)

    @operation
    def hear_self(self, entry: str) -> None:
        self.sent += 100


class Receiver(Actor):
    """Hears."""

    heard: list[str] = []

    @operation
    def hear(self, entry: str) -> None:
        self.heard.append(entry)

    @operation
    def explode(self) -> None:
        raise RuntimeError("no")


class Alarm(Actor):
    """Arms reminders of itself."""

    rung: list[str] = []
    contexts: list[dict[str, Any]] = []

    @operation
    def arm(self, delay: float, key: str | None = None, note: str = "ring") -> None:
        self.ring.using(delay=delay, key=key).schedule(note=note)

    @operation
    def arm_every(self, every: float, missed: str | None = None, key: str | None = None, delay: float = 0.0) -> None:
        self.ring.using(every=every, missed=missed, key=key, delay=delay).schedule(note="tick")  # type: ignore[arg-type]

    @operation
    def arm_cron(self, cron: str, timezone: str) -> str:
        return self.ring.using(cron=cron, timezone=timezone).schedule(note="cron").next_run_at.isoformat()

    @operation
    def rearm(self, delay: float) -> list[str]:
        self.ring.unschedule_all()
        self.ring.using(delay=delay).schedule(note="again")
        return [each.operation for each in self.ring.reminders()]

    @operation
    def disarm(self, key: str | None = None) -> None:
        self.ring.unschedule(key=key)

    @operation
    def disarm_all(self) -> None:
        self.ring.unschedule_all()

    @operation
    def arm_many(self, count: int, delay: float = 0.0) -> None:
        for number in range(count):
            self.ring.using(delay=delay, key=number).schedule(note=str(number))

    @operation
    def arm_then_cancel(self, delay: float) -> int:
        self.ring.using(delay=delay).schedule(note="never")
        self.ring.unschedule()
        return len(self.ring.reminders())

    @operation
    def cancel_then_arm(self, delay: float) -> int:
        self.ring.unschedule()
        self.ring.using(delay=delay).schedule(note="anew")
        found = self.ring.reminder()
        return -1 if found is None else found.occurrence

    @operation
    def arm_and_raise(self) -> None:
        self.ring.using(delay=0.0).schedule(note="never")
        raise Rejected("no")

    @operation
    def try_arm(self, options: dict[str, Any]) -> str:
        """What is wrong with these options."""
        at = options.get("at")
        given = options if at is None else {**options, "at": datetime.fromisoformat(at)}
        try:
            self.ring.using(**given).schedule(note="x")
        except (TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        return "nothing"

    @operation
    def look(self) -> list[str | None]:
        return [each.key for each in self.ring.reminders()]

    @query
    def due_in(self, key: str | None = None) -> float | None:
        found = self.ring.reminder(key=key)
        return None if found is None else (found.next_run_at - self.context.now) / timedelta(seconds=1)

    @operation
    def ring(self, note: str) -> None:
        self.rung.append(note)
        context = self.context
        self.contexts.append({"missed": context.missed, "due_at": context.due_at and context.due_at.isoformat()})


class Roles:
    """One of each role of a runtime, run pass by pass in the test's own thread."""

    def __init__(self, rt: RuntimeUnderTest) -> None:
        rt.registry.effects = EFFECTS
        self.rt = rt
        self.worker, self.effects = rt.runtime.worker(), rt.runtime.effect_worker()
        self.scheduler, self.broadcaster = rt.runtime.scheduler(), rt.runtime.broadcaster()

    def settle(self, *, passes: int = 500) -> None:
        """Run everything until nothing is left to do now."""
        for _ in range(passes):
            worked = [role.run_once() for role in self._all]
            if not any(worked):
                return
        raise AssertionError(f"still busy after {passes} passes")

    @property
    def _all(self) -> tuple[Role, ...]:
        return self.worker, self.effects, self.scheduler, self.broadcaster

    def close(self) -> None:
        for role in self._all:
            role.stop()
            role._leave()
