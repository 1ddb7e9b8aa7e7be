"""One open socket of a page: what it watches, and the frames that wait to be sent, merged and bounded.

Of one stream only the newest invalidation waits, with the names of all that it stands for, so that a slow reader costs
a fixed amount of memory.
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
_MOST_EVENTS = 100
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
        self._invalid: dict[str, dict[str, Any]] = {}
        self._frames: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []

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
            self._invalid.pop(name, None)
            names = self._by_key[stream.key]
            names.remove(name)
            if names:
                return None
            del self._by_key[stream.key]
            return stream.key

    def notify(self, notice: Notice) -> None:
        """A change of an actor, in the thread of the relay."""
        with self._lock:
            names = list(self._by_key.get(notice.key, ()))
            for name in names:
                if notice.is_gone:
                    self._frames.append({"t": "gone", "s": name, "why": "deleted"})
                    self._invalid.pop(name, None)
                else:
                    self._invalid[name] = self._merged(self._invalid.get(name), name, notice)
            projected = [name for name in names if self._streams[name].payloads and not notice.is_gone]
        if names:
            self._wake(self)
        for name in projected:
            self._project(self, name, notice)

    def put(self, *frames: dict[str, Any]) -> None:
        """Let frames of the protocol wait to be sent."""
        with self._lock:
            self._frames += frames
        self._wake(self)

    def put_event(self, frame: dict[str, Any]) -> None:
        """Let a payload wait; of one name only the newest, and never too many."""
        with self._lock:
            same = (frame["s"], frame["n"])
            self._events = [each for each in self._events if (each["s"], each["n"]) != same][-_MOST_EVENTS + 1 :]
            self._events.append(frame)
        self._wake(self)

    def take(self) -> list[str]:
        """Everything that waits, as texts to send."""
        with self._lock:
            frames = [*self._frames, *self._invalid.values(), *self._events]
            self._frames, self._invalid, self._events = [], {}, []
        return list(_texts(frames))

    @staticmethod
    def _merged(waiting: dict[str, Any] | None, name: str, notice: Notice) -> dict[str, Any]:
        frame: dict[str, Any] = {
            "t": "inv",
            "s": name,
            "i": str(notice.incarnation),
            "r": notice.revision,
            "p": notice.previous,
            "n": notice.names,
            "v": notice.values,
        }
        if notice.watchers > 1:
            frame["j"] = 1000 * notice.watchers // _WATCHERS_A_SECOND
        if waiting is None:
            return frame
        if waiting["i"] != frame["i"] or waiting["n"] is None or frame["n"] is None:
            frame["n"] = None
        else:
            frame["n"] = sorted({*waiting["n"], *frame["n"]})
        frame["p"] = waiting["p"]
        return frame


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
