"""What a page sends over its socket, or asks for when it polls; anything else is malformed."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

MOST_ITEMS = 1024
_MOST_HANDLE = 16 * 1024

_Handle: TypeAlias = Annotated[str, msgspec.Meta(max_length=_MOST_HANDLE)]


class Malformed(ValueError):
    """No page of ours sends this."""


class Wanted(msgspec.Struct, frozen=True, rename={"handle": "k", "incarnation": "i", "revision": "r"}):
    """One stream that a page watches, with the pair that it knows."""

    handle: _Handle
    incarnation: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,20}$")] = "0"
    revision: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0

    @property
    def name(self) -> str:
        """How frames call the stream: the handle without its signature."""
        return self.handle.rpartition("~")[0]


class Subscribe(msgspec.Struct, frozen=True, tag_field="t", tag="sub", rename={"items": "s"}):
    items: Annotated[list[Wanted], msgspec.Meta(max_length=MOST_ITEMS)]

    @property
    def size(self) -> int:
        return len(self.items)


class Unsubscribe(msgspec.Struct, frozen=True, tag_field="t", tag="unsub", rename={"names": "s"}):
    names: Annotated[list[_Handle], msgspec.Meta(max_length=MOST_ITEMS)]

    @property
    def size(self) -> int:
        return len(self.names)


Frame: TypeAlias = Subscribe | Unsubscribe

_FRAMES = msgspec.json.Decoder(Frame | list[Frame])
_ITEMS = msgspec.json.Decoder(list[Wanted])


def frames_of(text: str | bytes) -> list[Frame]:
    """The frames of one message of a socket.

    :raises Malformed: it is no text, no JSON, or says something else.
    """
    if not isinstance(text, str):
        raise Malformed
    try:
        decoded = _FRAMES.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Malformed from error
    return decoded if isinstance(decoded, list) else [decoded]


def items_of(text: str, most: int) -> list[Wanted]:
    """The list of streams of a page that polls.

    :raises Malformed: it is something else, or too long.
    """
    try:
        decoded = _ITEMS.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Malformed from error
    if len(decoded) > most:
        raise Malformed
    return decoded
