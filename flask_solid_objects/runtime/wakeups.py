"""Wake those who wait, in this process at once and in others through a transport; a hint, never a promise.

With every hint lost, polling still finds the work. A watch is taken before looking, so that a signal in between is
not lost. A signal for one actor wakes its own watchers and, when there may be work, the roles; nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from flask_solid_objects.runtime.events import Events
from flask_solid_objects.seams import Clock
from flask_solid_objects.values import WakeUpCapability

Listener: TypeAlias = Callable[[Collection[int] | None], None]


class Transport(Protocol):
    """Carries signals between processes. Its failures never reach those who signal."""

    @property
    def capability(self) -> WakeUpCapability: ...

    def start(self, wake_ups: WakeUps) -> None:
        """Begin to listen, in threads of its own; called once, by the first who waits."""

    def publish(self, instance_id: int | None, work: bool) -> None:
        """Tell the other processes, soon and without blocking."""

    def wait_probed(self, timeout: float) -> bool:
        """Wait until it is known what the path can do."""
        ...

    def stop(self) -> None:
        """End all threads and connections."""


class Watch:
    """One waiter; close it, or use it as a context manager."""

    def __init__(self, wake_ups: WakeUps, clock: Clock, instance_id: int | None, order: int = 0) -> None:
        self._wake_ups, self._clock = wake_ups, clock
        self.instance_id = instance_id
        self.order = order
        self._event = threading.Event()
        self._interrupted = False

    def wait(self, timeout: float) -> bool:
        """Wait for a signal; True when there was one since the watch was taken or the last wait."""
        woken = self._clock.wait(self._event, timeout)
        if woken:
            # Not after a time-out: a signal that comes right after it is for the next wait.
            self._event.clear()
        if self._interrupted:
            # Whoever interrupted wants no later wait to block either.
            self._event.set()
        return woken

    def interrupt(self) -> None:
        """Let this and every later wait return at once."""
        self._interrupted = True
        self._event.set()

    def wake(self) -> None:
        self._event.set()

    def close(self) -> None:
        self._wake_ups.forget(self)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WakeUps:
    """The watches of one process, and the transport that joins it to others."""

    def __init__(self, transport: Transport | None, clock: Clock, capability: WakeUpCapability, events: Events) -> None:
        self._transport, self._clock, self.events = transport, clock, events
        self._lock = threading.Lock()
        self._work: set[Watch] = set()
        self._instances: dict[int, set[Watch]] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._started = self._stopped = False
        self._watched = threading.Event()
        self._capability = capability

    @property
    def capability(self) -> WakeUpCapability:
        """What this path can do; a transport may have found out more since it was chosen."""
        return self._capability if self._transport is None else self._transport.capability

    def signal(self, *, instance_id: int | None, work: bool) -> None:
        """Tell everybody who waits for this actor, and with ``work`` the roles; called after a commit.

        Never raises: what has committed must not look failed because its hint was, such as when the interpreter ends
        and no thread can start any more.
        """
        self.deliver([] if instance_id is None else [instance_id], work=work)
        if self._transport is None:
            return
        try:
            self._transport.publish(instance_id, work)
        except Exception as error:
            self._tell("signal", error)

    def deliver(self, instance_ids: Collection[int], *, work: bool) -> None:
        """Wake the watches of this process."""
        with self._lock:
            woken = set(self._work) if work else set()
            for instance_id in instance_ids:
                woken.update(_first_in_line(self._instances.get(instance_id)))
        for watch in woken:
            watch.wake()
        if instance_ids:
            for listener in self._listeners:
                listener(instance_ids)

    def deliver_all(self) -> None:
        """Wake the roles, and of each actor who is first in line: signals were lost, or do not say whom they are for.

        All of them would be woken a hundred times a second by a busy SQLite file.
        """
        with self._lock:
            woken = self._work.union(*map(_first_in_line, self._instances.values()))
        for watch in woken:
            watch.wake()
        for listener in self._listeners:
            listener(None)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of every signal: the actors' ids, or None for anybody. It must return at once and not raise.

        Call what is returned to stop.
        """
        with self._lock:
            self._listeners = (*self._listeners, listener)
        self._watched.set()

        def unlisten() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return unlisten

    def watch_work(self) -> Watch:
        """Watch for work of any actor."""
        watch = Watch(self, self._clock, None)
        with self._lock:
            self._work.add(watch)
        self._watched.set()
        return watch

    def watch_instance(self, instance_id: int, order: int = 0) -> Watch:
        """Watch one actor: a message of it ended, its lease became free, or a message arrived.

        :param order: the sequence that is waited for; a signal wakes the lowest, which passes it on when it closes.
        """
        watch = Watch(self, self._clock, instance_id, order)
        with self._lock:
            self._instances.setdefault(instance_id, set()).add(watch)
        self._watched.set()
        return watch

    @property
    def has_watches(self) -> bool:
        return bool(self._work or self._instances or self._listeners)

    def wait_watched(self, timeout: float) -> bool:
        """Wait until somebody watches, so that a transport that polls need not while nobody does; not after a stop."""
        with self._lock:
            if not (self.has_watches or self._stopped):
                self._watched.clear()
        return self._watched.wait(timeout)

    def forget(self, watch: Watch) -> None:
        with self._lock:
            self._work.discard(watch)
            watches = self._instances.get(watch.instance_id) if watch.instance_id is not None else None
            if watches is not None and watch.instance_id is not None:
                watches.discard(watch)
                for following in _first_in_line(watches):
                    following.wake()
                if not watches:
                    del self._instances[watch.instance_id]

    def start(self) -> None:
        """Listen to other processes from now on; called by whoever begins to wait, more than once. Never raises."""
        if self._transport is None or self._started:
            return
        with self._lock:
            if self._started:
                return
            self._started = True
        try:
            self._transport.start(self)
        except Exception as error:
            # Polling goes on, and the next who waits tries again.
            self._started = False
            self._tell("start", error)

    def wait_probed(self, timeout: float) -> bool:
        """Wait until the transport knows what its path can do; at once where there is nothing to find out."""
        return True if self._transport is None else self._transport.wait_probed(timeout)

    def stop(self) -> None:
        """End the transport and let every waiter go."""
        with self._lock:
            self._stopped = True
        self._watched.set()
        if self._transport is not None:
            try:
                self._transport.stop()
            except Exception as error:
                # Closing must go on.
                self._tell("stop", error)
        with self._lock:
            everybody = self._work.union(*self._instances.values())
        for watch in everybody:
            watch.wake()

    def _tell(self, operation: str, error: Exception) -> None:
        self.events.announce(
            "wake_up.failed", adapter=self.capability.adapter, phase=operation, error=type(error).__name__
        )


def _first_in_line(watches: Collection[Watch] | None) -> list[Watch]:
    """Only the lowest order can go on; waking all made 16 callers of one actor 5 times slower. Equals go together."""
    if not watches:
        return []
    lowest = min(watch.order for watch in watches)
    return [watch for watch in watches if watch.order == lowest]


class AdaptiveInterval:
    """How long an idle role waits: short after work or a signal, doubling to the idle ceiling."""

    def __init__(self, fast: float, idle: float) -> None:
        self._fast, self._idle = fast, max(fast, idle)
        self.current = fast

    def reset(self) -> None:
        self.current = self._fast

    def back_off(self) -> None:
        self.current = min(self.current * 2, self._idle)
