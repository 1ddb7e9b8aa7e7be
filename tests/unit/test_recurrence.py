"""Recurrences: intervals by arithmetic, cron by what the clocks of a zone show, also when they change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_solid_objects.actors.recurrence import (
    END_OF_TIME,
    MOST_MISSED,
    Advance,
    Recurrence,
    checked_recurrence,
)

NOON = datetime(2025, 6, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BERLIN, NEW_YORK, LORD_HOWE, CAIRO = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"

# The day of each change, as the local midnight it starts with. Cairo skips that midnight.
DAYS = [
    (BERLIN, "2025-03-30"),
    (BERLIN, "2025-10-26"),
    (NEW_YORK, "2025-03-09"),
    (NEW_YORK, "2025-11-02"),
    (LORD_HOWE, "2025-10-05"),
    (LORD_HOWE, "2025-04-06"),
    (CAIRO, "2025-04-25"),
    (CAIRO, "2025-10-31"),
]


def every(value: object) -> Recurrence:
    made = checked_recurrence(every=value, cron=None, timezone=None)
    assert made is not None
    return made


def by_cron(cron: str, timezone: str | None = None) -> Recurrence:
    made = checked_recurrence(every=None, cron=cron, timezone=timezone)
    assert made is not None
    return made


def chain(recurrence: Recurrence, after: datetime, until: datetime) -> list[datetime]:
    """Each occurrence asked for from the former one, as reminders do."""
    found = []
    moment = recurrence.first_after(after)
    while moment < until:
        found.append(moment)
        moment = recurrence.first_after(moment)
    return found


def on_day(cron: str, timezone: str, day: str) -> list[str]:
    """What runs on a local day, as clock readings with their offset."""
    zone = ZoneInfo(timezone)
    midnight = datetime.fromisoformat(day)
    start = midnight.replace(tzinfo=zone).astimezone(UTC) - timedelta(seconds=1)
    end = (midnight + timedelta(days=1)).replace(tzinfo=zone).astimezone(UTC)
    return [moment.astimezone(zone).strftime("%H:%M %z") for moment in chain(by_cron(cron, timezone), start, end)]


@pytest.mark.parametrize(
    ("timezone", "day", "cron", "expected"),
    [
        (BERLIN, "2025-03-30", "0 2 * * *", ["03:00 +0200"]),
        (BERLIN, "2025-03-30", "30 2 * * *", ["03:00 +0200"]),
        (BERLIN, "2025-03-30", "0,20,40 2 * * *", ["03:00 +0200"]),
        (BERLIN, "2025-03-30", "30 2,3 * * *", ["03:00 +0200", "03:30 +0200"]),
        (BERLIN, "2025-03-30", "0 2-3 * * *", ["03:00 +0200"]),
        (BERLIN, "2025-03-30", "30 1 * * *", ["01:30 +0100"]),
        (NEW_YORK, "2025-03-09", "0 2 * * *", ["03:00 -0400"]),
        (NEW_YORK, "2025-03-09", "59 2 * * *", ["03:00 -0400"]),
        (NEW_YORK, "2025-03-09", "30 1-3 * * SUN", ["01:30 -0500", "03:00 -0400", "03:30 -0400"]),
        (LORD_HOWE, "2025-10-05", "0 2 * * *", ["02:30 +1100"]),
        (LORD_HOWE, "2025-10-05", "15 2 * * *", ["02:30 +1100"]),
        (LORD_HOWE, "2025-10-05", "10,40 2 * * *", ["02:30 +1100", "02:40 +1100"]),
        (LORD_HOWE, "2025-10-05", "30 2 * * *", ["02:30 +1100"]),
        (CAIRO, "2025-04-25", "0 0 * * *", ["01:00 +0300"]),
    ],
)
def test_a_skipped_time_runs_after_the_gap(timezone: str, day: str, cron: str, expected: list[str]) -> None:
    """A fixed local time that does not exist runs once, at the first instant after the gap."""
    assert expected == on_day(cron, timezone, day)


@pytest.mark.parametrize(
    ("timezone", "day", "cron", "expected"),
    [
        (BERLIN, "2025-10-26", "0 2 * * *", ["02:00 +0200"]),
        (BERLIN, "2025-10-26", "30 2 * * *", ["02:30 +0200"]),
        (BERLIN, "2025-10-26", "15,45 2-3 * * *", ["02:15 +0200", "02:45 +0200", "03:15 +0100", "03:45 +0100"]),
        (BERLIN, "2025-10-26", "0 3 * * *", ["03:00 +0100"]),
        (NEW_YORK, "2025-11-02", "0 1 * * *", ["01:00 -0400"]),
        (NEW_YORK, "2025-11-02", "59 1 * * *", ["01:59 -0400"]),
        (NEW_YORK, "2025-11-02", "0 2 * * *", ["02:00 -0500"]),
        (LORD_HOWE, "2025-04-06", "30 1 * * *", ["01:30 +1100"]),
        (LORD_HOWE, "2025-04-06", "45 1 * * *", ["01:45 +1100"]),
        (LORD_HOWE, "2025-04-06", "15 1 * * *", ["01:15 +1100"]),
        (LORD_HOWE, "2025-04-06", "0 2 * * *", ["02:00 +1030"]),
    ],
)
def test_a_repeated_time_runs_the_first_time(timezone: str, day: str, cron: str, expected: list[str]) -> None:
    """A fixed local time that repeats runs at its first occurrence only."""
    assert expected == on_day(cron, timezone, day)


@pytest.mark.parametrize(
    ("timezone", "moment", "cron", "expected"),
    [
        (BERLIN, "2025-10-26T01:10+00:00", "30 2 * * *", "2025-10-27T01:30+00:00"),
        (NEW_YORK, "2025-11-02T06:10+00:00", "30 1 * * *", "2025-11-03T06:30+00:00"),
        (LORD_HOWE, "2025-04-05T15:05+00:00", "45 1 * * *", "2025-04-06T15:15+00:00"),
    ],
)
def test_a_repeated_time_is_over_in_the_second_pass(timezone: str, moment: str, cron: str, expected: str) -> None:
    """Asked in the second pass of a repeated hour, a fixed time of that hour comes on the next day."""
    assert datetime.fromisoformat(expected) == by_cron(cron, timezone).first_after(datetime.fromisoformat(moment))


@pytest.mark.parametrize(
    ("timezone", "day", "hours"),
    [
        (BERLIN, "2025-03-30", 23),
        (BERLIN, "2025-10-26", 25),
        (NEW_YORK, "2025-03-09", 23),
        (NEW_YORK, "2025-11-02", 25),
        (CAIRO, "2025-04-25", 23),
        (CAIRO, "2025-10-31", 24),
    ],
)
@pytest.mark.parametrize("cron", ["0 * * * *", "0 */1 * * *", "0 23,* * * *", "*/60 * * * *"])
def test_an_hourly_job_runs_each_real_hour(timezone: str, day: str, hours: int, cron: str) -> None:
    """Over a change by one hour, an hourly job runs after each real hour."""
    zone = ZoneInfo(timezone)
    midnight = datetime.fromisoformat(day)
    end = (midnight + timedelta(days=1)).replace(tzinfo=zone).astimezone(UTC)

    found = chain(by_cron(cron, timezone), end - hours * HOUR - timedelta(seconds=1), end)

    assert [end - each * HOUR for each in range(hours, 0, -1)] == found


@pytest.mark.parametrize(
    ("timezone", "day", "cron", "expected"),
    [
        (BERLIN, "2025-10-26", "30 */2 * * 7", ["00:30 +0200", "02:30 +0200", "02:30 +0100", "04:30 +0100"]),
        (BERLIN, "2025-03-30", "30 */2 * * 7", ["00:30 +0100", "04:30 +0200", "06:30 +0200", "08:30 +0200"]),
        (LORD_HOWE, "2025-04-06", "45 * * * *", ["00:45 +1100", "01:45 +1100", "01:45 +1030", "02:45 +1030"]),
        (LORD_HOWE, "2025-10-05", "45 * * * *", ["00:45 +1030", "01:45 +1030", "02:45 +1100", "03:45 +1100"]),
        (LORD_HOWE, "2025-04-06", "*/15 3 * * *", ["03:00 +1030", "03:15 +1030", "03:30 +1030", "03:45 +1030"]),
        (LORD_HOWE, "2025-10-05", "*/15 3 * * *", ["03:00 +1100", "03:15 +1100", "03:30 +1100", "03:45 +1100"]),
        (LORD_HOWE, "2025-10-05", "*/15 2 * * *", ["02:30 +1100", "02:45 +1100"]),
        (BERLIN, "2025-03-30", "*/15 2 * * *", []),
    ],
)
def test_wildcards_run_when_the_clock_reads_so(timezone: str, day: str, cron: str, expected: list[str]) -> None:
    """With a wildcard in minute or hour, a job runs each time the clock reads a match, and only then."""
    assert expected == on_day(cron, timezone, day)[:4]


@pytest.mark.parametrize(("timezone", "day"), DAYS)
@pytest.mark.parametrize(
    "cron", ["*/7 * * * *", "* 1-3 * * *", "45 * * * *", "10,50 */2 * * *", "*/15 0,23 * * *", "5 0-2,*/5 5-31 * *"]
)
def test_wildcards_agree_with_reading_the_clock(timezone: str, day: str, cron: str) -> None:
    """From any minute around a change, the next run is the first minute at which the clock of the zone matches."""
    zone = ZoneInfo(timezone)
    recurrence = by_cron(cron, timezone)
    base = datetime.fromisoformat(day).replace(tzinfo=UTC) - 20 * HOUR
    readings = [base + timedelta(minutes=each) for each in range(60 * 60)]
    minutes, hours, days = (_numbers(field, limit) for field, limit in zip(cron.split(), (60, 24, 32), strict=False))
    runs = []
    for moment in readings:
        local = moment.astimezone(zone)
        if local.minute in minutes and local.hour in hours and local.day in days:
            runs.append(moment)

    starts = [each for each in readings[::7] if runs and each < runs[-1]]

    found = [recurrence.first_after(start) for start in starts]

    assert [min(run for run in runs if run > start) for start in starts] == found
    assert runs == chain(recurrence, base - timedelta(minutes=1), base + 60 * HOUR)


def _numbers(field: str, limit: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = ("0", "-", str(limit - 1)) if span == "*" else span.partition("-")
        found |= set(range(int(low), int(high or low) + 1, int(step or 1)))
    return found


@pytest.mark.parametrize("cron", ["30 2 * * *", "0,20,40 0-4 * * *", "*/20 * * * *", "* 2 * * *"])
@pytest.mark.parametrize(("timezone", "day"), DAYS)
def test_an_occurrence_is_after_the_moment(timezone: str, day: str, cron: str) -> None:
    """Whatever the clocks do, the next occurrence is strictly later and none lies between."""
    recurrence = by_cron(cron, timezone)
    start = datetime.fromisoformat(day).replace(tzinfo=UTC) - 16 * HOUR
    moments = [start + each * timedelta(minutes=11, seconds=3, microseconds=7) for each in range(200)]

    found = [recurrence.first_after(moment) for moment in moments]

    assert sorted(found) == found
    assert all(moment < each for moment, each in zip(moments, found, strict=True))
    assert all(recurrence.first_after(each - timedelta(microseconds=1)) == each for each in found)


def test_cron_is_in_utc_unless_told() -> None:
    """Without timezone= a cron expression is read in UTC."""
    recurrence = by_cron("0 9 * * MON")

    assert Recurrence(interval=None, cron="0 9 * * MON", timezone="UTC") == recurrence
    assert datetime(2025, 6, 9, 9, tzinfo=UTC) == recurrence.first_after(NOON)


def test_results_are_in_utc() -> None:
    """A moment of any zone is taken, and UTC is returned."""
    moment = NOON.astimezone(ZoneInfo(NEW_YORK))

    for recurrence in (every(60), by_cron("0 9 * * *", BERLIN), by_cron("*/5 * * * *", BERLIN)):
        advance = recurrence.advance(moment, moment, missed="latest")

        assert {UTC} == {recurrence.first_after(moment).tzinfo, advance.next_due.tzinfo}


def test_naive_moments_are_refused() -> None:
    """A datetime without a zone is an error instead of a guess."""
    with pytest.raises(ValueError, match="give an aware datetime"):
        every(60).first_after(NOON.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 0 l * *", "2025-06-30T00:00+00:00"),
        ("0 0 * * fri#2", "2025-06-13T00:00+00:00"),
        ("0 0 * aug 5L", "2025-08-29T00:00+00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00+00:00"),
        ("0 0 29 2 */7", "2032-02-29T00:00+00:00"),
    ],
)
def test_days_by_name_and_place(cron: str, expected: str) -> None:
    """Names, L and # are understood, and days that come once in many years are found."""
    assert datetime.fromisoformat(expected) == by_cron(cron).first_after(NOON)


