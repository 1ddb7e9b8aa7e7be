"""The turns of an htmx request, told in its answer: the page that acted follows at once, even without a socket.

Only pairs and names of observables are told, and only of actors that the visitor may watch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from flask import has_request_context, request

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.values import Access, ActorKey, CommittedTurn
from flask_solid_objects.web.handles import Stream

_EVENT = "solid:turn"
_HEADER = "HX-Trigger"
# Headers of 8 kB are too long for some proxies; what is left out comes over the socket.
_MOST_ACTORS, _MOST_BYTES = 20, 4096


class OwnTurns:
    """Remembers the turns of each request of one application, and adds them to its answer.

    :param core: of its runtime, whose policies decide which actors the viewer may watch.
    """

    def __init__(self, core: Callable[[], Core], viewer: Callable[[], str]) -> None:
        self._core, self._viewer = core, viewer
        # Of this application: a request may also use actors of another one.
        self._key = f"solid_objects.turns.{id(self)}"

    def note(self, turn: CommittedTurn) -> None:
        """A turn was committed, perhaps in a request of this application."""
        if has_request_context() and request.headers.get("HX-Request") == "true":
            request.environ.setdefault(self._key, []).append(turn)

    def add_to(self, response: Any) -> Any:
        """The answer to a request, with the event beside those that the application triggers."""
        turns: list[CommittedTurn] = request.environ.get(self._key, [])
        if not turns:
            return response
        try:
            header = _with_event(response.headers.get(_HEADER, ""), self._messages(turns))
            if header is not None:
                response.headers[_HEADER] = header
        except Exception as error:
            # The action itself has succeeded, and the socket tells all the same.
            self._core().events.announce("view.failed", error=type(error).__name__)
        return response

    def _messages(self, turns: Iterable[CommittedTurn]) -> list[dict[str, Any]]:
        """One for each actor, as a socket would tell of all its turns together."""
        merged: dict[ActorKey, CommittedTurn] = {}
        for turn in turns:
            first = merged.pop(turn.key, None)
            merged[turn.key] = turn if first is None or first.incarnation != turn.incarnation else _both(first, turn)
        viewer = self._viewer()
        return [
            {
                "s": str(Stream(turn.key)),
                "i": str(turn.incarnation),
                "r": turn.revision,
                "p": turn.before,
                "n": list(turn.observables),
            }
            for turn in list(merged.values())[-_MOST_ACTORS:]
            if self._may_watch(turn.key, viewer)
        ]

    def _may_watch(self, key: ActorKey, viewer: str) -> bool:
        access = Access(action="subscribe", actor_type=key.actor_type, actor_id=key.actor_id, context=viewer)
        return self._core().policies.allows("subscription", access, browser=True)


def _both(first: CommittedTurn, then: CommittedTurn) -> CommittedTurn:
    return CommittedTurn(
        key=then.key,
        incarnation=then.incarnation,
        before=first.before,
        revision=then.revision,
        observables=tuple(dict.fromkeys((*first.observables, *then.observables))),
    )


def _with_event(header: str, messages: list[dict[str, Any]]) -> str | None:
    """The header with our event; None to leave it as it is. It lists names, or is an object of names and details."""
    while messages:
        events = _events(header)
        if events is None or _EVENT in events:
            return None
        text = json.dumps(events | {_EVENT: {"m": messages}}, separators=(",", ":"))
        if len(text) <= max(_MOST_BYTES, len(header) + _MOST_BYTES // 2):
            return text
        messages = messages[1:]
    return None


def _events(header: str) -> dict[str, Any] | None:
    text = header.strip()
    if not text.startswith("{"):
        return {name.strip(): {} for name in text.split(",") if name.strip()}
    try:
        decoded = json.loads(text)
    except ValueError:
        return None
    return decoded if isinstance(decoded, dict) else None
