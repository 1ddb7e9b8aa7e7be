"""Prune what is old, or count it: batch by batch, each in a transaction of its own, so that nobody waits long.

What is old is judged by the database's time at the beginning of a run. Whoever runs it may stop after any batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from flask_solid_objects.runtime.core import Core
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.retention import KINDS, Batch, Cutoffs
from flask_solid_objects.store.sweep import Row, Sweep
from flask_solid_objects.store.transaction import Transaction


class Retention:
    """Pruning for one runtime."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def automatic_kinds(self) -> tuple[str, ...]:
        """What maintenance prunes: everything that the settings give an age."""
        return tuple(kind for kind in KINDS if has_retention(self._core.settings, kind))

    def run(
        self,
        kinds: Sequence[str],
        *,
        execute: bool,
        older_than: float | None = None,
        progress: Callable[[str, int], None] = lambda kind, count: None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> dict[str, int]:
        """Delete what may go, or count it when it is only to be shown; how many rows of each kind.

        :param older_than: seconds, instead of what the settings say.
        :param progress: gets the kind and the number of rows after each batch.
        :param is_stopping: asked before each batch; what was deleted by then stays deleted.
        """
        counts = dict.fromkeys(kinds, 0)
        batches = self.batches(kinds, execute=execute, older_than=older_than)
        while not is_stopping():
            batch = next(batches, None)
            if batch is None:
                break
            kind, count = batch
            counts[kind] += count
            progress(kind, count)
        return counts

    def batches(
        self, kinds: Sequence[str], *, execute: bool, older_than: float | None = None
    ) -> Iterator[tuple[str, int]]:
        """Each step is one transaction, and gives its kind and the number of rows."""
        now = self._core.database.read(lambda tx: tx.now())
        for kind in kinds:
            cutoffs = cutoffs_of(self._core.settings, kind, now, older_than)
            for sweep in self._core.store.retention.sweeps[kind] if cutoffs.latest is not None else ():
                for count in self._sweep(kind, sweep, cutoffs, execute=execute):
                    if execute and count:
                        self._announce(kind, count)
                    yield kind, count

    def _announce(self, kind: str, count: int) -> None:
        events = self._core.events
        if kind == "messages":
            events.announce("messages.pruned", count=count)
        elif kind == "instances":
            events.announce("instances.pruned", count=count)
        elif kind == "processes":
            events.announce("processes.pruned", count=count)
        else:
            events.announce("retention.pruned", kind=kind, count=count)

    def _sweep(self, kind: str, sweep: Sweep, cutoffs: Cutoffs, *, execute: bool) -> Iterator[int]:
        """One walk from its beginning to its end."""
        last: Row | None = None
        while True:
            # An actor is locked alone, never beside another one that a turn may wait for.
            alone = execute and kind == "instances"
            batch = self._batch(sweep, last, cutoffs, prunes=execute and not alone)
            yield batch.deleted if execute else len(batch.found)
            for key, cutoff in batch.found if alone else ():
                self._core.seams.checkpoints.reach("retention.candidate", key=key)
                yield self._delete_one(sweep, key, cutoff)
            last = batch.last
            if last is None:
                return

    def _batch(self, sweep: Sweep, last: Row | None, cutoffs: Cutoffs, *, prunes: bool) -> Batch:
        acts, most = self._core.store.retention, self._core.settings.prune_batch_size
        if prunes:
            prune = partial(acts.prune, sweep=sweep, after=last, cutoffs=cutoffs, most=most)
            return self._core.database.transact("prune", prune)
        return self._core.database.read(partial(acts.look, sweep=sweep, after=last, cutoffs=cutoffs, most=most))

    def _delete_one(self, sweep: Sweep, key: int, cutoff: datetime) -> int:
        acts, events = self._core.store.retention, self._core.events

        def prune(tx: Transaction) -> int:
            # Who it was is only read when somebody listens.
            instance = self._core.store.instances.find_by_id(tx, key) if events.wants("actor.expired") else None
            deleted = acts.prune_one(tx, sweep=sweep, key=key, cutoff=cutoff)
            if deleted and instance is not None:
                events.announce_after(tx, "actor.expired", actor=instance.key, instance_id=key)
            return deleted

        return self._core.database.transact("prune", prune)


def has_retention(settings: Settings, kind: str) -> bool:
    """Whether the settings let anything of this kind go."""
    if kind == "instances":
        return bool(settings.instance_retention_by_actor_type)
    return kind != "dead-letters" or settings.dead_letter_retention is not None


def cutoffs_of(settings: Settings, kind: str, now: datetime, older_than: float | None = None) -> Cutoffs:
    """What is old enough, by the settings or by the age that an operator gave.

    Of actors only the listed types ever go, whatever the age.
    """
    others, by_type = _retentions(settings)[kind]
    if older_than is not None:
        others = older_than if kind != "instances" else None
        by_type = dict.fromkeys(by_type, older_than)
    return Cutoffs(
        others=None if others is None else now - timedelta(seconds=others),
        by_type={name: now - timedelta(seconds=seconds) for name, seconds in by_type.items()},
    )


def _retentions(settings: Settings) -> dict[str, tuple[float | None, dict[str, float]]]:
    """Seconds by kind: of most rows, and of listed actor types."""
    by_type = dict(settings.message_retention_by_actor_type)
    return {
        "dead-letters": (settings.dead_letter_retention, {}),
        "messages": (settings.message_retention, by_type),
        "reminders": (settings.reminder_retention, {}),
        # What became of an effect is known as long again as the message that it came from.
        "recoveries": (2 * max([settings.message_retention, *by_type.values()]), {}),
        "redrives": (settings.redrive_retention, {}),
        "instances": (None, dict(settings.instance_retention_by_actor_type)),
        "processes": (settings.process_retention, {}),
        "audit": (settings.audit_retention, {}),
    }
