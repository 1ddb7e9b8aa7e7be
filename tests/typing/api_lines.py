"""Lines of the public API; the comment of each reveal_type is what both checkers have to infer."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import reveal_type

from flask_sqlalchemy import SQLAlchemy

from flask_solid_objects import Actor, SolidObjects, attribute, observable, operation, query

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
reveal_type(Named.ref("x").increment(1))  # int
reveal_type(Named.ref("x"))  # Named
