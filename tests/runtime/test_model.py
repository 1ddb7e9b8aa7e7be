"""Random histories against a small reference model: state, order and results must be the same on every database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine, text

from flask_solid_objects.errors import CallTimeout, MessageFailed, Rejected
from flask_solid_objects.store.invariants import check_invariants
from flask_solid_objects.store.tables import Tables
from flask_solid_objects.values import ActorKey, MessageStatus
from tests.actors import RuntimeUnderTest
from tests.runtime.conftest import MakeRuntime

IDS = ("a", "A", "ä")
MAX_ATTEMPTS = 2


@dataclass
class ModelMessage:
    """A message as the model knows it; ``due`` is False for one that was sent with a long delay."""

    operation: str
    entry: str
    message: Any
    due: bool = True
    attempts: int = 0


@dataclass
class ModelActor:
    """What an actor must look like."""

    entries: list[str] = field(default_factory=list)
    waiting: list[ModelMessage] = field(default_factory=list)
    paused: bool = False
    exists: bool = False


class Histories(RuleBasedStateMachine):
    """Sends, calls, failures, crashes, delays, pauses and destroys in any order."""

    runtime: RuntimeUnderTest
    engine: Engine
    tables: Tables

    def __init__(self) -> None:
        super().__init__()
        self.actors: dict[str, ModelActor] = {}
        self.ended: list[tuple[ModelMessage, MessageStatus]] = []
        self.number = 0

    @initialize()
    def begin(self) -> None:
        for actor_id in IDS:
            self.runtime.journal(actor_id).destroy()
            self.actors[actor_id] = ModelActor()

    @rule(actor_id=st.sampled_from(IDS), operation=st.sampled_from(["add", "refuse", "fail"]), delayed=st.booleans())
    def send(self, actor_id: str, operation: str, delayed: bool) -> None:
        entry = self._entry()
        verb = getattr(self.runtime.journal(actor_id), operation)
        message = (verb.using(delay=3600) if delayed else verb).send(entry=entry)
        actor = self.actors[actor_id]
        actor.exists = True
        actor.waiting.append(ModelMessage(operation, entry, message, due=not delayed))

    @rule(actor_id=st.sampled_from(IDS), operation=st.sampled_from(["add", "refuse", "fail"]))
    def call(self, actor_id: str, operation: str) -> None:
        """A call runs everything in order before it, then itself."""
        actor, entry = self.actors[actor_id], self._entry()
        actor.exists = True
        verb = getattr(self.runtime.journal(actor_id), operation)
        if actor.paused:
            with pytest.raises(CallTimeout) as timeout:
                verb.using(timeout=0.01)(entry=entry)
            actor.waiting.append(ModelMessage(operation, entry, timeout.value.message))
            return
        self._model_drain(actor)
        if operation == "add":
            result = verb(entry=entry)
            actor.entries.append(entry)
            assert result == len(actor.entries)
        elif operation == "refuse":
            with pytest.raises(Rejected):
                verb(entry=entry)
        else:
            with pytest.raises(MessageFailed):
                verb(entry=entry)

    @rule()
    def work(self) -> None:
        """A worker drains every actor that is not paused."""
        self.runtime.drain()
        for actor in self.actors.values():
            if not actor.paused:
                self._model_drain(actor)

    @precondition(lambda self: any(self._head(actor) for actor in self.actors.values() if not actor.paused))
    @rule()
    def crash(self) -> None:
        """A worker claims a message and dies; its lease runs out, and somebody takes it over: one attempt is spent."""
        claim = self.runtime.runtime.worker()._claiming.claim_next(self._dead_process(), ("Journal",))
        assert claim is not None
        actor = self.actors[claim.key.actor_id]
        head = self._head(actor)
        assert head is not None
        assert claim.message.id == head.message.id
        with self.engine.begin() as connection:
            connection.execute(
                text(
                    "UPDATE solid_objects_instances SET activation_expires_at = '2020-01-01 00:00:00.000000' "
                    "WHERE activation_owner_id IS NOT NULL"
                )
            )
        assert self.runtime.recover() == 1
        head.attempts += 1
        if head.attempts >= MAX_ATTEMPTS:
            actor.waiting.remove(head)
            self.ended.append((head, MessageStatus.DEAD))

    @rule(actor_id=st.sampled_from(IDS))
    def pause_or_resume(self, actor_id: str) -> None:
        actor = self.actors[actor_id]
        if not actor.exists:
            return
        key = ActorKey(actor_type="Journal", actor_id=actor_id)
        operators = self.runtime.runtime.operators
        assert (operators.resume(key) if actor.paused else operators.pause(key)) is True
        actor.paused = not actor.paused

    @rule(actor_id=st.sampled_from(IDS))
    def make_delayed_due(self, actor_id: str) -> None:
        """Time passes: every delayed message of an actor falls due and takes the place of its sequence."""
        actor = self.actors[actor_id]
        rows = [each.message.id for each in actor.waiting if not each.due]
        if not rows:
            return
        with self.engine.begin() as connection:
            for message_id in rows:
                connection.execute(
                    text(
                        "UPDATE solid_objects_ready_messages SET available_at = '2020-01-01 00:00:00.000000' "
                        "WHERE message_id = :id"
                    ),
                    {"id": message_id},
                )
            if not actor.paused:
                connection.execute(
                    text(
                        "UPDATE solid_objects_instances SET ready_at = '2020-01-01 00:00:00.000000' "
                        "WHERE actor_type = 'Journal' AND actor_id = :id"
                    ),
                    {"id": actor_id.encode() if self.engine.dialect.name == "mysql" else actor_id},
                )
        for each in actor.waiting:
            each.due = True

    @rule(actor_id=st.sampled_from(IDS))
    def destroy(self, actor_id: str) -> None:
        assert self.runtime.journal(actor_id).destroy() is self.actors[actor_id].exists
        gone = {id(each) for each in self.actors[actor_id].waiting}
        self.ended = [pair for pair in self.ended if id(pair[0]) not in gone and pair[0].message.actor_id != actor_id]
        self.actors[actor_id] = ModelActor()

    @rule(actor_id=st.sampled_from(IDS))
    def skip(self, actor_id: str) -> None:
        actor = self.actors[actor_id]
        if not actor.exists:
            return
        head = self._head(actor)
        skipped = self.runtime.runtime.operators.skip(ActorKey(actor_type="Journal", actor_id=actor_id))
        assert skipped == (head.message.id if head else None)
        if head is not None:
            actor.waiting.remove(head)
            self.ended.append((head, MessageStatus.SKIPPED))

    @invariant()
    def state_is_the_models(self) -> None:
        for actor_id, actor in self.actors.items():
            assert self.runtime.journal(actor_id).snapshot().entries == actor.entries

    @invariant()
    def statuses_are_the_models(self) -> None:
        for ended, status in self.ended[-3:]:
            assert ended.message.status() is status
        for actor in self.actors.values():
            for waiting in actor.waiting[:3]:
                assert waiting.message.status() is MessageStatus.READY
                assert waiting.message.outcome().attempts == waiting.attempts

    @invariant()
    def invariants_hold(self) -> None:
        with self.engine.connect() as connection:
            assert check_invariants(connection, self.tables, lease_duration=30.0, roles_running=False) == []

    # -- the model --------------------------------------------------------------------------

    def _entry(self) -> str:
        self.number += 1
        return str(self.number)

    def _head(self, actor: ModelActor) -> ModelMessage | None:
        return next((each for each in actor.waiting if each.due), None)

    def _model_drain(self, actor: ModelActor) -> None:
        while (head := self._head(actor)) is not None:
            actor.waiting.remove(head)
            if head.operation == "add":
                actor.entries.append(head.entry)
                self.ended.append((head, MessageStatus.COMPLETED))
            elif head.operation == "refuse":
                self.ended.append((head, MessageStatus.REJECTED))
            else:
                self.ended.append((head, MessageStatus.DEAD))

    def _dead_process(self) -> str:
        from flask_solid_objects.runtime.process import Registration

        return Registration(self.runtime.runtime.core, "worker").id


def test_random_histories(make_runtime: MakeRuntime, engine: Engine, tables: Tables) -> None:
    """Whatever happens in whatever order, the database holds what the model holds."""
    runtime = make_runtime(max_attempts=MAX_ATTEMPTS)
    machine = type("Histories", (Histories,), {"runtime": runtime, "engine": engine, "tables": tables})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
