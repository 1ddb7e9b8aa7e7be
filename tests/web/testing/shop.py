"""An app whose actors stage one of everything, for tests of what applications test their actors with."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import URL

from flask_solid_objects import Actor, ActorCallCycle, EffectContext, attribute, operation
from tests.apps import AppUnderTest


class Basket(Actor):
    """What needs nothing of its app."""

    log: list[str] = []
    items: int = attribute(0, observable=True)

    @operation
    def add(self, count: int = 1) -> int:
        self.items += count
        return self.items

    @operation
    def tell(self, other: str) -> None:
        type(self).ref(other).add.send(count=10)

    @operation
    def paid(self, result: str) -> None:
        self.log.append(result)

    @operation
    def declined(self, error: dict[str, Any]) -> None:
        self.log.append(f"declined: {error['message']}")

    @operation
    def remind(self, delay: float = 0.0, every: float | None = None) -> datetime:
        armed = self.ring.using(delay=delay, every=every).schedule()  # type: ignore[arg-type]
        return armed.next_run_at

    @operation
    def ring(self) -> None:
        due_at = self.context.due_at
        self.log.append("rang" if due_at is None else f"rang {due_at.isoformat()}")


class ShopUnderTest(AppUnderTest):
    """The usual app with a cart; ``charged`` is what its effects have done outside."""

    def __init__(self, url: URL, **config: Any) -> None:
        super().__init__(url, **config)
        self.charged: list[tuple[str, int]] = []
        # Raised in turn by what may fail.
        self.failures: list[Exception] = []
        self.charge, self.mail = self._make_effects()
        self.Cart: Any = self._make_cart()

    def _make_effects(self) -> tuple[Any, Any]:
        charged, failures = self.charged, self.failures

        @self.solid.effect
        def charge(context: EffectContext, *, cents: int) -> str:
            charged.append((context.id, context.attempt))
            if failures:
                raise failures.pop(0)
            return f"paid {cents}"

        @self.solid.effect
        def mail(context: EffectContext, *, to: str) -> None:
            charged.append((to, context.attempt))

        return charge, mail

    def _make_cart(self) -> Any:
        solid, charge, mail, failures = self.solid, self.charge, self.mail, self.failures

        @solid.actor
        class Cart(Basket):
            @operation
            def pay(self, cents: int = 5, delay: float = 0.0) -> str:
                effect_id: str = charge.using(on_success=self.paid, on_failure=self.declined, delay=delay).emit(
                    cents=cents
                )
                return effect_id

            @operation
            def pay_for_ever(self, result: str = "") -> None:
                charge.using(on_success=self.pay_for_ever).emit(cents=1)

            @operation
            def write_to(self, to: str) -> str:
                effect_id: str = mail.emit(to=to)
                return effect_id

            @operation
            def fail(self) -> None:
                if failures:
                    raise failures.pop(0)
                self.log.append("went well")

            @operation
            def drain(self) -> str:
                try:
                    return str(solid.testing.drain())
                except ActorCallCycle as error:
                    return str(error)

        return Cart
