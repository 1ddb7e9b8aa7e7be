"""A database in memory has one connection: what the application has not committed there must survive our looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import make_url, text

from flask_solid_objects.errors import CallEnqueueTimeout, CallInsideTransaction
from tests.apps import AppUnderTest


@pytest.fixture(params=["first use", "used before"])
def under_test(request: pytest.FixtureRequest) -> Iterator[AppUnderTest]:
    with AppUnderTest(make_url("sqlite://")).ready() as app:
        if request.param == "used before":
            app.Counter.ref("other").increment()
        yield app


def _refused(app: AppUnderTest) -> None:
    with pytest.raises(CallInsideTransaction):
        app.Counter.ref("a").increment()


READS: dict[str, Callable[[AppUnderTest], Any]] = {
    "snapshot": lambda app: app.Counter.ref("a").snapshot().value,
    "find_message": lambda app: app.Counter.ref("a").find_message(idempotency_key="k"),
    "refused call": _refused,
}


@pytest.mark.parametrize("read", READS)
def test_reads_leave_what_is_uncommitted(under_test: AppUnderTest, read: str) -> None:
    """A read of ours while the application's session holds uncommitted rows answers, and they are committed later."""
    under_test.db.session.add(under_test.Note(body="x"))
    under_test.db.session.flush()
    READS[read](under_test)
    under_test.db.session.commit()

    assert under_test.db.session.query(under_test.Note).count() == 1


def test_call_waits_for_the_transaction_of_a_connection(under_test: AppUnderTest) -> None:
    """A call that cannot begin beside a transaction of the application ends in time, and drops nothing of it."""
    with under_test.db.engine.connect() as connection:
        connection.execute(text("INSERT INTO note (body) VALUES ('x')"))
        with pytest.raises(CallEnqueueTimeout):
            under_test.Counter.ref("a").increment.using(timeout=0.1)()
        connection.commit()

    assert under_test.Counter.ref("a").increment() == 1
    assert under_test.db.session.query(under_test.Note).count() == 1
