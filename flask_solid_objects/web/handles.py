"""Signed handles of live views: what a page was rendered for, bound to its viewer and to a day.

A handle says "was once rendered for this viewer", not "may still": policies are asked at every use. Within a day the
same view has the same handle, so that a page that is rendered again does not change; one of the day before is still
taken, and an older one has expired.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from flask_solid_objects.values import ActorKey

_DAY_SECONDS = 86_400
_LONGEST_MEMORY = 35
_MOST_BYTES = 16 * 1024


class HandleRefused(Exception):
    """A handle that cannot be taken; ``why`` is denied or expired, or deleted: what it names was destroyed."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Stream:
    """What a page subscribes to: an actor, and the payloads that it wants computed for its viewer."""

    key: ActorKey
    payloads: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = f"{_quoted(self.key.actor_type)}:{_quoted(self.key.actor_id)}"
        return f"{name};{','.join(self.payloads)}" if self.payloads else name

    @classmethod
    def parse(cls, text: str) -> Stream:
        """What :meth:`__str__` made.

        :raises HandleRefused: it is something else.
        """
        name, _, payloads = text.partition(";")
        actor_type, separator, actor_id = name.partition(":")
        if not separator or not actor_type or not actor_id:
            raise HandleRefused("denied")
        key = ActorKey(actor_type=unquote(actor_type), actor_id=unquote(actor_id))
        return cls(key, tuple(payloads.split(",")) if payloads else ())


class ComponentSpec(msgspec.Struct, frozen=True, array_like=True):
    """What is needed to render a component again."""

    name: str
    tag: str
    css_class: str
    actors: list[tuple[str, str, str, list[str]]]  # alias, type, id, observables
    key: str | None
    refresh: str
    batch: bool
    payloads: list[str]
    locals: dict[str, Any]


class Handles:
    """Makes and checks handles with the application's keys.

    :param keys: the current key first, then former ones.
    """

    def __init__(self, keys: Callable[[], Sequence[bytes]], now: Callable[[], float] = time.time) -> None:
        self._keys, self._now = keys, now

    def stream(self, stream: Stream, viewer: str) -> str:
        text = str(stream)
        return f"{text}~{self._mac(self._keys()[0], 'stream', text, viewer, self._day())}"

    def read_stream(self, handle: str, viewer: str) -> Stream:
        """The stream of a handle.

        :raises HandleRefused: it is forged, of another viewer, or too old.
        """
        text, separator, mac = handle.rpartition("~")
        if not separator or len(handle) > _MOST_BYTES:
            raise HandleRefused("denied")
        self._check(mac, "stream", text, viewer)
        return Stream.parse(text)

    def component(self, spec: ComponentSpec, viewer: str) -> str:
        text = base64.urlsafe_b64encode(msgspec.json.encode(spec)).decode().rstrip("=")
        return f"{text}~{self._mac(self._keys()[0], 'component', text, viewer, self._day())}"

    def read_component(self, token: str, viewer: str) -> ComponentSpec:
        """The component of a token.

        :raises HandleRefused: it is forged, of another viewer, or too old.
        """
        text, separator, mac = token.rpartition("~")
        if not separator or len(token) > _MOST_BYTES:
            raise HandleRefused("denied")
        self._check(mac, "component", text, viewer)
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=ComponentSpec)

    def _check(self, mac: str, purpose: str, text: str, viewer: str) -> None:
        """Compare with this day and the day before; one of an older day is told apart from a forgery."""
        given, day = mac.encode(errors="replace"), self._day()
        for age in range(_LONGEST_MEMORY):
            for key in self._keys():
                if hmac.compare_digest(given, self._mac(key, purpose, text, viewer, day - age).encode()):
                    if age <= 1:
                        return
                    raise HandleRefused("expired")
        raise HandleRefused("denied")

    def _day(self) -> int:
        return int(self._now() // _DAY_SECONDS)

    @staticmethod
    def _mac(key: bytes, purpose: str, text: str, viewer: str, day: int) -> str:
        # Lengths before the parts, so that no two lists of parts give the same bytes.
        parts = [part.encode() for part in ("solid-objects", purpose, text, viewer, str(day))]
        message = b"".join(len(part).to_bytes(4) + part for part in parts)
        return base64.urlsafe_b64encode(hmac.digest(key, message, hashlib.sha256)[:12]).decode()


def _quoted(text: str) -> str:
    return quote(text, safe="").replace("~", "%7E")
