"""When a recurring reminder rings next: every so often, or by a cron expression in a time zone. Pure functions.

Cron under clock changes: a fixed local time that is skipped runs once, right after the gap; one that repeats runs the
first time only. With a wildcard in the minute or hour, each moment at which the clock reads a match runs: the
repeated hour runs again, the skipped one does not run. Results are aware, in UTC, and never later than END_OF_TIME.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

END_OF_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)
MOST_MISSED: Final = 10_000
_SHORTEST = timedelta(milliseconds=1)
_LONGEST = timedelta(days=36_525)
# Every date that exists returns within 40 years (29 February on a given weekday, across 2100); cronsim stops there too.
_YEARS_TO_SEARCH = 50
# Every zone can say in UTC what it reads until then.
_LAST_READING = END_OF_TIME.replace(tzinfo=None) + timedelta(days=1)
# The rules of most zones are settled from here on, so that what never fires after it never will.
_CHECKED_FROM = datetime(2025, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """Where a recurrence goes after it fired, and how many occurrences are left out; cron counts up to MOST_MISSED.

    A ``next_due`` of END_OF_TIME means that there is no further occurrence.
    """

    next_due: datetime
    missed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """An interval or a cron expression, of which exactly one is given; made by `checked_recurrence`."""

    interval: timedelta | None
    cron: str | None
    timezone: str

    def first_after(self, moment: datetime) -> datetime:
        """The first occurrence strictly after a moment; END_OF_TIME when there is none."""
        moment = _in_utc(moment)
        if self.interval is not None:
            return _later(moment, self.interval)
        return next(self._cron_after(moment), END_OF_TIME)

    def advance(self, due: datetime, now: datetime, *, missed: Literal["latest", "all"]) -> Advance:
        """The occurrence to wait for when the one of ``due`` fires at ``now``.

        :param missed: with "all" it is the one that follows ``due``, with "latest" the first that is still to come.
        """
        due, now = _in_utc(due), _in_utc(now)
        if missed == "all":
            return Advance(next_due=self.first_after(due), missed=0)
        if self.interval is not None:
            passed = max(0, (now - due) // self.interval)
            return Advance(next_due=_later(due, (passed + 1) * self.interval), missed=passed)
        skipped = takewhile(lambda occurrence: occurrence <= now, self._cron_after(due))
        return Advance(next_due=self.first_after(max(due, now)), missed=sum(1 for _ in islice(skipped, MOST_MISSED)))

    def _cron_after(self, moment: datetime) -> Iterator[datetime]:
        assert self.cron is not None, "one of interval and cron is given"
        if moment >= END_OF_TIME:
            return iter(())
        zone = ZoneInfo(self.timezone)
        minute, hour, *_ = self.cron.split()
        find = _clock_readings if "*" in minute + hour else _fixed_times
        return takewhile(lambda occurrence: occurrence < END_OF_TIME, find(self.cron, zone, moment))


def checked_recurrence(*, every: object, cron: object, timezone: object) -> Recurrence | None:
    """Make the recurrence that options ask for; None when they ask for none.

    :raises TypeError, ValueError: naming the option and the remedy.
    """
    if every is not None and cron is not None:
        raise TypeError("every and cron exclude each other; give one of them.")
    if timezone is not None and cron is None:
        raise TypeError("timezone belongs to cron=; leave it out.")
    if every is not None:
        return Recurrence(interval=_checked_interval(every), cron=None, timezone="UTC")
    if cron is not None:
        return _checked_cron(cron, "UTC" if timezone is None else timezone)
    return None


def _checked_interval(every: object) -> timedelta:
    if isinstance(every, bool) or not isinstance(every, (int, float, timedelta)):
        raise TypeError(f"every takes seconds or a timedelta, such as every=60, not {every!r}.")
    seconds = every.total_seconds() if isinstance(every, timedelta) else every
    # Compared before it is converted: a timedelta cannot hold every number. NaN is in no range.
    if not _SHORTEST.total_seconds() <= seconds <= _LONGEST.total_seconds():
        raise ValueError(f"every must be from 1 millisecond to 100 years, not {every!r}; give seconds or a timedelta.")
    return every if isinstance(every, timedelta) else timedelta(seconds=seconds)


def _checked_cron(cron: object, timezone: object) -> Recurrence:
    if not isinstance(cron, str):
        raise TypeError(f'cron takes text of five fields, such as cron="0 9 * * MON", not {cron!r}.')
    if not isinstance(timezone, str):
        raise TypeError(f'timezone takes the name of a zone, such as timezone="Europe/Berlin", not {timezone!r}.')
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError) as error:  # unknown, not a name at all, a folder of zones
        raise ValueError(
            f'timezone={timezone!r} is not known here; give an IANA name, such as timezone="Europe/Berlin".'
        ) from error
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError(
            f"cron={cron!r} has {len(fields)} fields; give five: minute, hour, day of month, month, day of week."
        )
    recurrence = Recurrence(interval=None, cron=" ".join(fields), timezone=timezone)
    try:
        first = recurrence.first_after(_CHECKED_FROM)
    except (CronSimError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise ValueError(
            f"cron={cron!r} cannot be used ({error}); correct that field: it is malformed, or no month has such a day."
        ) from error
    if first == END_OF_TIME:
        raise ValueError(f"cron={cron!r} never fires in {timezone}; give days and times that exist together.")
    return recurrence


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; give an aware datetime, such as datetime.now(UTC).")
    return moment.astimezone(UTC)


def _later(moment: datetime, by: timedelta) -> datetime:
    # Compared before it is added: a datetime cannot hold every sum.
    return END_OF_TIME if by >= END_OF_TIME - moment else moment + by


def _fixed_times(cron: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    for local in _matches(cron, after.astimezone(zone)):
        occurrence = local.astimezone(UTC)
        # When cronsim starts between both passes of a repeated hour, it finds first passes that are over.
        if occurrence > after:
            yield occurrence


def _clock_readings(cron: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    # On aware times with a wildcard, cronsim steps by whole real hours and loses or misplaces runs at 30-minute
    # changes and at gaps at midnight. So it matches plain clock readings here, and each is looked up in the zone.
    start = after.astimezone(zone)
    ahead = (after + _DAY).astimezone(zone)
    # Readings that the clock showed before `after` and is about to show once more.
    repeated = max(_offset(start) - _offset(ahead), timedelta(0))
    second_passes: deque[datetime] = deque()
    found = after
    for reading in _matches(cron, start.replace(tzinfo=None, fold=0) - repeated):
        first = reading.replace(tzinfo=zone, fold=0).astimezone(UTC)
        second = reading.replace(tzinfo=zone, fold=1).astimezone(UTC)
        if reading.year > found.year + _YEARS_TO_SEARCH:  # the clock skips all of them, such as 2:00 on a day of change
            break
        if second < first:  # the clock skips this reading (PEP 495)
            continue
        while second_passes and second_passes[0] < first:
            yield second_passes.popleft()
        if first > after:
            found = first
            yield first
        if second > max(first, after):
            second_passes.append(second)
    yield from second_passes


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    assert offset is not None, "it has a zone"
    return offset


def _matches(cron: str, start: datetime) -> Iterator[datetime]:
    """The local times that cronsim finds, as far as datetimes go."""
    try:
        for match in CronSim(cron, start):
            if match.replace(tzinfo=None) >= _LAST_READING:
                return
            yield match
    except OverflowError:
        return
