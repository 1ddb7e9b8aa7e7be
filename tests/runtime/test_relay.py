"""The relay: every commit is told to those who watch, whenever it becomes visible and whoever made it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.exc import OperationalError

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.attribute import attribute
from flask_solid_objects.actors.operation import operation
from flask_solid_objects.runtime.relay import Notice
from flask_solid_objects.seams import Seams
from flask_solid_objects.values import ActorKey
from tests import requires
from tests.actors import RuntimeUnderTest
from tests.checkpoints import HeldCheckpoints
from tests.counting import StatementCounter
from tests.processes import wait_until
from tests.runtime.conftest import MakeRuntime

# Longer than any test: only hints make the relay look. Shorter than anything: only the poll does.
NEVER, ALWAYS = 3600.0, 0.02


class Board(Actor):
    title: str = attribute("", observable=True)
    count: int = attribute(0, observable=True)

    @operation
    def name(self, title: str) -> None:
        self.title = title

    @operation
    def add(self) -> None:
        self.count += 1


class Ears:
    """A watcher that remembers what it heard beyond what it has read."""

    def __init__(self, act: Callable[[Notice], None] = lambda notice: None) -> None:
        self._heard: list[Notice] = []
        self._act = act
        self.read: tuple[int, int] = (0, 0)

    def notify(self, notice: Notice) -> None:
        self._heard.append(notice)
        self._act(notice)

    @property
    def heard(self) -> list[Notice]:
        return [notice for notice in self._heard if notice.pair > self.read]

    @property
    def told(self) -> list[tuple[int, int | None]]:
        """Revisions with their incarnations in order of birth; None for an end."""
        births = sorted({notice.incarnation for notice in self.heard})
        return [(births.index(each.incarnation), each.revision if each.row else None) for each in self.heard]


def key(actor_id: str) -> ActorKey:
    return ActorKey(actor_type="Board", actor_id=actor_id)


def watch(rt: RuntimeUnderTest, actor_id: str, ears: Ears) -> None:
    """Watch as a socket does: first, then read."""
    rt.runtime.relay.watch(key(actor_id), ears)
    row = rt.runtime.viewing.row(key(actor_id))
    if row is not None:
        ears.read = (row.id, row.revision)
    rt.runtime.relay.seen(key(actor_id), row)


def board(rt: RuntimeUnderTest, actor_id: str = "a") -> object:
    return rt.ref("Board", actor_id)


@pytest.fixture
def make(make_runtime: MakeRuntime) -> MakeRuntime:
    return lambda **settings: make_runtime(own=(Board,), **settings)


def test_a_hint_is_enough(make: MakeRuntime) -> None:
    """A commit of this process is told without any poll, with the row that it left."""
    rt, ears = make(live_polling_interval=NEVER), Ears()
    board(rt).name(title="x")
    watch(rt, "a", ears)
    board(rt).add()
    wait_until(lambda: bool(ears.heard), "the commit to be told")

    assert ears.told == [(0, 2)]
    assert ears.heard[0].row is not None
    assert ears.heard[0].row.changed_since(ears.heard[0].incarnation, 1) == ["count"]


def test_lost_hints_are_found_by_the_poll(make: MakeRuntime) -> None:
    """A commit of another process that tells nobody is found all the same."""
    rt, ears = make(live_polling_interval=ALWAYS, wake_up_adapter="in_process"), Ears()
    other = make(wake_up_adapter="in_process")
    board(rt).name(title="x")
    watch(rt, "a", ears)
    board(other).add()
    wait_until(lambda: bool(ears.heard), "the poll to find it")

    assert ears.told == [(0, 2)]


def test_a_commit_that_becomes_visible_late_is_told(make: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """The relay looks while a commit is written and not yet visible: it is told once it is, and not skipped."""
    rt, ears = make(live_polling_interval=ALWAYS), Ears()
    board(rt).name(title="x")
    watch(rt, "a", ears)
    with ThreadPoolExecutor(1) as pool, checkpoints.hold("commit.committing") as held:
        late = pool.submit(board(rt).add)
        held.wait_reached()
        looked = checkpoints.count("relay.looked")
        checkpoints.wait_count("relay.looked", looked + 2)
        before = list(ears.heard)
        held.release()
        late.result(10)
    wait_until(lambda: bool(ears.heard), "the late commit to be told")

    assert before == []
    assert ears.told == [(0, 2)]


def test_the_first_use_is_told(make: MakeRuntime) -> None:
    """Whoever watches an actor that was never used hears of its first commit, and not of the row before it."""
    rt, ears = make(live_polling_interval=ALWAYS), Ears()
    watch(rt, "a", ears)
    board(rt).name(title="x")
    wait_until(lambda: bool(ears.heard), "the first use to be told")

    assert ears.told == [(0, 1)]


def test_an_end_is_told_before_the_next_birth(make: MakeRuntime) -> None:
    """Destroyed and used again: the end of the one comes first, then the other, whose revisions begin anew."""
    rt, ears = make(live_polling_interval=NEVER), Ears()
    for _ in range(3):
        board(rt).add()
    watch(rt, "a", ears)
    board(rt).destroy()
    wait_until(lambda: len(ears.heard) == 1, "the end to be told")
    board(rt).add()
    wait_until(lambda: len(ears.heard) == 2, "the next birth to be told")

    assert ears.told == [(0, None), (1, 1)]


def test_an_end_and_a_birth_that_are_seen_together_come_in_order(
    make: MakeRuntime, checkpoints: HeldCheckpoints
) -> None:
    """Both happen between two looks."""
    rt, ears, other = make(live_polling_interval=NEVER), Ears(), Ears()
    board(rt).add()
    board(rt, "b").add()
    watch(rt, "a", ears)
    watch(rt, "b", other)
    with checkpoints.hold("relay.telling") as held:
        board(rt, "b").add()
        held.wait_reached()
        board(rt).destroy()
        board(rt).add()
    wait_until(lambda: len(ears.heard) == 2, "both to be told")

    assert ears.told == [(0, None), (1, 1)]


def test_whoever_read_the_oldest_is_told_the_rest(make: MakeRuntime) -> None:
    """Of several watchers one has read an older row than the others: it hears what came after."""
    rt, late, early = make(live_polling_interval=NEVER), Ears(), Ears()
    board(rt).add()
    relay, viewing = rt.runtime.relay, rt.runtime.viewing
    relay.watch(key("a"), late)
    old = viewing.row(key("a"))
    board(rt).add()
    watch(rt, "a", early)
    relay.seen(key("a"), old)
    wait_until(lambda: (0, 2) in late.told, "the change after the older row to be told")

    assert late.told[-1] == (0, 2)


def test_reading_something_newer_tells_the_others(make: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """A new watcher has read a revision that nobody was told of yet: the others hear of it without any hint."""
    rt, first, second = make(live_polling_interval=NEVER, wake_up_adapter="in_process"), Ears(), Ears()
    other = make(wake_up_adapter="in_process")
    board(rt).add()
    watch(rt, "a", first)
    board(other).add()
    watch(rt, "a", second)
    wait_until(lambda: bool(first.heard), "the first watcher to be told")

    assert first.told == [(0, 2)]


def test_a_watcher_that_raises_keeps_nothing_from_the_others(make: MakeRuntime) -> None:
    """Its error ends neither the telling of this change nor the thread."""

    def fail(notice: Notice) -> None:
        raise RuntimeError("this watcher fails")

    rt, bad, good = make(live_polling_interval=NEVER), Ears(fail), [Ears(), Ears()]
    board(rt).add()
    for ears in (good[0], bad, good[1]):
        watch(rt, "a", ears)
    for revision in (2, 3):
        board(rt).add()
        wait_until(lambda wanted=revision: all((0, wanted) in each.told for each in good), "both to be told")

    assert bad.told == [(0, 2), (0, 3)]
    assert rt.runtime.relay.is_alive


@pytest.mark.parametrize("error", [OperationalError("SELECT", {}, Exception()), RuntimeError("whatever")])
def test_a_look_that_fails_is_repeated(make: MakeRuntime, checkpoints: HeldCheckpoints, error: Exception) -> None:
    """What the hint said is not forgotten when telling it went wrong."""
    rt, ears = make(live_polling_interval=NEVER), Ears()
    board(rt).add()
    watch(rt, "a", ears)
    checkpoints.fail("relay.telling", error)
    board(rt).add()
    wait_until(lambda: bool(ears.heard), "the change to be told after all")

    assert ears.told == [(0, 2)]


def test_a_look_costs_by_what_has_changed(make: MakeRuntime) -> None:
    """However many watch, a look is one statement; one more reads the rows that changed, one more finds births."""
    rt = make(live_polling_interval=NEVER, wake_up_adapter="in_process")
    other = make(wake_up_adapter="in_process")
    relay = rt.runtime.relay
    for number in range(150):
        if number < 3:
            board(rt, str(number)).add()
        for _ in range(3):
            watch(rt, str(number), Ears())
    counter = StatementCounter(rt.database.engine)
    costs = []
    for used in (0, 1, 3):
        for number in range(used):
            board(other, str(number)).add()
        with counter.measure() as measured:
            relay._look(everything=True)
        costs.append(measured.statements)
    board(other, "7").add()
    with counter.measure() as measured:
        relay._look(everything=True)
    counter.close()

    assert [*costs, measured.statements] == [2, 3, 3, 2]


@requires.server
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_a_relay_of_its_own(make: MakeRuntime) -> None:
    """The parent's thread does not exist in the child: whoever watches there is told by a thread of the child.

    On servers: a fork while another thread is within SQLite's library leaves its locks taken in the child for ever.
    """
    # No held checkpoints: their lock may be taken at the fork.
    rt, ears = make(live_polling_interval=ALWAYS, seams=Seams()), Ears()
    board(rt).add()
    watch(rt, "a", ears)
    child = os.fork()
    if child == 0:
        # The runner's own handler would have to wait for the interpreter.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            mine = Ears()
            watch(rt, "a", mine)
            board(rt).add()
            wait_until(lambda: (0, 2) in mine.told, "the child's watcher to be told", timeout=10)
            ok = (0, 2) not in ears.told
            rt.close()
            os._exit(0 if ok else 1)
        except BaseException:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    wait_until(lambda: (0, 2) in ears.told, "the parent's watcher to be told")

    assert os.waitstatus_to_exitcode(status) == 0


def test_nobody_who_left_is_told(make: MakeRuntime, checkpoints: HeldCheckpoints) -> None:
    """Who stops watching hears nothing more, and an actor that nobody watches is forgotten."""
    rt, ears, stays = make(live_polling_interval=NEVER), Ears(), Ears()
    board(rt).add()
    watch(rt, "a", ears)
    watch(rt, "a", stays)
    rt.runtime.relay.unwatch(key("a"), ears)
    board(rt).add()
    wait_until(lambda: bool(stays.heard), "the other to be told")
    rt.runtime.relay.unwatch(key("a"), stays)
    rt.runtime.relay.unwatch(key("a"), stays)

    assert ears.heard == []
    assert not rt.runtime.relay._watched
    assert not rt.runtime.relay._by_id
