"""What processes do to the store, each act in a transaction of its own, and what they find there."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import DateTime, Engine, select

from flask_solid_objects.store.completion import Claimant, Completion, Failure
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.instances import Instance
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.store.transaction import Transaction
from flask_solid_objects.values import ActorKey, Claim, Enqueued, InstanceState, MessageRecord, NewMessage

KEY = ActorKey(actor_type="Counter", actor_id="a")
OTHER = ActorKey(actor_type="Counter", actor_id="b")
LEASE = 30.0
MAILBOX = 10
ERROR = '{"class": "ValueError", "message": "no", "backtrace": ["line 1"]}'
CRASHED = '{"class": "Crashed", "message": "The process died.", "backtrace": []}'

_T = TypeVar("_T")


def state_after(claim: Claim, text: str = '{"value": 1}') -> InstanceState:
    """The state that an operation's turn stores, under the revision that the protocol gives it."""
    return InstanceState(text=text, version=1, revision=max(claim.state.revision + 1, claim.message.sequence))


def document(value: Any) -> Any:
    """A stored document decoded; a column gives it decoded already, or as text where the database has no such type."""
    return json.loads(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Acts:
    """What processes do to the store; each method is one unit, and its name is the name of the unit."""

    db: Database
    store: Store
    engine: Engine
    tables: Tables
    owner: str

    # -- entering -----------------------------------------------------------------------------

    def new(self, key: ActorKey = KEY, **values: Any) -> NewMessage:
        common: dict[str, Any] = {"operation": "add", "delivery_mode": "async", "arguments": "{}", "max_attempts": 3}
        return NewMessage(key=key, **({"request_id": str(uuid.uuid4())} | common | values))

    def claimant(self) -> Claimant:
        return Claimant(owner=self.owner, token=str(uuid.uuid4()), seconds=LEASE)

    def admit(self, new: NewMessage, claimant: Claimant | None = None, *, repeated: bool = False) -> Enqueued:
        return self.db.transact("admit", lambda tx: self.store.admission.admit(tx, new, claimant, repeated=repeated))

    def send(self, key: ActorKey = KEY, **values: Any) -> Enqueued:
        return self.admit(self.new(key, **values))

    def call(self, key: ActorKey = KEY, **values: Any) -> Enqueued:
        """Ask for the right to run the message at once; it depends on the actor whether the caller gets it."""
        return self.admit(self.new(key, **values), self.claimant())

    def run(self, key: ActorKey = KEY, **values: Any) -> Claim:
        """Admit a call that has to be claimed."""
        claim = self.call(key, **values).claim
        assert claim is not None, "the caller may run it"
        return claim

    # -- claiming -----------------------------------------------------------------------------

    def claim(self, key: ActorKey = KEY, *, token: str | None = None, owner: str | None = None) -> Claim | None:
        """Claim the head as a worker does, unless somebody holds the lease."""
        instance_id, token = self.instance(key).id, token or str(uuid.uuid4())

        def claim(tx: Transaction) -> Claim | None:
            instance = self.store.instances.lock_by_id(tx, instance_id)
            if instance is None or instance.owner is not None:
                return None
            return self.store.leases.claim_head(tx, instance, owner=owner or self.owner, token=token, seconds=LEASE)

        return self.db.transact("claim", claim)

    def take(self, key: ActorKey = KEY) -> Claim:
        """Claim a head that has to be there."""
        claim = self.claim(key)
        assert claim is not None, "a head is due"
        return claim

    def recover(self, instance_id: int) -> int | None:
        """Take over a lease if it has expired, as whoever finds it does."""

        def recover(tx: Transaction) -> int | None:
            instance = self.store.instances.lock_by_id(tx, instance_id)
            if instance is None or instance.expires_at is None or instance.expires_at > tx.now():
                return None
            message = self.store.leases.take_over(tx, instance, error=CRASHED)
            return None if message is None else message.id

        return self.db.transact("recover", recover)

    # -- ending -------------------------------------------------------------------------------

    def finish(self, claim: Claim, completion: Completion | None = None) -> None:
        ended = completion or Completion(state=state_after(claim), result="1")
        self.db.transact("finish", lambda tx: self.store.turns.finish(tx, claim, ended))

    def go_on(self, claim: Claim, completion: Completion | None = None, *, go_on: bool = True) -> Claim | None:
        ended, turns = completion or Completion(state=state_after(claim), result="1"), self.store.turns
        return self.db.transact(
            "go_on", lambda tx: turns.finish_and_continue(tx, claim, ended, seconds=LEASE, go_on=go_on)
        )

    def fail(self, claim: Claim, *, retry: float | None = None, **values: Any) -> None:
        failure = Failure(error=ERROR, retry_seconds=retry, **values)
        self.db.transact("fail", lambda tx: self.store.turns.fail(tx, claim, failure))

    def hand_back(self, claim: Claim) -> None:
        """Leave in good order: give back what is still ours."""

        def hand_back(tx: Transaction) -> None:
            instance = self.store.instances.lock_by_id(tx, claim.lease.instance_id)
            if instance is not None and instance.holds(claim.lease):
                self.store.leases.hand_back(tx, instance, claim.message.id)

        self.db.transact("hand_back", hand_back)

    def park(self, claim: Claim, seconds: float) -> None:
        leases, message_id = self.store.leases, claim.message.id
        self.under_lock("park", claim.key, lambda tx, i: leases.park(tx, i, message_id, seconds=seconds, error=ERROR))

    def end(self, name: str, claim: Claim) -> object:
        """End a turn by the act of this name."""
        ends: dict[str, Callable[[Claim], object]] = {
            "finish": self.finish,
            "go_on": self.go_on,
            "fail": self.fail,
            "hand_back": self.hand_back,
        }
        return ends[name](claim)

    # -- operating ----------------------------------------------------------------------------

    def under_lock(self, name: str, key: ActorKey, act: Callable[[Transaction, Instance], _T]) -> _T:
        instance_id = self.instance(key).id

        def locked(tx: Transaction) -> _T:
            instance = self.store.instances.lock_by_id(tx, instance_id)
            assert instance is not None, "the actor exists"
            return act(tx, instance)

        return self.db.transact(name, locked)

    def pause(self, key: ActorKey = KEY) -> bool:
        return self.under_lock("pause", key, self.store.administration.pause)

    def resume(self, key: ActorKey = KEY) -> bool:
        return self.under_lock("resume", key, self.store.administration.resume)

    def retry_now(self, key: ActorKey = KEY) -> bool:
        return self.under_lock("retry_now", key, self.store.administration.retry_now)

    def skip(self, key: ActorKey = KEY, *, expected: int | None = None) -> int | None:
        skip = self.store.administration.skip_head
        return self.under_lock("skip", key, lambda tx, instance: skip(tx, instance, expected))

    def fail_head(self, key: ActorKey = KEY, *, expected: int | None = None) -> int | None:
        fail = self.store.administration.fail_head
        return self.under_lock("fail_head", key, lambda tx, instance: fail(tx, instance, expected))

    def destroy(self, key: ActorKey = KEY) -> int | None:
        return self.db.transact("destroy", lambda tx: self.store.instances.destroy(tx, key))

    # -- looking ------------------------------------------------------------------------------

    def instance(self, key: ActorKey = KEY) -> Any:
        """The row of an actor that has to exist, as another connection sees it."""
        i, actor_id = self.tables.instances, self.db.dialect.encode_text(key.actor_id)
        with self.engine.connect() as connection:
            return connection.execute(select(i).where(i.c.actor_type == key.actor_type, i.c.actor_id == actor_id)).one()

    def hints(self, key: ActorKey = KEY) -> tuple[Any, bool]:
        row = self.instance(key)
        return row.ready_at, row.has_backlog

    def waiting(self, key: ActorKey = KEY) -> list[Any]:
        """The ready rows of an actor in the order of their sequences."""
        r, instance_id = self.tables.ready_messages, self.instance(key).id
        with self.engine.connect() as connection:
            return list(connection.execute(select(r).where(r.c.instance_id == instance_id).order_by(r.c.sequence)))

    def claims(self) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(select(self.tables.claimed_messages)))

    def record(self, message_id: int) -> MessageRecord:
        record = self.db.read(lambda tx: self.store.mailbox.find(tx, message_id))
        assert record is not None, "the message exists"
        return record

    def everything(self) -> dict[str, list[Any]]:
        """All rows of all tables, to see that nothing was written."""
        with self.engine.connect() as connection:
            return {t.name: list(connection.execute(select(t).order_by(*t.primary_key))) for t in self.tables.all}

    # -- arranging ----------------------------------------------------------------------------

    def change(self, key: ActorKey = KEY, **values: Any) -> None:
        """Assign columns of an actor's row behind the store's back."""
        i, instance_id = self.tables.instances, self.instance(key).id
        with self.engine.begin() as connection:
            connection.execute(i.update().where(i.c.id == instance_id).values(values))

    def pass_time(self, seconds: float) -> None:
        """Let time go by: every moment that is stored lies so much further in the past, or less in the future."""
        with self.engine.begin() as connection:
            for table in self.tables.all:
                moments = [column for column in table.c if isinstance(column.type, DateTime)]
                for row in connection.execute(select(table)).mappings().all():
                    aged = {c.name: row[c.name] - timedelta(seconds=seconds) for c in moments if row[c.name]}
                    if aged:
                        connection.execute(table.update().where(table.c.id == row["id"]).values(aged))


class Background:
    """A unit in a thread of its own, whose result or error is looked at after it has ended."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(function,))
        self._thread.start()

    def join(self) -> Background:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self

    def result(self) -> Any:
        """Its value, or its error."""
        self.join()
        if self.error is not None:
            raise self.error
        return self.value

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self.value = function()
        except BaseException as error:
            self.error = error


def register(db: Database, store: Store) -> str:
    """A process that may own leases."""
    process_id = str(uuid.uuid4())

    def register(tx: Transaction) -> None:
        store.processes.register(tx, process_id=process_id, kind="worker", hostname="host", pid=1, metadata="{}")

    db.transact("register", register)
    return process_id


def claim_of(enqueued: Any) -> Claim:
    """The claim that an admission gave."""
    assert isinstance(enqueued, Enqueued)
    assert enqueued.claim is not None
    return enqueued.claim
