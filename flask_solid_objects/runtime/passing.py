"""One pass over many rows, of which somebody may hold the lock of one for long: nobody else's waits for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from flask_solid_objects.errors import DatabaseDeadlineExceeded

_T = TypeVar("_T")

# So many locks that were not given, and none that was, are no row's fault.
_TOO_MANY = 3


def attempt_each(
    items: Iterable[_T],
    attempt: Callable[[_T], int],
    *,
    subject: Callable[[_T], Hashable],
    is_stopping: Callable[[], bool],
) -> int:
    """Attempt each item until stopped; the sum of what the attempts return.

    What has waited for a lock in vain is left to the next pass, with all that has the same subject.

    :raises DatabaseDeadlineExceeded: nothing could be done at all.
    """
    done, succeeded, blocked = 0, False, set[Hashable]()
    for item in items:
        if is_stopping():
            break
        if subject(item) in blocked:
            continue
        try:
            done += attempt(item)
            succeeded = True
        except DatabaseDeadlineExceeded:
            blocked.add(subject(item))
            if not succeeded and len(blocked) == _TOO_MANY:
                raise
    return done
