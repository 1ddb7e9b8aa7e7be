"""What operators see and do: actors, dead letters, processes; every act is authorised, audited and recomputes hints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from flask_solid_objects.actors.message import Message
from flask_solid_objects.errors import ActUnresolved, CommitUnknown, UnknownDeadLetter, UnknownInstance
from flask_solid_objects.payloads import encode
from flask_solid_objects.runtime.acts import Acts, Record, subject_of
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.deregistration import Deregistration
from flask_solid_objects.runtime.message_operators import MessageOperators
from flask_solid_objects.runtime.messages import Messages
from flask_solid_objects.runtime.outbox_operators import BroadcastOperators, EffectOperators
from flask_solid_objects.runtime.redrive_operators import RedriveOperators
from flask_solid_objects.runtime.reminder_operators import ReminderOperators
from flask_solid_objects.runtime.retention import Retention
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.store.administration import InstanceReport
from flask_solid_objects.store.dead_letters import DeadLetter
from flask_solid_objects.store.instances import Instance
from flask_solid_objects.store.processes import Process
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey

_T = TypeVar("_T")
PAGE = 50


class Operators:
    """Administration of one runtime; ``context`` goes to the administration policy."""

    def __init__(
        self,
        core: Core,
        wake_ups: WakeUps,
        deregistration: Deregistration,
        messages: Messages,
        *,
        browser: bool = False,
    ) -> None:
        self._core, self._wake_ups = core, wake_ups
        self._deregistration = deregistration
        self._acts = Acts(core, browser=browser)
        self.effects = EffectOperators(core, wake_ups, self._acts)
        self.broadcasts = BroadcastOperators(core, wake_ups, self._acts)
        self.reminders = ReminderOperators(core, wake_ups, self._acts, messages)
        self.redrives = RedriveOperators(core, wake_ups, self._acts)
        self.messages = MessageOperators(core, wake_ups, self._acts, messages)

    # -- actors -------------------------------------------------------------------------------

    def actors(
        self, *, actor_type: str | None = None, after: int = 0, most: int = PAGE, context: object = None
    ) -> list[InstanceReport]:
        """One page of actors by id; pass the last id as ``after`` for the next."""
        self._acts.require("index", "actors", context)
        administration = self._core.store.administration
        return self._core.database.read(
            lambda tx: administration.page(tx, actor_type=actor_type, after=after, most=most)
        )

    def actor(self, key: ActorKey, *, context: object = None) -> InstanceReport:
        self._acts.require("show", "actors", context, key=key)
        report = self._core.database.read(lambda tx: self._core.store.administration.report(tx, key))
        if report is None:
            raise UnknownInstance(key.actor_type, key.actor_id)
        return report

    def depth(self, instance_id: int, *, most: int) -> int:
        """How many messages of an actor wait, counted up to a limit."""
        administration = self._core.store.administration
        return self._core.database.read(lambda tx: administration.depth(tx, instance_id, most))

    def pause(self, key: ActorKey, *, context: object = None) -> bool:
        """Let the running turn finish and start no other; False when it was paused already."""
        return self._act("pause", key, self._core.store.administration.pause, context)

    def resume(self, key: ActorKey, *, context: object = None) -> bool:
        return self._act("resume", key, self._core.store.administration.resume, context)

    def retry_now(self, key: ActorKey, *, context: object = None) -> bool:
        """End the back-off of a failing head, and the parking of a failing activation."""
        return self._act("retry_now", key, self._core.store.administration.retry_now, context)

    def skip(self, key: ActorKey, *, message_id: int | None = None, context: object = None) -> int | None:
        """End the head without a result, even while it runs; its message id.

        :param message_id: the message that is meant: nothing happens when another one is the head by now.
        """
        skip = self._core.store.administration.skip_head
        return self._act("skip", key, lambda tx, instance: skip(tx, instance, message_id), context)

    def fail(self, key: ActorKey, *, message_id: int | None = None, context: object = None) -> int | None:
        """Move the head to the dead letters, even while it runs; its message id.

        :param message_id: the message that is meant: nothing happens when another one is the head by now.
        """
        fail = self._core.store.administration.fail_head
        return self._act("fail", key, lambda tx, instance: fail(tx, instance, message_id), context)

    def destroy(self, key: ActorKey, *, context: object = None) -> bool:
        self._acts.require("destroy", "actors", context, key=key)
        instances = self._core.store.instances

        def destroy(tx: Transaction, _locked: Instance | None, record: Record) -> int | None:
            instance_id = instances.destroy(tx, key)
            if instance_id is not None:
                record(kind="actor", subject=subject_of(key))
            return instance_id

        instance_id = self._acts.perform("actor.destroy", context, lambda tx: instances.lock(tx, key), destroy)
        if instance_id is not None:
            self._wake_ups.signal(instance_id=instance_id, work=False)
        return instance_id is not None

    # -- dead letters -------------------------------------------------------------------------

    def dead_letters(
        self, *, actor_type: str | None = None, before: int | None = None, most: int = PAGE, context: object = None
    ) -> list[DeadLetter]:
        """The newest dead letters; pass the last id as ``before`` for the next page."""
        self._acts.require("inspect", "dead_letters", context)
        dead = self._core.store.dead_letters
        return self._core.database.read(lambda tx: dead.page(tx, actor_type=actor_type, before=before, most=most))

    def dead_letter(self, dead_letter_id: int, *, context: object = None) -> DeadLetter:
        self._acts.require("inspect", "dead_letters", context)
        found = self._core.database.read(lambda tx: self._core.store.dead_letters.find(tx, dead_letter_id))
        if found is None:
            raise UnknownDeadLetter(dead_letter_id)
        return found

    def retry_dead_letter(
        self, dead_letter_id: int, *, arguments: str | None = None, context: object = None
    ) -> Message[Any]:
        """Send a copy of the message at the end of its mailbox; see :meth:`MessageOperators.retry`."""
        return self.messages.retry(dead_letter_id, arguments=arguments, context=context)

    # -- processes ----------------------------------------------------------------------------

    def processes(self, *, context: object = None) -> list[Process]:
        """Everything that is registered and has not stopped."""
        self._acts.require("inspect", "processes", context)
        threshold, processes = self._core.settings.process_alive_threshold, self._core.store.processes
        return self._core.database.read(lambda tx: processes.running(tx, threshold))

    def clean_up(self, *, context: object = None) -> int:
        """Free what dead processes held; how many processes there were."""
        self._acts.require("cleanup", "processes", context)
        try:
            cleaned = self._deregistration.clean_up_dead()
        except CommitUnknown as error:
            # Several transactions; how many processes there were before the lost one is not known here any more.
            raise ActUnresolved("cleanup") from error

        def act(_tx: Transaction, _locked: None, record: Record) -> None:
            record(kind="process", subject="dead", filters=encode({"cleaned": cleaned}, path="filters"))

        self._acts.perform("process.cleanup", context, lambda _: None, act)
        self._wake_ups.signal(instance_id=None, work=True)
        return cleaned

    # -- retention ----------------------------------------------------------------------------

    def prune(
        self,
        kinds: Sequence[str],
        *,
        execute: bool,
        older_than: float | None = None,
        progress: Callable[[str, int], None] = lambda kind, count: None,
        context: object = None,
    ) -> dict[str, int]:
        """Delete what is old and not needed, or only count it; how many rows of each kind.

        :param older_than: seconds, instead of what the settings say.
        :param progress: gets the kind and the number of rows after each batch.
        """
        for kind in kinds:
            self._acts.require("prune" if execute else "preview", kind, context)
        retention, counts = Retention(self._core), dict.fromkeys(kinds, 0)

        def counted(kind: str, count: int) -> None:
            counts[kind] += count
            progress(kind, count)

        if not execute:
            return retention.run(kinds, execute=False, older_than=older_than, progress=progress)
        try:
            return retention.run(kinds, execute=True, older_than=older_than, progress=counted)
        except CommitUnknown as error:
            raise ActUnresolved("retention.prune") from error
        finally:
            # Also of one that was broken off: what it had deleted by then is deleted.
            self._audit_pruning(counts, older_than, context)

    def _audit_pruning(self, counts: dict[str, int], older_than: float | None, context: object) -> None:
        filters = encode({"deleted": counts, "older_than": older_than}, path="filters")

        def act(_tx: Transaction, _locked: None, record: Record) -> None:
            record(kind="retention", subject=", ".join(counts), filters=filters)

        self._acts.perform("retention.prune", context, lambda _: None, act)

    # -- parts --------------------------------------------------------------------------------

    def _act(self, name: str, key: ActorKey, act: Callable[[Transaction, Instance], _T], context: object) -> _T:
        self._acts.require(name, "actors", context, key=key)

        def recorded(tx: Transaction, instance: Instance | None, record: Record) -> tuple[int, _T]:
            if instance is None:
                raise UnknownInstance(key.actor_type, key.actor_id)
            record(kind="actor", subject=subject_of(key))
            return instance.id, act(tx, instance)

        lock = self._core.store.instances.lock
        instance_id, result = self._acts.perform(f"actor.{name}", context, lambda tx: lock(tx, key), recorded)
        self._wake_ups.signal(instance_id=instance_id, work=True)
        return result
