"""What a page is told over its connection, in whichever order the relay and the subscriptions come."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flask_solid_objects.runtime.relay import Notice
from flask_solid_objects.store.views import ViewRow
from flask_solid_objects.values import ActorKey
from flask_solid_objects.web.connection import MOST_STREAMS, Connection
from flask_solid_objects.web.handles import Stream

KEY = ActorKey(actor_type="Room", actor_id="lobby")
NAME = "Room:lobby"


def connection(*names: str) -> Connection:
    made = Connection("ann", lambda connection: None, lambda connection, name, notice: None)
    for name in names or (NAME,):
        made.add(name, Stream(KEY))
    return made


def row(incarnation: int, revision: int, **changed_at: int) -> ViewRow:
    return ViewRow(id=incarnation, key=KEY, revision=revision, state="{}", version=1, changed_at=changed_at)


def changed(at: ViewRow) -> Notice:
    return Notice(key=KEY, incarnation=at.id, revision=at.revision, row=at, values={})


def ended(incarnation: int) -> Notice:
    return Notice(key=KEY, incarnation=incarnation, revision=1, row=None, values={})


def answer(at: ViewRow, since: tuple[int, int]) -> dict[str, Any]:
    return {"s": NAME, "i": str(at.id), "r": at.revision, "n": at.changed_since(*since), "v": {}}


def taken(told: Connection) -> list[dict[str, Any]]:
    frames = [json.loads(text) for text in told.take()]
    return [each for frame in frames for each in (frame if isinstance(frame, list) else [frame])]


def test_a_change_waits_for_the_answer() -> None:
    """What the relay tells before the answer comes after it, and only if it is newer."""
    told, first, second = connection(), row(5, 1, count=1), row(5, 2, count=2)
    told.notify(changed(second))
    nothing = taken(told)
    told.answer([answer(first, (5, 0))])
    frames = taken(told)

    assert nothing == []
    assert [(frame["t"], frame.get("r")) for frame in frames] == [("sub", None), ("inv", 2)]
    assert (frames[1]["p"], frames[1]["n"]) == (1, ["count"])


def test_an_answer_replaces_the_change_that_waits() -> None:
    """A slow reader that subscribes anew gets the answer alone."""
    told, second = connection(), row(5, 2, count=2)
    told.answer([answer(row(5, 1, count=1), (5, 0))])
    taken(told)
    told.notify(changed(second))
    told.answer([answer(second, (5, 1))])

    assert [frame["t"] for frame in taken(told)] == ["sub"]


def test_what_waits_is_merged() -> None:
    """Of many changes the newest is sent, with the names of all since the pair that the page knows."""
    told = connection()
    told.answer([answer(row(5, 1, count=1), (5, 0))])
    taken(told)
    for revision in range(2, 100):
        told.notify(changed(row(5, revision, count=1, title=2, last=revision)))
    (frame,) = taken(told)

    assert (frame["r"], frame["p"], frame["n"]) == (99, 1, ["title", "last"])


def test_an_end_is_told_once_and_to_those_who_had_it() -> None:
    """A page with an older answer hears "deleted" once; one that found nothing hears nothing; a new birth is told."""
    told, other = connection(), connection()
    told.answer([answer(row(5, 1), (5, 1))])
    other.answer([{"s": NAME, "i": "0", "r": 0, "n": [], "v": {}}])
    for each in (told, other):
        taken(each)
        each.notify(ended(5))
        each.notify(ended(5))
    ends = [taken(told), taken(other)]
    for each in (told, other):
        each.notify(changed(row(7, 1, count=1)))
        each.notify(ended(5))

    assert ends == [[{"t": "gone", "s": NAME, "why": "deleted"}], []]
    assert [(int(f["i"]), f["r"], f["n"]) for each in (told, other) for f in taken(each)] == [(7, 1, None)] * 2


def test_an_end_waits_for_the_answer_too() -> None:
    """The answer was read before the end and comes after it: the end follows."""
    told = connection()
    told.notify(ended(5))
    told.answer([answer(row(5, 1), (5, 1))])

    assert [frame["t"] for frame in taken(told)] == ["sub", "gone"]


def test_an_older_payload_does_not_replace_a_newer_one() -> None:
    """Payloads are computed for a subscription and for changes, and may end in the other order."""
    told = connection()
    for revision in (2, 1):
        told.put_event({"t": "ev", "s": NAME, "i": "5", "r": revision, "n": "hand", "d": revision})
    first = taken(told)
    told.put_event({"t": "ev", "s": NAME, "i": "5", "r": 1, "n": "hand", "d": 1})

    assert [frame["r"] for frame in first] == [2]
    assert taken(told) == []


def test_what_left_the_page_is_forgotten() -> None:
    """Nothing of a stream stays behind, and the number of streams is bounded."""
    told = connection()
    told.answer([answer(row(5, 1), (5, 1))])
    told.notify(changed(row(5, 2)))
    told.put_event({"t": "ev", "s": NAME, "i": "5", "r": 2, "n": "hand", "d": {}})
    taken(told)
    told.remove(NAME)
    told.notify(changed(row(5, 3)))
    told.put_event({"t": "ev", "s": NAME, "i": "5", "r": 3, "n": "hand", "d": {}})
    added = [told.add(f"Room:{number}", Stream(KEY)) for number in range(MOST_STREAMS + 1)]

    assert taken(told) == []
    assert added == [True] * MOST_STREAMS + [False]


OBSERVABLES = ("count", "title")
HISTORY = st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from(OBSERVABLES))), min_size=1, max_size=12)


@given(history=HISTORY, steps=st.lists(st.tuples(st.sampled_from(["sub", "tell", "take"]), st.integers(0, 11))))
def test_in_whichever_order_the_page_knows_what_changed(
    history: list[tuple[bool, set[str]]], steps: list[tuple[str, int]]
) -> None:
    """Answers and changes, late and repeated, lead to the newest of them, with the names that changed and no others."""
    rows = rows_of(history)
    told, page, newest = connection(), (rows[0].id, rows[0].revision), 0
    named = set[str]()
    frames: list[dict[str, Any]] = []
    told.answer([answer(rows[0], page)])
    for step, place in steps:
        at = rows[place % len(rows)]
        if step == "take":
            frames += taken(told)
            continue
        newest = max(newest, place % len(rows))
        if step == "sub":
            told.answer([answer(at, page)])
        else:
            told.notify(changed(at))
    for frame in frames + taken(told):
        for item in frame["s"] if frame["t"] == "sub" else [frame]:
            pair = (int(item["i"]), item["r"])
            if frame["t"] == "inv":
                assert pair > page
                assert item["p"] <= (page[1] if pair[0] == page[0] else 0)
            if pair < page:
                continue
            # The names of a dead incarnation mean nothing any more, and those of a new one are all.
            same = pair[0] == page[0]
            named = (named if same else set()) | set(OBSERVABLES if item["n"] is None else item["n"])
            page = pair
    last = rows[newest]

    assert (last.id, last.revision) == page
    if last.id == rows[0].id:
        assert set(last.changed_since(rows[0].id, rows[0].revision) or ()) == named


def rows_of(history: list[tuple[bool, set[str]]]) -> list[ViewRow]:
    """Revision after revision; a true one begins a new incarnation."""
    incarnation, revision, changed_at = 5, 0, dict[str, int]()
    rows = []
    for born, names in history:
        if born:
            incarnation, revision, changed_at = incarnation + 1, 0, {}
        revision += 1
        changed_at = changed_at | dict.fromkeys(names, revision)
        rows.append(row(incarnation, revision, **changed_at))
    return rows
