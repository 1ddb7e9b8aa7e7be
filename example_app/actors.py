"""The actors of the shop: an event that sells its seats one turn at a time, and the ledger of what it earned.

A hold ends by its reminder, and counts as ended at its time even if nobody ran the reminder. The card is charged by an
effect; what the shop sold becomes a row of its own table in the commit of the same turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import current_app

from example_app import payments
from example_app.hall import Seat, rows_of, still_taken
from example_app.orders import Order
from flask_solid_objects import (
    Actor,
    CommitContext,
    EffectContext,
    EffectError,
    Rejected,
    SolidObjects,
    attribute,
    operation,
)

solid = SolidObjects()

HOLD_TIME = timedelta(minutes=5)


@dataclass
class Payment:
    """Seats that are being paid, by the id of the effect that charges the card."""

    holder: str
    seats: list[str]


@solid.effect(max_attempts=4)
def charge_card(context: EffectContext, *, card: str, cents: int) -> str:
    """Ask the payment provider; the effect's id makes a repeated charge the same charge."""
    folder = current_app.instance_path
    return payments.charge(folder, card=card, cents=cents, key=context.id, attempt=context.attempt)


@solid.effect
def void_charge(context: EffectContext, *, charge: str) -> None:
    """Take a charge back of which nobody knows whether it was made; harmless when it was not."""
    payments.void(current_app.instance_path, key=charge)


@solid.commit_action
def record_order(context: CommitContext, *, holder: str, seats: list[str], cents: int, receipt: str) -> None:
    """One row for what was sold, in the commit of the turn that sells it."""
    order = Order(
        event_id=context.actor_id,
        holder=holder,
        seats=", ".join(seats),
        cents=cents,
        receipt=receipt,
        sold_at=context.now,
    )
    context.session.add(order)


@solid.actor
class Event(Actor):
    """One event. Turns run one at a time, so that a seat is never sold twice, however many people press at once."""

    title: str = attribute("", observable=True)
    venue: str = attribute("", observable=True)
    rows: int = attribute(0, observable=True)
    seats_per_row: int = attribute(0, observable=True)
    price_cents: int = attribute(0, observable=True)
    seats: dict[str, Seat] = attribute(default_factory=dict, observable=True)
    holds: int = 0
    payments: dict[str, Payment] = attribute(default_factory=dict)
    declined: dict[str, str] = attribute(default_factory=dict, observable=True)

    @operation
    def open(self, title: str, venue: str, rows: int, seats_per_row: int, price_cents: int) -> None:
        """Put the event on sale."""
        if self.title:
            raise Rejected("already_open", "This event is on sale already.")
        self.title, self.venue, self.price_cents = title, venue, price_cents
        self.rows, self.seats_per_row = rows, seats_per_row

    @operation
    def hold(self, seat: str, holder: str) -> datetime:
        """Keep a free seat for somebody for five minutes; holding it again extends the time."""
        self._release_lapsed()
        if seat not in self._names():
            raise Rejected("no_such_seat", f"There is no seat {seat}.", details={"seat": seat})
        taken = self.seats.get(seat)
        if taken is not None and (taken.holder != holder or not taken.is_held):
            raise Rejected("seat_taken", f"Seat {seat} has just been taken.", details={"seat": seat})
        until = self.context.now + HOLD_TIME
        self.holds += 1
        self.seats[seat] = Seat(holder=holder, hold=self.holds, until=until)
        self.declined.pop(holder, None)
        self.expire.using(at=until, key=seat).schedule(seat=seat, hold=self.holds)
        return until

    @operation
    def expire(self, seat: str, hold: int) -> bool:
        """The time of a hold is over; a newer hold of the same seat stays, and so does a sale."""
        taken = self.seats.get(seat)
        if taken is None or taken.hold != hold or not taken.is_held:
            return False
        del self.seats[seat]
        return True

    @operation
    def release(self, seat: str, holder: str) -> bool:
        """Give a held seat back; False when there was nothing to give back."""
        self._release_lapsed()
        taken = self.seats.get(seat)
        if taken is None or taken.holder != holder or not taken.is_held:
            return False
        del self.seats[seat]
        self.expire.unschedule(key=seat)
        return True

    @operation
    def confirm(self, holder: str, card: str) -> list[str]:
        """Have every seat that somebody holds paid; they are sold once the card was charged."""
        self._release_lapsed()
        own = {name: seat for name, seat in sorted(self.seats.items()) if seat.holder == holder}
        mine = [name for name, seat in own.items() if seat.is_held]
        if not mine:
            if any(seat.paying for seat in own.values()):
                raise Rejected("being_paid", "Your seats are being paid already.")
            raise Rejected("nothing_held", "Your hold has run out. Choose your seats again.")
        for name in mine:
            self.seats[name].paying, self.seats[name].until = True, None
            self.expire.unschedule(key=name)
        self.declined.pop(holder, None)
        charge = charge_card.using(on_success=self.paid, on_failure=self.refused)
        effect_id = charge.emit(card=card, cents=self.price_cents * len(mine))
        self.payments[effect_id] = Payment(holder, mine)
        return mine

    @operation
    def paid(self, effect_id: str, result: str) -> None:
        """The card was charged: the seats are sold, with a row of the shop and a line in the ledger."""
        payment = self.payments.pop(effect_id, None)
        if payment is None:
            # An operator has repeated a charge that was given up, and its seats are free or somebody else's by now.
            void_charge.emit(charge=effect_id)
            return
        for name in payment.seats:
            self.seats[name] = Seat(holder=payment.holder, sold=True)
        cents = self.price_cents * len(payment.seats)
        record_order.stage(holder=payment.holder, seats=payment.seats, cents=cents, receipt=result)
        Ledger.ref(self.actor_id).note.send(text=f"Sold {', '.join(payment.seats)}.", cents=cents)

    @operation
    def refused(self, effect_id: str, error: EffectError) -> None:
        """The card was not charged: the seats are free again, and the visitor is told why."""
        reason = error["message"]
        if error["outcome"] != "rejected":
            # The bank may have taken the money, and only its answer was lost.
            void_charge.emit(charge=effect_id)
            reason = "The bank did not answer. Nothing will be charged."
        payment = self.payments.pop(effect_id, None)
        if payment is not None:
            for name in payment.seats:
                del self.seats[name]
            self.declined[payment.holder] = reason

    def _names(self) -> set[str]:
        return {name for row in rows_of(self.rows, self.seats_per_row) for name in row}

    def _release_lapsed(self) -> None:
        self.seats = still_taken(self.seats, self.context.now)


@solid.actor
class Ledger(Actor):
    """What an event has earned. The event only sends to it; workers do the writing."""

    lines: list[str] = attribute(default_factory=list, observable=True)
    total_cents: int = attribute(0, observable=True)

    @operation
    def note(self, text: str, cents: int) -> int:
        """Add a line; keeps the last twenty."""
        self.lines = [*self.lines, text][-20:]
        self.total_cents += cents
        return self.total_cents
