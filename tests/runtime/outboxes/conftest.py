"""A runtime with actors that stage, its roles, and an outside world that is new for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime
from tests.runtime.outboxes import actors
from tests.runtime.outboxes.actors import Alarm, Outside, Receiver, Roles, Sender, Till


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Outside:
    """The outside world of this test."""
    made = Outside()
    monkeypatch.setattr(actors, "OUTSIDE", made)
    return made


@pytest.fixture
def rt(make_runtime: MakeRuntime, outside: Outside) -> RuntimeUnderTest:
    return make_runtime(own=(Till, Sender, Receiver, Alarm))


@pytest.fixture
def roles(rt: RuntimeUnderTest) -> Iterator[Roles]:
    """The roles of the runtime."""
    made = Roles(rt)
    yield made
    made.close()


@pytest.fixture
def make_roles() -> Iterator[Callable[[RuntimeUnderTest], Roles]]:
    """Makes roles for further runtimes, which stand for further processes."""
    made: list[Roles] = []

    def make(rt: RuntimeUnderTest) -> Roles:
        made.append(Roles(rt))
        return made[-1]

    yield make
    for each in made:
        each.close()
