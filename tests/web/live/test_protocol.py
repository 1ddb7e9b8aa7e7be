"""What a page may send, and all that it may not."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_solid_objects.web.protocol import Malformed, Subscribe, Unsubscribe, Wanted, frames_of, items_of


def test_frames_come_alone_or_as_a_list() -> None:
    """Subscriptions with the pair that the page knows, and streams that it has left."""
    sub = '{"t":"sub","s":[{"k":"Room:7~mac","i":"12","r":3}]}'
    frames = frames_of(f'[{sub},{{"t":"unsub","s":["Room:7"]}}]')

    assert frames == [*frames_of(sub), Unsubscribe(["Room:7"])]
    assert frames[0] == Subscribe([Wanted("Room:7~mac", "12", 3)])
    assert items_of('[{"k":"Room:7~mac"}]', 1) == [Wanted("Room:7~mac")]
    assert Wanted("Room:7~mac").name == "Room:7"


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "[", "5", "null", "NaN", "{}", "[[]]", '"sub"', b"{}", b"\xff", "[" * 100_000, '{"a":' * 50_000,
        "9" * 5000, '{"t":"sub"}', '{"t":"sub","s":5}', '{"t":"other","s":[]}', '{"s":[]}', '{"t":"sub","s":[5]}',
        '{"t":"sub","s":[{}]}', '{"t":"sub","s":[{"k":5}]}', '{"t":"unsub","s":[5]}', '{"t":"unsub","s":{}}',
        json.dumps({"t": "sub", "s": [{"k": "a"}] * 1025}), json.dumps({"t": "sub", "s": [{"k": "a" * 17_000}]}),
    ],
)  # fmt: skip
def test_anything_else_is_malformed(text: str | bytes) -> None:
    """Whatever it is, there is one error for it."""
    with pytest.raises(Malformed):
        frames_of(text)


@pytest.mark.parametrize(
    "pair",
    ['"i":"x"', '"i":5', '"i":""', '"i":"-1"', '"i":"1.5"', f'"i":"{"9" * 5000}"', '"i":null', '"r":"1"', '"r":-1',
     '"r":1.5', '"r":true', '"r":NaN', '"r":Infinity', f'"r":{"9" * 5000}', '"r":1e400', '"r":null'],
)  # fmt: skip
def test_a_pair_is_two_numbers(pair: str) -> None:
    """An incarnation is decimal text, a revision a number, and neither has thousands of digits."""
    with pytest.raises(Malformed):
        frames_of(f'{{"t":"sub","s":[{{"k":"a~b",{pair}}}]}}')
    with pytest.raises(Malformed):
        items_of(f'[{{"k":"a~b",{pair}}}]', 10)


def test_a_poll_is_bounded() -> None:
    """More streams than one poll may ask for are malformed."""
    with pytest.raises(Malformed):
        items_of('[{"k":"a"},{"k":"b"}]', 1)


@given(st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_no_text_is_another_error(text: str) -> None:
    """Any text is frames or malformed."""
    with contextlib.suppress(Malformed):
        assert isinstance(frames_of(text), list)
