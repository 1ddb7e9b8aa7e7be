"""Broadcasts within one process: whoever subscribes hears what this process learns of, whichever way it came."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from flask_solid_objects.runtime.events import Events
from flask_solid_objects.values import Broadcast

Listener = Callable[[Sequence[Broadcast]], None]


class Hub:
    """Subscriptions of one process; delivering never raises and never waits."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._listeners: list[Listener] = []
        self._lock = threading.Lock()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear broadcasts from now on; call what is returned to stop."""
        with self._lock:
            self._listeners = [*self._listeners, listener]

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = [each for each in self._listeners if each is not listener]

        return unsubscribe

    def deliver(self, broadcasts: Sequence[Broadcast]) -> None:
        """Tell every subscriber; one that fails keeps nothing from the others."""
        for listener in self._listeners:
            try:
                listener(broadcasts)
            except Exception as error:
                self._events.announce("broadcast.listener_failed", error=type(error).__name__)
