"""Tell the watchers in this process what has changed: one thread that reads the pairs of watched actors.

Hints say where to look (wake-ups of this process, NOTIFY, Redis, SQLite's counter), and a poll looks at everything
watched, so that nothing depends on a worker being alive or on a hint arriving. What is told comes from the rows, by
comparison, so that a commit that became visible late is never skipped (hazard H028). Telling costs as much as the actor
that changed has watchers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from flask_solid_objects.errors import CommitUnknown, DatabaseDeadlineExceeded
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.viewing import NEVER_USED, Viewing
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.views import ViewRow
from flask_solid_objects.values import ActorKey

# Changes of many actors at once are read together; a watcher waits this long at most for the others.
_PACE_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A change of one actor, with the row that it was read from; None when this incarnation was destroyed."""

    key: ActorKey
    incarnation: int
    revision: int
    row: ViewRow | None
    values: dict[str, Any] = field(default_factory=dict)
    watchers: int = 1

    @property
    def pair(self) -> tuple[int, float]:
        """What is newer compares as greater; the end of an incarnation is newer than all that it committed."""
        return self.incarnation, math.inf if self.row is None else self.revision


class Watcher(Protocol):
    """Hears of changes, of some more than once; must return at once."""

    def notify(self, notice: Notice) -> None: ...


@dataclass(slots=True)
class _Watched:
    """One actor that somebody watches, with the pair that all of them know."""

    key: ActorKey
    incarnation: int = NEVER_USED
    revision: int = 0
    is_read: bool = False
    watchers: set[Watcher] = field(default_factory=set)

    @property
    def pair(self) -> tuple[int, int]:
        return self.incarnation, self.revision