def test_the_rarest_date_is_found() -> None:
    """A leap day on one weekday can take 40 years around 2100, and is still found."""
    after = datetime(2088, 2, 29, tzinfo=UTC)

    assert datetime(2128, 2, 29, tzinfo=UTC) == by_cron("0 0 29 2 */7").first_after(after)


@given(
    start=st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    interval=st.timedeltas(timedelta(milliseconds=1), timedelta(days=36_525)),
    late=st.timedeltas(timedelta(0), timedelta(days=36_525)),
)
def test_an_interval_keeps_its_grid(start: datetime, interval: timedelta, late: timedelta) -> None:
    """The next one is the first after now on the grid of the due one, and those between are counted."""
    now = start + late

    advance = every(interval).advance(start, now, missed="latest")

    assert now < advance.next_due <= now + interval
    assert timedelta(0) == (advance.next_due - start) % interval
    assert (advance.next_due - start) // interval - 1 == advance.missed


@pytest.mark.parametrize(
    ("seconds_late", "expected"), [(0, (60, 0)), (59, (60, 0)), (60, (120, 1)), (61, (120, 1)), (3600, (3660, 60))]
)
@pytest.mark.parametrize("recurrence", [every(60), by_cron("* * * * *", BERLIN), by_cron("0-59 0-23 * * *")])
def test_latest_leaves_out_what_passed(recurrence: Recurrence, seconds_late: int, expected: tuple[int, int]) -> None:
    """With missed="latest" occurrences until now, now included, are left out and counted."""
    advance = recurrence.advance(NOON, NOON + timedelta(seconds=seconds_late), missed="latest")

    assert Advance(next_due=NOON + timedelta(seconds=expected[0]), missed=expected[1]) == advance


