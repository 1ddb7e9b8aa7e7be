"""The actors of the shop: an event that sells its seats one turn at a time, and the ledger that workers keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from flask_solid_objects import Actor, SolidObjects, attribute, operation, query
from flask_solid_objects.errors import Rejected

solid = SolidObjects()

HOLD_TIME = timedelta(minutes=5)


@dataclass
class Seat:
    """A seat that is held or sold; a free one has no entry."""

    holder: str
    sold: bool = False
    until: datetime | None = None


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
    bought: list[str] = field(default_factory=list)
    held_until: datetime | None = None
    free: int = 0


@solid.actor
class Event(Actor):
    """One event. Turns run one at a time, so that a seat is never sold twice, however many people press at once."""

    title: str = ""
    venue: str = ""
    rows: int = 0
    seats_per_row: int = 0
    price_cents: int = 0
    seats: dict[str, Seat] = attribute(default_factory=dict)

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
        until = self.context.now + HOLD_TIME
        self.seats[seat] = Seat(holder=holder, until=until)
        return until

    @operation
    def release(self, seat: str, holder: str) -> bool:
        """Give a held seat back; False when there was nothing to give back."""
        self._release_lapsed()
        taken = self.seats.get(seat)
        if taken is None or taken.sold or taken.holder != holder:
            return False
        del self.seats[seat]
        return True

    @operation
    def confirm(self, holder: str) -> list[str]:
        """Sell every seat that somebody holds."""
        self._release_lapsed()
        mine = sorted(name for name, seat in self.seats.items() if seat.holder == holder and not seat.sold)
        if not mine:
            raise Rejected("nothing_held", "Your hold has run out. Choose your seats again.")
        for name in mine:
            self.seats[name] = Seat(holder=holder, sold=True)
        return mine

    @query
    def view(self, holder: str) -> EventView:
        """The event as one visitor sees it."""
        rows = [[SeatView(name, self._status(name, holder)) for name in row] for row in self._rows()]
        held = {name: seat for name, seat in self._live().items() if seat.holder == holder}
        times = [seat.until for seat in held.values() if seat.until is not None]
        return EventView(
            title=self.title,
            venue=self.venue,
            price_cents=self.price_cents,
            rows=rows,
            mine=sorted(name for name, seat in held.items() if not seat.sold),
            bought=sorted(name for name, seat in held.items() if seat.sold),
            held_until=min(times, default=None),
            free=sum(view.status == "free" for row in rows for view in row),
        )

    def _rows(self) -> list[list[str]]:
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: self.rows]
        return [[f"{letter}{number}" for number in range(1, self.seats_per_row + 1)] for letter in letters]

    def _names(self) -> set[str]:
        return {name for row in self._rows() for name in row}

    def _live(self) -> dict[str, Seat]:
        """Seats whose hold has not run out; the time is the database's."""
        now = self.context.now
        return {name: seat for name, seat in self.seats.items() if seat.sold or seat.until is None or seat.until > now}

    def _release_lapsed(self) -> None:
        self.seats = self._live()

    def _status(self, name: str, holder: str) -> str:
        seat = self._live().get(name)
        if seat is None:
            return "free"
        if seat.holder == holder:
            return "bought" if seat.sold else "mine"
        return "sold" if seat.sold else "held"


@solid.actor
class Ledger(Actor):
    """What an event has earned. The shop only sends to it; workers do the writing."""

    lines: list[str] = []
    total_cents: int = 0

    @operation
    def note(self, text: str, cents: int) -> int:
        """Add a line; keeps the last twenty."""
        self.lines = [*self.lines, text][-20:]
        self.total_cents += cents
        return self.total_cents
