"""What a page may watch: handle and policy are checked at every subscription, and the policy now and then again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flask import Flask

from flask_solid_objects.errors import Unauthorized, UnknownActorType
from flask_solid_objects.runtime.relay import Notice
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.runtime.viewing import NEVER_USED
from flask_solid_objects.store.views import ViewRow
from flask_solid_objects.values import Access, ActorKey
from flask_solid_objects.web.connection import Connection
from flask_solid_objects.web.handles import HandleRefused, Handles, Stream
from flask_solid_objects.web.protocol import Wanted

_REASONS = {
    HandleRefused: "invalid_stream_token",
    Unauthorized: "unauthorized",
    UnknownActorType: "unregistered_actor_type",
}


class Subscriptions:
    """Subscriptions of the pages of one application."""

    def __init__(self, runtime: Callable[[], Runtime], handles: Handles) -> None:
        self._runtime, self._handles = runtime, handles

    def answer(self, items: Sequence[Wanted], viewer: str, connection: Connection | None) -> list[dict[str, Any]]:
        """What each has missed, in one frame, and a frame for each that is refused.

        A connection gets them too, and hears of all further changes.
        """
        streams: list[tuple[Wanted, Stream]] = []
        answered: list[dict[str, Any]] = []
        refused: dict[str, str] = {}
        for item in items:
            try:
                streams.append((item, self._watched(item, viewer, connection)))
            except (HandleRefused, Unauthorized, UnknownActorType) as error:
                refused[item.name] = error.why if isinstance(error, HandleRefused) else "denied"
                self._runtime().core.events.announce("subscription.rejected", reason=_REASONS[type(error)])
        rows = self._runtime().viewing.rows({stream.key for _, stream in streams})
        for item, stream in streams:
            row = rows.get(stream.key)
            if row is None and int(item.incarnation) != NEVER_USED:
                refused[item.name] = "deleted"
                continue
            answered.append(self._missed(item, row))
            if connection is not None:
                self._begin(connection, item.name, stream, row)
        gone = [{"t": "gone", "s": name, "why": why} for name, why in refused.items()]
        if connection is not None:
            for name in refused:
                self.drop(connection, name)
            if answered:
                connection.answer(answered)
            connection.put(*gone)
        return [*([{"t": "sub", "s": answered}] if answered else []), *gone]

    def recheck(self, connection: Connection) -> None:
        """Ask the policy again: rights may have been taken away since."""
        for name, stream in connection.streams.items():
            try:
                self._authorize(stream.key, connection.viewer)
            except Unauthorized:
                self.drop(connection, name)
                connection.put({"t": "gone", "s": name, "why": "denied"})

    def drop(self, connection: Connection, name: str) -> None:
        """A stream has left the page."""
        stream = connection.streams.get(name)
        key = connection.remove(name)
        if stream is not None:
            self._runtime().core.events.announce("realtime.disconnected", actor=stream.key)
        if key is not None:
            self._runtime().relay.unwatch(key, connection)

    def project(self, app: Flask, viewer: str, payload: str, notice: Notice) -> Any:
        """One payload for one viewer, after the policy was asked again.

        :raises Unauthorized: this viewer may not have it, or no longer.
        """
        assert notice.row is not None, "nothing is computed of what is gone"
        with app.app_context():
            runtime = self._runtime()
            access = Access(
                action="query",
                actor_type=notice.key.actor_type,
                actor_id=notice.key.actor_id,
                operation=payload,
                context=viewer,
            )
            runtime.core.policies.require("query", access, browser=True)
            definition = runtime.core.registry.get(notice.key.actor_type)
            limit = runtime.settings.max_payload_bytes
            return runtime.viewing.payload(definition, notice.row, payload, viewer, limit)

    def _watched(self, item: Wanted, viewer: str, connection: Connection | None) -> Stream:
        """The stream of an item; from now on the connection hears of its changes.

        :raises HandleRefused, Unauthorized, UnknownActorType: it may not be watched.
        """
        runtime = self._runtime()
        stream = self._handles.read_stream(item.handle, viewer)
        self._authorize(stream.key, viewer)
        runtime.core.registry.get(stream.key.actor_type)
        if connection is not None:
            is_new = item.name not in connection.streams
            if not connection.add(item.name, stream):
                raise HandleRefused("denied")
            # Before it is read: a change in between is told twice, and never not at all.
            runtime.relay.watch(stream.key, connection)
            if is_new:
                runtime.core.events.announce("realtime.connected", actor=stream.key)
            runtime.core.seams.checkpoints.reach("subscription.watched", stream=item.name)
        return stream

    def _begin(self, connection: Connection, name: str, stream: Stream, row: ViewRow | None) -> None:
        self._runtime().relay.seen(stream.key, row)
        if stream.payloads and row is not None:
            connection.project(name, Notice(key=row.key, incarnation=row.id, revision=row.revision, row=row))

    def _missed(self, item: Wanted, row: ViewRow | None) -> dict[str, Any]:
        if row is None:
            return {"s": item.name, "i": str(NEVER_USED), "r": 0, "n": [], "v": {}}
        return {
            "s": item.name,
            "i": str(row.id),
            "r": row.revision,
            "n": row.changed_since(int(item.incarnation), item.revision),
            "v": self._runtime().viewing.values_to_tell(row),
        }

    def _authorize(self, key: ActorKey, viewer: str) -> None:
        access = Access(action="subscribe", actor_type=key.actor_type, actor_id=key.actor_id, context=viewer)
        self._runtime().core.policies.require("subscription", access, browser=True)