@pytest.mark.parametrize("recurrence", [every(3600), by_cron("0 * * * *", BERLIN), by_cron("0 0-23 * * *")])
def test_all_goes_on_with_the_following_one(recurrence: Recurrence) -> None:
    """With missed="all" the one that follows the due one comes next, however late it is."""
    advance = recurrence.advance(NOON, NOON + 100 * HOUR, missed="all")

    assert Advance(next_due=NOON + HOUR, missed=0) == advance


@pytest.mark.parametrize("missed", ["latest", "all"])
@pytest.mark.parametrize("recurrence", [every(3600), by_cron("0 * * * *", BERLIN), by_cron("0 0-23 * * *")])
def test_firing_early_is_not_firing_twice(recurrence: Recurrence, missed: Literal["latest", "all"]) -> None:
    """When a clock that is behind fires early, the next one is still the one after the due one."""
    advance = recurrence.advance(NOON, NOON - 5 * HOUR, missed=missed)

    assert Advance(next_due=NOON + HOUR, missed=0) == advance


@pytest.mark.parametrize("recurrence", [by_cron("* * * * *"), by_cron("* * * * *", BERLIN), by_cron("0-59 0-23 * * *")])
def test_counting_has_a_bound(recurrence: Recurrence) -> None:
    """More than 10,000 missed ones of a cron expression count as 10,000, and the next one is after now all the same."""
    advance = recurrence.advance(NOON, NOON + timedelta(days=3650), missed="latest")

    assert Advance(next_due=NOON + timedelta(days=3650, minutes=1), missed=MOST_MISSED) == advance