class Relay:
    """The watched actors of one process; its thread starts with the first of them."""

    def __init__(self, core: Core, wake_ups: WakeUps, viewing: Viewing) -> None:
        self._core, self._wake_ups, self._viewing = core, wake_ups, viewing
        self._lock = threading.Lock()
        self._watched: dict[ActorKey, _Watched] = {}
        self._by_id: dict[int, _Watched] = {}
        self._dirty: set[int] = set()
        self._anything = self._births = False
        self._ready, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._unlisten: Callable[[], None] | None = None

    def watch(self, key: ActorKey, watcher: Watcher) -> None:
        """Hear of an actor from now on. Register first, read the current pair afterwards, so that nothing is lost."""
        with self._lock:
            self._watched.setdefault(key, _Watched(key)).watchers.add(watcher)
        self._start()

    def unwatch(self, key: ActorKey, watcher: Watcher) -> None:
        with self._lock:
            watched = self._watched.get(key)
            if watched is None:
                return
            watched.watchers.discard(watcher)
            if not watched.watchers:
                del self._watched[key]
                self._by_id.pop(watched.incarnation, None)

    def seen(self, key: ActorKey, row: ViewRow | None) -> None:
        """Somebody who watches has read this: whoever of them has read the oldest is told all that came after."""
        pair = (NEVER_USED, 0) if row is None else (row.id, row.revision)
        with self._lock:
            watched = self._watched.get(key)
            if watched is None or (watched.is_read and pair == watched.pair):
                return
            first, watched.is_read = not watched.is_read, True
            if first or pair < watched.pair:
                self._advance(watched, *pair)
            if first:
                return
            if watched.incarnation == NEVER_USED:
                self._births = True
            else:
                self._dirty.add(watched.incarnation)
        self._ready.set()

    @property
    def is_alive(self) -> bool:
        """True while changes are told, or nobody watches."""
        return self._thread is None or self._thread.is_alive()

    def stop(self) -> None:
        """End the thread; may be called twice, or before the start."""
        self._stopping.set()
        self._ready.set()
        thread, unlisten = self._thread, self._unlisten
        if unlisten is not None:
            unlisten()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # -- the thread ---------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._stopping.is_set():
                return
            self._unlisten = self._wake_ups.listen(self._hinted)
            self._thread = threading.Thread(target=self._run, name="solid-relay", daemon=True)
            self._thread.start()
        self._wake_ups.start()

    def _hinted(self, instance_ids: Iterable[int] | None) -> None:
        with self._lock:
            if instance_ids is None:
                self._anything = True
            else:
                for instance_id in instance_ids:
                    if instance_id in self._by_id:
                        self._dirty.add(instance_id)
                    elif len(self._by_id) < len(self._watched):
                        # Perhaps the first use of an actor that is watched before it exists.
                        self._births = True
            relevant = self._anything or self._births or bool(self._dirty)
        if relevant:
            self._ready.set()

    def _run(self) -> None:
        clock, interval = self._core.seams.clock, self._core.settings.live_polling_interval
        while not self._stopping.is_set():
            hinted = clock.wait(self._ready, interval)
            if self._stopping.is_set():
                return
            self._ready.clear()
            try:
                self._look(everything=not hinted)
            except (DatabaseDeadlineExceeded, CommitUnknown) as error:
                self._core.events.announce("relay.paused", error=type(error).__name__)
                self._look_again_later()
            except Exception as error:
                # Whatever it was: the next look compares again, and nobody else may suffer from it.
                self._core.events.announce("relay.failed", error=type(error).__name__)
                self._look_again_later()
            clock.wait(self._stopping, _PACE_SECONDS)

    def _look_again_later(self) -> None:
        with self._lock:
            self._anything = True
        self._ready.set()
        self._core.seams.clock.wait(self._stopping, self._core.seams.clock.jitter(1.0))

    def _look(self, *, everything: bool) -> None:
        """Compare what is watched with the rows; at most three statements, for each 200 actors that they concern."""
        with self._lock:
            everything = everything or self._anything
            ids = list(self._by_id) if everything else [each for each in self._dirty if each in self._by_id]
            births = self._births or everything
            unborn = [each.key for each in self._watched.values() if each.incarnation == NEVER_USED] if births else []
            self._dirty, self._anything, self._births = set(), False, False
        views, database = self._core.store.views, self._core.database
        known = database.read(lambda tx: views.revisions(tx, ids)) if ids else {}
        gone = self._gone(ids, known)
        # Whoever was destroyed may have been used again since.
        keys = [*unborn, *(each.key for each in gone)]
        found = database.read(lambda tx: views.find_many(tx, keys)) if keys else []
        behind = self._behind(known)
        rows = database.read(lambda tx: views.rows(tx, behind)) if behind else []
        for watched in gone:
            self._tell_gone(watched)
        for row in rows:
            self._tell(row)
        for row in found:
            # Before its first commit an actor shows what one that was never used does.
            if row.revision:
                self._tell(row)
        self._core.seams.checkpoints.reach("relay.looked", everything=everything)

    def _gone(self, ids: list[int], known: dict[int, int]) -> list[_Watched]:
        with self._lock:
            return [self._by_id[each] for each in ids if each not in known and each in self._by_id]

    def _behind(self, known: dict[int, int]) -> list[int]:
        with self._lock:
            watched = [(each, self._by_id[each].revision) for each in known if each in self._by_id]
        return [each for each, told in watched if known[each] > told]

    def _tell(self, row: ViewRow) -> None:
        with self._lock:
            watched = self._watched.get(row.key)
            if watched is None or (row.id, row.revision) <= watched.pair:
                return
        values = self._viewing.values_to_tell(row)
        self._core.seams.checkpoints.reach("relay.telling", key=row.key, incarnation=row.id, revision=row.revision)
        with self._lock:
            if (row.id, row.revision) > watched.pair:
                watched.is_read = True
                self._advance(watched, row.id, row.revision)
            watchers = list(watched.watchers)
        notice = Notice(
            key=row.key,
            incarnation=row.id,
            revision=row.revision,
            row=row,
            values=values,
            watchers=len(watchers),
        )
        self._notify(watchers, notice)

    def _tell_gone(self, watched: _Watched) -> None:
        with self._lock:
            watchers, incarnation, revision = list(watched.watchers), watched.incarnation, watched.revision
            self._advance(watched, NEVER_USED, 0)
        self._notify(watchers, Notice(key=watched.key, incarnation=incarnation, revision=revision, row=None))

    def _notify(self, watchers: list[Watcher], notice: Notice) -> None:
        for watcher in watchers:
            try:
                watcher.notify(notice)
            except Exception as error:
                # The others must hear of it all the same.
                self._core.events.announce("relay.watcher_failed", actor=notice.key, error=type(error).__name__)

    def _advance(self, watched: _Watched, incarnation: int, revision: int) -> None:
        self._by_id.pop(watched.incarnation, None)
        watched.incarnation, watched.revision = incarnation, revision
        if incarnation != NEVER_USED:
            self._by_id[incarnation] = watched
