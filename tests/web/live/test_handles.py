"""Handles: bound to what they name, to a viewer and to a day."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_solid_objects.values import ActorKey
from flask_solid_objects.web.handles import HandleRefused, Handles, Stream

DAY = 86_400.0


class Calendar:
    """A time that the test moves."""

    def __init__(self) -> None:
        self.now = 1000 * DAY + 5

    def __call__(self) -> float:
        return self.now


def handles(*keys: bytes, calendar: Calendar | None = None) -> Handles:
    return Handles(lambda: keys or (b"key",), calendar or Calendar())


ROOM = Stream(ActorKey(actor_type="Room", actor_id="lobby"), ("hand",))


@given(
    actor_type=st.text(min_size=1, max_size=20), actor_id=st.text(min_size=1, max_size=20), viewer=st.text(max_size=9)
)
def test_any_identity_survives(actor_type: str, actor_id: str, viewer: str) -> None:
    """Whatever characters type, id and viewer have, the handle gives them back, without spaces and with one tilde."""
    try:
        (actor_type + actor_id + viewer).encode()
    except UnicodeEncodeError:
        return  # no actor has such an id
    stream = Stream(ActorKey(actor_type=actor_type, actor_id=actor_id))
    handle = handles().stream(stream, viewer)

    assert stream == handles().read_stream(handle, viewer)
    assert handle.isascii()
    assert not any(character.isspace() for character in handle)
    assert handle.count("~") == 1


def test_a_handle_is_the_same_all_day() -> None:
    """A page that is rendered again within a day has the same handles."""
    calendar = Calendar()
    made = handles(calendar=calendar)
    first = made.stream(ROOM, "ann")
    calendar.now += DAY - 10

    assert first == made.stream(ROOM, "ann")


def test_a_handle_of_yesterday_is_taken() -> None:
    """A page that was open over midnight goes on."""
    calendar = Calendar()
    made = handles(calendar=calendar)
    first = made.stream(ROOM, "ann")
    calendar.now += DAY

    assert made.read_stream(first, "ann") == ROOM


@pytest.mark.parametrize("days", [2, 20])
def test_an_old_handle_has_expired(days: int) -> None:
    """After two days a handle is refused, and the page is told why."""
    calendar = Calendar()
    made = handles(calendar=calendar)
    first = made.stream(ROOM, "ann")
    calendar.now += days * DAY

    with pytest.raises(HandleRefused) as refused:
        made.read_stream(first, "ann")
    assert refused.value.why == "expired"


@pytest.mark.parametrize(
    ("handle", "viewer"),
    [
        ("{}", "bob"),
        ("x{}", "ann"),
        ("{}x", "ann"),
        ("Room:lobby~", "ann"),
        ("Room:lobby", "ann"),
        ("", "ann"),
        ("~", "ann"),
        ("Room:other~{mac}", "ann"),
    ],
)
def test_what_was_not_made_for_this_viewer_is_refused(handle: str, viewer: str) -> None:
    """A handle of another user, a changed or an invented one are all denied."""
    real = handles().stream(ROOM, "ann")

    with pytest.raises(HandleRefused) as refused:
        handles().read_stream(handle.format(real, mac=real.rpartition("~")[2]), viewer)
    assert refused.value.why == "denied"


def test_a_former_key_is_taken() -> None:
    """After a change of the key, open pages go on for as long as the former key is listed."""
    old = handles(b"old").stream(ROOM, "ann")

    assert handles(b"new", b"old").read_stream(old, "ann") == ROOM
    with pytest.raises(HandleRefused):
        handles(b"new").read_stream(old, "ann")


def test_a_handle_of_one_kind_is_none_of_the_other() -> None:
    """What signs a subscription cannot be used to render a component."""
    with pytest.raises(HandleRefused):
        handles().read_component(handles().stream(ROOM, "ann"), "ann")
