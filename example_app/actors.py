"""The actors of the shop: an event that sells its seats one turn at a time, and the ledger of what it earned.

A hold ends by its reminder, and counts as ended at its time even if nobody ran the reminder. The card is charged by an
effect; what the shop sold becomes a row of its own table in the commit of the same turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flask import current_app

from example_app import payments
from example_app.orders import Order
from flask_solid_objects import Actor, CommitContext, EffectContext, SolidObjects, attribute, operation, query
from flask_solid_objects.errors import Rejected

solid = SolidObjects()

HOLD_TIME = timedelta(minutes=5)


@dataclass
class Seat:
    """A seat that is held, being paid or sold; a free one has no entry.

    ``hold`` tells holds of one seat apart, so that the end of an old one cannot free a newer one.
    """

    holder: str
    hold: int = 0
    paying: bool = False
    sold: bool = False
    until: datetime | None = None


@dataclass
class Payment:
    """Seats that are being paid, by the id of the effect that charges the card."""

    holder: str
    seats: list[str]


@dataclass
class SeatView:
    """One seat as one visitor sees it: free, held, sold, mine (held by me) or bought (by me)."""

    name: str
    status: str


@dataclass
class EventView:
    """The whole event for one visitor."""

    title: str
    venue: str
    price_cents: int
    rows: list[list[SeatView]] = field(default_factory=list)
    mine: list[str] = field(default_factory=list)
    paying: list[str] = field(default_factory=list)
    bought: list[str] = field(default_factory=list)
    problem: str | None = None
    held_until: datetime | None = None
    free: int = 0


@solid.effect
def charge_card(context: EffectContext, *, card: str, amount_cents: int) -> str:
    """Ask the payment provider; the effect's id makes a repeated charge the same charge."""
    return payments.charge(current_app.instance_path, card=card, amount_cents=amount_cents, key=context.id)


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
        if taken is not None and (taken.sold or taken.holder != holder):
            raise Rejected("seat_taken", f"Seat {seat} has just been taken.", details={"seat": seat})
        if taken is not None and taken.paying:
            raise Rejected("being_paid", f"Seat {seat} is being paid.", details={"seat": seat})
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
        if taken is None or taken.hold != hold or taken.sold or taken.paying:
            return False
        del self.seats[seat]
        return True

    @operation
    def release(self, seat: str, holder: str) -> bool:
        """Give a held seat back; False when there was nothing to give back."""
        self._release_lapsed()
        taken = self.seats.get(seat)
        if taken is None or taken.sold or taken.paying or taken.holder != holder:
            return False
        del self.seats[seat]
        self.expire.unschedule(key=seat)
        return True

    @operation
    def confirm(self, holder: str, card: str) -> list[str]:
        """Have every seat that somebody holds paid; they are sold once the card was charged."""
        self._release_lapsed()
        mine = sorted(
            name for name, seat in self.seats.items() if seat.holder == holder and not (seat.sold or seat.paying)
        )
        if not mine:
            raise Rejected("nothing_held", "Your hold has run out. Choose your seats again.")
        for name in mine:
            self.seats[name].paying, self.seats[name].until = True, None
            self.expire.unschedule(key=name)
        self.declined.pop(holder, None)
        charge = charge_card.using(on_success=self.paid, on_failure=self.refused)
        effect_id = charge.emit(card=card, amount_cents=self.price_cents * len(mine))
        self.payments[effect_id] = Payment(holder, mine)
        return mine

    @operation
    def paid(self, effect_id: str, result: str) -> None:
        """The card was charged: the seats are sold, with a row of the shop and a line in the ledger."""
        payment = self.payments.pop(effect_id)
        for name in payment.seats:
            self.seats[name] = Seat(holder=payment.holder, sold=True)
        cents = self.price_cents * len(payment.seats)
        record_order.stage(holder=payment.holder, seats=payment.seats, cents=cents, receipt=result)
        Ledger.ref(self.actor_id).note.send(text=f"Sold {', '.join(payment.seats)}.", cents=cents)

    @operation
    def refused(self, effect_id: str, error: dict[str, Any]) -> None:
        """The card was not charged: the seats are free again, and the visitor is told why."""
        payment = self.payments.pop(effect_id)
        for name in payment.seats:
            self.seats.pop(name, None)
        self.declined[payment.holder] = str(error.get("message") or "The payment did not work.")

    @query
    def view(self, holder: str) -> EventView:
        """The event as one visitor sees it, in order behind every change made before."""
        return view_of(self, holder, self.context.now)

    def _names(self) -> set[str]:
        return {name for row in _rows(self.rows, self.seats_per_row) for name in row}

    def _release_lapsed(self) -> None:
        self.seats = _live(self.seats, self.context.now)


def view_of(event: Any, holder: str, now: datetime) -> EventView:
    """The hall for one visitor, from the actor itself or from what a live view sees of it."""
    seats: dict[str, Seat] = _live(event.seats, now)
    rows = [
        [SeatView(name, _status(seats.get(name), holder)) for name in row]
        for row in _rows(event.rows, event.seats_per_row)
    ]
    held = {name: seat for name, seat in seats.items() if seat.holder == holder}
    times = [seat.until for seat in held.values() if seat.until is not None]
    return EventView(
        title=event.title,
        venue=event.venue,
        price_cents=event.price_cents,
        rows=rows,
        mine=sorted(name for name, seat in held.items() if not (seat.sold or seat.paying)),
        paying=sorted(name for name, seat in held.items() if seat.paying),
        bought=sorted(name for name, seat in held.items() if seat.sold),
        problem=event.declined.get(holder),
        held_until=min(times, default=None),
        free=sum(view.status == "free" for row in rows for view in row),
    )


def _rows(rows: int, seats_per_row: int) -> list[list[str]]:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:rows]
    return [[f"{letter}{number}" for number in range(1, seats_per_row + 1)] for letter in letters]


def _live(seats: dict[str, Seat], now: datetime) -> dict[str, Seat]:
    """Seats whose hold has not run out."""
    return {name: seat for name, seat in seats.items() if seat.sold or seat.until is None or seat.until > now}


def _status(seat: Seat | None, holder: str) -> str:
    if seat is None:
        return "free"
    if seat.holder == holder:
        return "bought" if seat.sold else "paying" if seat.paying else "mine"
    return "sold" if seat.sold else "held"


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
