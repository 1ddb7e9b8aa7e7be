"""An actor that pays, fails, refuses, and keeps secrets in every place where one can be."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from flask_solid_objects import Actor, EffectContext, Rejected, attribute, operation, parameter

Secret = Annotated[str, parameter(sensitive=True)]


def charge(context: EffectContext, *, card: Secret, cents: int) -> str:
    """Work outside that always fails."""
    raise RuntimeError("the bank is away")


class Account(Actor):
    """Registered by each site as a subclass of its own."""

    charge: ClassVar[Any]

    cents: int = attribute(0, observable=True)
    pin: str = attribute("pin-4711", sensitive=True)
    address: str = "Elm Street 1"

    @operation
    def pay(self, cents: int, note: str = "") -> int:
        self.cents += cents
        return self.cents

    @operation
    def fail(self, text: str) -> None:
        raise RuntimeError(text)

    @operation
    def refuse(self, text: str = "no", why: str = "") -> None:
        raise Rejected("refused", text, details={"why": why})

    @operation
    def settle(self, card: Secret, cents: int = 1) -> None:
        raise RuntimeError("not settled")

    @operation
    def sign(self) -> Secret:
        return "sig-4711"

    @operation
    def charge_card(self, card: Secret = "card-4711") -> str:
        return str(self.charge.emit(card=card, cents=5))

    @operation
    def tell(self, other: str, card: Secret = "card-4711") -> None:
        type(self).ref(other).settle.send(card=card)

    @operation
    def arm(self, key: str = "k", every: float | None = None) -> None:
        delay = 3600.0 if every is None else None
        self.settle.using(delay=delay, every=every, key=key).schedule(card="card-4711")
