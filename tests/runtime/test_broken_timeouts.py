"""Times at the edges: as long as anybody can ask for, as short as nothing, and none at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from flask_solid_objects.errors import CallTimeout
from tests.actors import RuntimeUnderTest


@pytest.mark.parametrize("timeout", [86_400 * 30, 1e12, 1e300, timedelta.max])
def test_call_may_have_any_timeout(rt: RuntimeUnderTest, timeout: Any) -> None:
    """A timeout beyond what servers and locks count is a long one, not an error."""
    journal = rt.journal("a")

    assert journal.add.using(timeout=timeout)(entry="one") == 1
    assert journal.add.send(entry="two").wait(timeout) == 2


def test_wait_takes_what_a_call_takes(rt: RuntimeUnderTest) -> None:
    """A timedelta is fine, and 0 only looks."""
    message = rt.journal("a").add.send(entry="one")
    with pytest.raises(CallTimeout):
        message.wait(0)

    assert message.wait(timedelta(seconds=5)) == 1


@pytest.mark.parametrize(
    ("timeout", "error"),
    [(-1, ValueError), (float("nan"), ValueError), (float("inf"), ValueError), ("5", TypeError), (None, TypeError)],
)
def test_wait_refuses_what_is_no_time(rt: RuntimeUnderTest, timeout: Any, error: type[Exception]) -> None:
    """Anything else is named before the database is asked."""
    message = rt.journal("a").add.send(entry="one")
    with pytest.raises(error, match="timeout"):
        message.wait(timeout)


@pytest.mark.parametrize(
    "at",
    [
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
    ],
)
def test_time_that_is_none_in_utc(rt: RuntimeUnderTest, at: datetime) -> None:
    """A time that UTC cannot express is refused by its name; the last one that it can is stored."""
    with pytest.raises(ValueError, match="at is outside"):
        rt.journal("a").add.using(at=at)

    rt.journal("a").add.using(at=datetime.max.replace(tzinfo=UTC)).send(entry="one")
