"""Each line from the first call on is a mistake that both checkers have to refuse."""

from __future__ import annotations

from flask_solid_objects import Actor, CommitContext, EffectContext, SolidObjects, operation, query

solid = SolidObjects()


@solid.actor
class Counter(Actor):
    value: int = 0

    @operation
    def increment(self, amount: int = 1) -> int:
        return amount

    @query
    def doubled(self) -> int:
        return 2


@solid.effect
def charge(context: EffectContext, *, amount: int) -> str:
    return str(amount)


@solid.commit_action
def record(context: CommitContext, *, order_id: int) -> None: ...


counter = Counter.ref("global")
# -- mistakes --
counter.increment(amount="5")
counter.increment(other=5)
counter.increment(1, 2)
counter.increment.send(amount="5")
counter.increment.using(delay="soon")
counter.increment.using(priority=1)
counter.increment.using(timeout=2)(amount="5")
counter.increment.using(delay=2).send("5")
counter.doubled.send()
counter.doubled(1)
counter.doubled.using(delay=1)
counter.missing()
counter.value.missing()
Counter.ref(5)
counter.destroy(1)
counter.diagnostics(10)
counter.diagnostics(limit="10")
counter.observe(print, 5)
counter.observe("message.completed")
text: str = counter.increment()
charge.emit(amount="5")
charge.emit(5)
charge.using(on_done=1)
charge.using(delay=1).emit(other=1)
record.stage(order="7")
record.stage()
counter.increment.using(every=60).schedule(amount="5")
counter.increment.using(missed="some")
counter.increment.unschedule(name="x")
