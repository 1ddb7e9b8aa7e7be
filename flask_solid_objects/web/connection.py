"""One open socket of a page: what it watches, what it was told, and what waits to be sent, bounded.

Of one stream only the newest change waits. What it says is computed when it is sent, from the pair that the page was
told last, whether by the answer to its subscription or by a change: so nothing is told twice or called unknown, however
the relay and the subscription overtook each other, and a slow reader costs a fixed amount of memory.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

from flask_solid_objects.runtime.relay import Notice
from flask_solid_objects.values import ActorKey
from flask_solid_objects.web.handles import Stream

MOST_STREAMS = 256
_MOST_FRAMES, _MOST_BYTES = 50, 32 * 1024
# Watchers whose refetches are spread over one second.
_WATCHERS_A_SECOND = 500


class Connection:
    """Hears of changes from the relay, and gives frames to the writer; hearing never waits.

    :param wake: tells the writer that something waits.
    :param project: asks for the payloads of a stream at a change, which takes longer.
    """

    def __init__(
        self, viewer: str, wake: Callable[[Connection], None], project: Callable[[Connection, str, Notice], None]
    ) -> None:
        self.viewer = viewer
        self._wake, self._project = wake, project
        self._lock = threading.Lock()
        self._streams: dict[str, Stream] = {}
        self._by_key: dict[ActorKey, list[str]] = {}
        # The pair that the page knows of each stream, and the newest change that it does not know yet.
        self._told: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, Notice] = {}
        self._frames: list[dict[str, Any]] = []
        self._events: dict[tuple[str, str], dict[str, Any]] = {}
        self._evented: dict[tuple[str, str], tuple[int, int]] = {}

    @property
    def streams(self) -> dict[str, Stream]:
        with self._lock:
            return dict(self._streams)

    def add(self, name: str, stream: Stream) -> bool:
        """Take a stream in; False when there are too many."""
        with self._lock:
            if name not in self._streams and len(self._streams) >= MOST_STREAMS:
                return False
            if name not in self._streams:
                self._streams[name] = stream
                self._by_key.setdefault(stream.key, []).append(name)
            return True

    def remove(self, name: str) -> ActorKey | None:
        """Take a stream out; the actor that nothing of this page watches any more."""
        with self._lock:
            stream = self._streams.pop(name, None)
            if stream is None:
                return None
            self._told.pop(name, None)
            self._waiting.pop(name, None)
            for each in [each for each in self._evented if each[0] == name]:
                self._evented.pop(each)
                self._events.pop(each, None)
            names = self._by_key[stream.key]
            names.remove(name)
            if names:
                return None
            del self._by_key[stream.key]
            return stream.key

    def notify(self, notice: Notice) -> None:
        """A change of an actor, in the thread of the relay."""
        with self._lock:
            names = [name for name in self._by_key.get(notice.key, ()) if self._is_news(name, notice)]
            self._waiting.update(dict.fromkeys(names, notice))
            projected = [name for name in names if self._streams[name].payloads and notice.row is not None]
        if names:
            self._wake(self)
        for name in projected:
            self._project(self, name, notice)

    def project(self, name: str, notice: Notice) -> None:
        """Ask for the payloads of a stream as they are now."""
        self._project(self, name, notice)

    def answer(self, items: list[dict[str, Any]]) -> None:
        """Let the answer to subscriptions wait, before any change that is newer; an older one is dropped."""
        with self._lock:
            for item in items:
                name, pair = item["s"], (int(item["i"]), item["r"])
                if name not in self._streams:
                    continue
                self._told[name] = max(pair, self._told.get(name, pair))
                waiting = self._waiting.get(name)
                if waiting is not None and waiting.pair <= self._told[name]:
                    del self._waiting[name]
            self._frames.append({"t": "sub", "s": items})
        self._wake(self)

    def put(self, *frames: dict[str, Any]) -> None:
        """Let frames of the protocol wait to be sent."""
        with self._lock:
            self._frames += frames
        self._wake(self)

    def put_event(self, frame: dict[str, Any]) -> None:
        """Let a payload wait; of one name only the newest, and never an older one than before."""
        which, pair = (frame["s"], frame["n"]), (int(frame["i"]), frame["r"])
        with self._lock:
            if frame["s"] not in self._streams or pair < self._evented.get(which, pair):
                return
            self._evented[which] = pair
            self._events[which] = frame
        self._wake(self)

    def take(self) -> list[str]:
        """Everything that waits, as texts to send."""
        with self._lock:
            frames, self._frames = self._frames, []
            # What waits for a stream without an answer is told after the answer, unless that is newer.
            for name in [name for name in self._waiting if name in self._told]:
                frames += self._frames_of(name, self._waiting.pop(name))
            frames += self._events.values()
            self._events = {}
        return list(_texts(frames))

    def _is_news(self, name: str, notice: Notice) -> bool:
        waiting = self._waiting.get(name)
        known = [waiting.pair if waiting is not None else None, self._told.get(name)]
        return all(pair is None or notice.pair > pair for pair in known)

    def _frames_of(self, name: str, notice: Notice) -> list[dict[str, Any]]:
        """A change as the page of this connection has to hear it."""
        incarnation, revision = self._told[name]
        if notice.row is None and incarnation != notice.incarnation:
            # The end of what the page never had.
            return []
        self._told[name] = notice.pair
        if notice.row is None:
            return [{"t": "gone", "s": name, "why": "deleted"}]
        frame: dict[str, Any] = {
            "t": "inv",
            "s": name,
            "i": str(notice.incarnation),
            "r": notice.revision,
            "p": revision if incarnation == notice.incarnation else 0,
            "n": notice.row.changed_since(incarnation, revision),
            "v": notice.values,
        }
        if notice.watchers > 1:
            frame["j"] = 1000 * notice.watchers // _WATCHERS_A_SECOND
        return [frame]


def _texts(frames: list[dict[str, Any]]) -> Iterable[str]:
    """Frames as JSON arrays of a bounded length; one alone is an object."""
    batch: list[str] = []
    size = 0
    for frame in frames:
        text = json.dumps(frame, separators=(",", ":"))
        if batch and (len(batch) >= _MOST_FRAMES or size + len(text) > _MOST_BYTES):
            yield _joined(batch)
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield _joined(batch)


def _joined(batch: list[str]) -> str:
    return batch[0] if len(batch) == 1 else f"[{','.join(batch)}]"