@pytest.mark.parametrize("timezone", ["UTC", NEW_YORK, LORD_HOWE])
@pytest.mark.parametrize("cron", ["0 20 31 12 *", "* * 31 12 *", "0 0 29 2 *", "* * * * *", "0 0 1 1 *"])
def test_cron_ends_with_time(cron: str, timezone: str) -> None:
    """Near the last datetimes a cron expression has no further occurrence instead of an overflow."""
    recurrence = by_cron(cron, timezone)
    moments = [END_OF_TIME - timedelta(minutes=1), END_OF_TIME, datetime.max.replace(tzinfo=UTC)]

    found = [recurrence.first_after(moment) for moment in moments]

    assert {END_OF_TIME} == set(found)
    assert Advance(next_due=END_OF_TIME, missed=0) == recurrence.advance(moments[1], moments[2], missed="latest")


@pytest.mark.parametrize("missed", ["latest", "all"])
def test_intervals_end_with_time(missed: Literal["latest", "all"]) -> None:
    """Near the last datetimes an interval has no further occurrence instead of an overflow."""
    due = END_OF_TIME - timedelta(days=1)

    after_all = every(60).first_after(datetime.max.replace(tzinfo=UTC))

    assert Advance(next_due=END_OF_TIME, missed=0) == every(timedelta(days=36_525)).advance(due, due, missed=missed)
    assert after_all == END_OF_TIME


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (60, timedelta(minutes=1)),
        (0.001, timedelta(milliseconds=1)),
        (1.5, timedelta(seconds=1.5)),
        (timedelta(hours=2), timedelta(hours=2)),
        (timedelta(days=36_525), timedelta(days=36_525)),
    ],
)
def test_every_takes_seconds_or_a_timedelta(value: object, expected: timedelta) -> None:
    """An interval is a number of seconds or a timedelta, from 1 millisecond to 100 years."""
    assert Recurrence(interval=expected, cron=None, timezone="UTC") == every(value)
    assert NOON + expected == every(value).first_after(NOON)


