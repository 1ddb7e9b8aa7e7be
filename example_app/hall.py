"""The hall of an event: what a seat is, when a hold is over, and how one visitor sees it all."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


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

    @property
    def is_held(self) -> bool:
        return not (self.paying or self.sold)


@dataclass
class SeatView:
    """One seat as one visitor sees it: free, held, sold, or of this visitor mine (held), paying or bought."""

    name: str
    status: str


@dataclass
class HallView:
    """The whole event for one visitor; ``key`` tells the visitor's payments apart by their newest hold."""

    rows: list[list[SeatView]] = field(default_factory=list)
    mine: list[str] = field(default_factory=list)
    paying: list[str] = field(default_factory=list)
    bought: list[str] = field(default_factory=list)
    key: str = ""
    problem: str | None = None
    held_until: datetime | None = None
    free: int = 0


def rows_of(rows: int, seats_per_row: int) -> list[list[str]]:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:rows]
    return [[f"{letter}{number}" for number in range(1, seats_per_row + 1)] for letter in letters]


def still_taken(seats: dict[str, Seat], now: datetime) -> dict[str, Seat]:
    """Seats whose hold has not run out, whoever cleans up the others."""
    return {name: seat for name, seat in seats.items() if seat.until is None or seat.until > now}


def hall_of(event: Any, holder: str, now: datetime) -> HallView:
    """The hall for one visitor, from what a live view sees of the actor."""
    seats = still_taken(event.seats, now)
    rows = [
        [SeatView(name, _status(seats.get(name), holder)) for name in row]
        for row in rows_of(event.rows, event.seats_per_row)
    ]
    own = {name: seat for name, seat in sorted(seats.items()) if seat.holder == holder}
    mine = {name: seat for name, seat in own.items() if seat.is_held}
    return HallView(
        rows=rows,
        mine=list(mine),
        paying=[name for name, seat in own.items() if seat.paying],
        bought=[name for name, seat in own.items() if seat.sold],
        key=str(max((seat.hold for seat in mine.values()), default="")),
        problem=event.declined.get(holder),
        held_until=min((seat.until for seat in mine.values() if seat.until is not None), default=None),
        free=sum(view.status == "free" for row in rows for view in row),
    )


def _status(seat: Seat | None, holder: str) -> str:
    if seat is None:
        return "free"
    if seat.holder == holder:
        return "bought" if seat.sold else "paying" if seat.paying else "mine"
    return "sold" if seat.sold else "held"
