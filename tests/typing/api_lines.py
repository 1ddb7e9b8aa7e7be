"""Lines of the public API; the comment of each reveal_type is what both checkers have to infer."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import reveal_type

from flask_sqlalchemy import SQLAlchemy

from flask_solid_objects import (
    Actor,
    CommitContext,
    EffectContext,
    Event,
    Rejected,
    SolidObjects,
    attribute,
    observable,
    operation,
    query,
)

solid = SolidObjects()
db = SQLAlchemy()


@solid.actor
class Counter(Actor):
    value: int = 0
    notes: list[str] = attribute(default_factory=list, observable=True)
    title: str = attribute("", observable="value")

    @operation
    def increment(self, amount: int = 1) -> int:
        self.value += amount
        reveal_type(self.increment(amount=2))  # int
        return self.value

    @query
    def doubled(self) -> int:
        return self.value * 2

    @observable(broadcast="value")
    def parity(self) -> str:
        return "even" if self.value % 2 == 0 else "odd"

    @observable
    def half(self) -> float:
        return self.value / 2


@solid.actor("named", aliases=("old",))
class Named(Counter):
    @operation
    def increment(self, amount: int = 1) -> int:
        return super().increment(amount)


def hear(event: Event) -> None:
    reveal_type(event.envelope()["name"])  # Any
    reveal_type(event.actor_id)  # str | None


counter = Counter.ref("global")
reveal_type(counter)  # Counter
reveal_type(counter.increment(amount=5))  # int
reveal_type(counter.increment(5))  # int
reveal_type(counter.doubled())  # int
reveal_type(counter.value)  # int
reveal_type(counter.notes)  # list[str]
reveal_type(counter.title)  # str
reveal_type(counter.parity)  # str
reveal_type(counter.half)  # float
reveal_type(counter.snapshot().value)  # int
reveal_type(counter.snapshot().parity)  # str
reveal_type(counter.increment.send(amount=5))  # Message[int]
reveal_type(counter.increment.send(amount=5).wait(timeout=1))  # int
reveal_type(counter.increment.send(amount=5).result())  # int | None
reveal_type(counter.increment.using(timeout=2, idempotency_key="k", context=object())(amount=5))  # int
reveal_type(counter.increment.using(delay=600, session=db.session).send())  # Message[int]
reveal_type(counter.increment.using(at=datetime.now()).send())  # Message[int]
reveal_type(counter.doubled.using(timeout=timedelta(seconds=1))())  # int
reveal_type(counter.using(context=object()).value)  # int
reveal_type(counter.destroy())  # bool
reveal_type(counter.diagnostics(limit=10, context=object()))  # ActorDiagnostics
reveal_type(counter.diagnostics().mailbox.oldest_age_milliseconds)  # int | None
with counter.observe(hear, "message.completed", context=object()) as observation:
    reveal_type(observation)  # Observation
    reveal_type(observation())  # None
reveal_type(Named.ref("x").increment(1))  # int
reveal_type(Named.ref("x"))  # Named


@solid.effect
def charge_payment(context: EffectContext, *, payment_id: str, amount_cents: int) -> str:
    reveal_type(context.id)  # str
    return payment_id


@solid.effect(name="refund", max_attempts=3)
def refund_payment(context: EffectContext, *, payment_id: str) -> None: ...


@solid.commit_action
def record_order(context: CommitContext, *, order_id: int) -> None:
    reveal_type(context.session)  # Session


@solid.actor
class Audit(Actor):
    @operation
    def record(self, event: str) -> int:
        return len(event)


@solid.actor
class Cart(Actor):
    status: str = "open"

    @operation
    def checkout(self, payment_id: str) -> None:
        if self.status != "open":
            raise Rejected("not_open", "This cart is already checked out", details={"status": self.status})
        paid = charge_payment.using(on_success=self.paid, on_failure=self.declined, recovery_timeout=60)
        reveal_type(paid.emit(payment_id=payment_id, amount_cents=1999))  # str
        reveal_type(refund_payment.emit(payment_id=payment_id))  # str
        reveal_type(record_order.stage(order_id=7))  # None
        expire = self.expire.using(at=self.context.now + timedelta(minutes=30), key=payment_id)
        reveal_type(expire.schedule(payment_id=payment_id))  # Reminder
        reveal_type(self.expire.using(every=timedelta(hours=1), missed="all").schedule(payment_id="p"))  # Reminder
        reveal_type(self.expire.using(cron="30 2 * * *", timezone="Europe/Berlin").schedule("p"))  # Reminder
        reveal_type(self.expire.unschedule(key=payment_id))  # None
        reveal_type(self.expire.unschedule_all())  # None
        reveal_type(self.expire.reminder(key=payment_id))  # Reminder | None
        reveal_type(self.expire.reminders())  # list[Reminder]
        reveal_type(Audit.ref("global").record.send(event="checkout"))  # Message[int]
        reveal_type(self.expire.send(payment_id=payment_id))  # Message[None]

    @operation
    def paid(self, effect_id: str, result: str) -> None: ...

    @operation
    def declined(self, error: dict[str, str]) -> None: ...

    @operation
    def expire(self, payment_id: str) -> None: ...