def test_nothing_asked_for_is_no_recurrence() -> None:
    """Without every= and cron= there is no recurrence."""
    assert checked_recurrence(every=None, cron=None, timezone=None) is None


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"every": True}, TypeError, "every takes seconds or a timedelta"),
        ({"every": "60"}, TypeError, "every takes seconds or a timedelta"),
        ({"every": Decimal(60)}, TypeError, "every takes seconds or a timedelta"),
        ({"every": 0}, ValueError, "every must be from 1 millisecond to 100 years"),
        ({"every": -1.0}, ValueError, "every must be from"),
        ({"every": 0.0009}, ValueError, "every must be from"),
        ({"every": timedelta(microseconds=999)}, ValueError, "every must be from"),
        ({"every": timedelta(days=36_525, microseconds=1)}, ValueError, "every must be from"),
        ({"every": float("nan")}, ValueError, "every must be from"),
        ({"every": float("inf")}, ValueError, "every must be from"),
        ({"every": 10**400}, ValueError, "every must be from"),
        ({"every": 60, "cron": "* * * * *"}, TypeError, "every and cron exclude each other; give one of them"),
        ({"every": 60, "timezone": "UTC"}, TypeError, "timezone belongs to cron=; leave it out"),
        ({"timezone": BERLIN}, TypeError, "timezone belongs to cron="),
        ({"cron": 5}, TypeError, "cron takes text of five fields"),
        ({"cron": ""}, ValueError, "has 0 fields; give five"),
        ({"cron": "@daily"}, ValueError, "has 1 fields; give five"),
        ({"cron": "0 0 * * * *"}, ValueError, "has 6 fields; give five"),
        ({"cron": "60 * * * *"}, ValueError, "Bad minute"),
        ({"cron": "* 24 * * *"}, ValueError, "Bad hour"),
        ({"cron": "* * * * MOON"}, ValueError, "Bad day-of-week"),
        ({"cron": "*/0 * * * *"}, ValueError, "Bad minute"),
        ({"cron": "9" * 5000 + " * * * *"}, ValueError, "cannot be used"),
        ({"cron": "0 0 31 2 *"}, ValueError, "no month has such a day"),
        ({"cron": "0 0 */31 * MON#2"}, ValueError, "never fires in UTC; give days and times that exist together"),
        ({"cron": "* 2 * 3 7L", "timezone": BERLIN}, ValueError, "never fires in Europe/Berlin"),
        ({"cron": "* * * * *", "timezone": ZoneInfo(BERLIN)}, TypeError, "timezone takes the name of a zone"),
        ({"cron": "* * * * *", "timezone": "Mars/Base"}, ValueError, "timezone='Mars/Base' is not known here; give an"),
        ({"cron": "* * * * *", "timezone": "Europe"}, ValueError, "is not known here"),
        ({"cron": "* * * * *", "timezone": "../etc/passwd"}, ValueError, "is not known here"),
        ({"cron": "* * * * *", "timezone": ""}, ValueError, "is not known here"),
        ({"cron": "* * * * *", "timezone": "a\0b"}, ValueError, "is not known here"),
    ],
)
def test_mistakes_name_option_and_remedy(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    """What cannot be scheduled is refused when it is asked for, in one sentence."""
    with pytest.raises(kind, match=message.replace("*", r"\*")) as raised:
        checked_recurrence(**{"every": None, "cron": None, "timezone": None} | options)

    assert str(raised.value).endswith(".")


@given(st.lists(st.text("0123456789*/,-#LWMONJAFEB", min_size=1, max_size=6), min_size=5, max_size=5))
def test_any_text_is_usable_or_refused(fields: list[str]) -> None:
    """Whatever is written in the fields, it makes a recurrence or a ValueError."""
    text = " ".join(fields)
    first, refused = None, ""
    try:
        first = by_cron(text, BERLIN).first_after(NOON)
    except ValueError as error:
        refused = str(error)

    assert refused.startswith(f"cron={text!r}") if first is None else first > NOON
