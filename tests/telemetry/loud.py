"""An app whose every value, result and error holds a marker, and everything that can happen to its actors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from sqlalchemy import URL, text

from flask_solid_objects import (
    Actor,
    CallTimeout,
    CommitContext,
    EffectContext,
    Event,
    JsonFormatter,
    MessageFailed,
    NonRetryableError,
    Rejected,
    attribute,
    observable,
    operation,
    query,
    signals,
)
from tests.apps import AppUnderTest

MARKER = "Zm9yYmlkZGVu"


class LoudApp(AppUnderTest):
    """``events``, ``envelopes`` and ``lines`` are what left it, by signals, exports and the log."""

    def __init__(self, url: URL, **config: Any) -> None:  # noqa: C901 - one declaration after another
        super().__init__(url, **({"SOLID_OBJECTS_MAX_ATTEMPTS": 2, "SOLID_OBJECTS_WARN_STATE_BYTES": 50} | config))
        self.events: list[tuple[object, Event]] = []
        self.envelopes: list[dict[str, Any]] = []
        self.lines = Lines()
        self.outside: list[str] = []
        app, solid = self, self.solid
        solid.export_events(self.envelopes.append)

        @solid.effect
        def post(context: EffectContext, *, body: str, how: str) -> str:
            app.outside.append(context.id)
            if how == "raise":
                raise RuntimeError(body)
            if how == "reject":
                raise Rejected("closed", body, details={"body": body})
            return body

        @solid.commit_action
        def record(context: CommitContext, *, body: str, how: str) -> None:
            context.session.add(app.Note(body=body))
            if how == "raise":
                raise RuntimeError(body)

        @solid.actor
        class Ear(Actor):
            heard: list[str] = []

            @operation
            def hear(self, body: str) -> str:
                self.heard.append(body)
                return body

        @solid.actor
        class Loud(Actor):
            body: str = attribute("", observable="value")
            bodies: list[str] = []

            @observable
            def last(self) -> str:
                return self.bodies[-1] if self.bodies else ""

            def on_activate(self) -> None:
                if self.body.startswith("broken"):
                    raise RuntimeError(self.body)

            def on_deactivate(self) -> None:
                raise RuntimeError(self.body)

            @operation
            def say(self, body: str) -> str:
                self.body = body
                self.bodies.append(body)
                return body

            @operation
            def post(self, body: str, how: str = "return") -> str:
                self.body = body
                return post.using(on_success=self.hear, on_failure=self.fall).emit(body=body, how=how)

            @operation
            def post_once(self, body: str) -> str:
                return post.using(on_recovery=self.fall).emit(body=body, how="return")

            @operation
            def hear(self, result: str) -> None:
                self.body = result

            @operation
            def fall(self, arguments: dict[str, Any]) -> None:
                self.body = arguments["body"]
                if arguments["body"].startswith("fail"):
                    raise NonRetryableError(arguments["body"])

            @operation
            def record(self, body: str, how: str = "add") -> None:
                self.body = body
                record.stage(body=body, how=how)

            @operation
            def ring(self, body: str) -> str:
                return self.say(body)

            @operation
            def arm(self, body: str, delay: float = 0.0) -> None:
                self.ring.using(delay=delay).schedule(body=body)

            @operation
            def disarm(self) -> None:
                self.ring.unschedule()

            @operation
            def tell(self, body: str) -> None:
                Ear.ref(body[:1]).hear.send(body=body)

            @operation
            def refuse(self, body: str) -> None:
                raise Rejected("refused", body, details={"body": body})

            @operation
            def fail(self, body: str) -> None:
                raise RuntimeError(body)

            @operation
            def intrude(self, body: str) -> None:
                app.db.session.add(app.Note(body=body))
                app.db.session.flush()

            @query
            def look(self) -> str:
                return self.body

        self.Loud: Any = Loud
        self.Ear: Any = Ear

    @contextmanager
    def listening(self) -> Iterator[LoudApp]:
        """Listen at every outlet meanwhile."""
        logger = logging.getLogger("flask_solid_objects")
        level = logger.level

        def hear(sender: object, event: Event) -> None:
            self.events.append((sender, event))

        logger.addHandler(self.lines)
        logger.setLevel(logging.DEBUG)
        signals.every.connect(hear, self.app)
        try:
            yield self
        finally:
            signals.every.disconnect(hear, self.app)
            logger.setLevel(level)
            logger.removeHandler(self.lines)

    # -- what happens -------------------------------------------------------------------------

    def everything(self) -> None:
        """Let happen what can happen to an actor."""
        loud, body = self.Loud.ref("a"), f"say {MARKER}"
        loud.say(body=body)
        loud.say.send(body=body)
        loud.say.using(session=self.db.session).send(body=body)
        self.db.session.commit()
        loud.look()
        loud.snapshot()
        for verb in (loud.refuse, loud.intrude, loud.fail):
            with suppress(Rejected, MessageFailed):
                verb(body=body)
        for how in ("return", "raise", "reject"):
            loud.post(body=body, how=how)
        for how in ("add", "raise"):
            with suppress(MessageFailed):
                loud.record(body=body, how=how)
        loud.arm(body=body, delay=60)
        loud.arm(body=body)
        loud.tell(body=body)
        self.settle()
        self._skip(body)
        self._crash(body)
        self._abandon(body)
        self._refuse_callers(body)
        loud.diagnostics()
        loud.destroy()

    def settle(self) -> None:
        """Run every role until nothing is left to do now."""
        runtime = self.solid.runtime
        roles = [runtime.worker(), runtime.effect_worker(), runtime.scheduler(), runtime.broadcaster()]
        for _ in range(200):
            worked = [role.run_once() for role in roles]
            if not any(worked):
                break
        for role in roles:
            role.stop()
            role._leave()

    def _skip(self, body: str) -> None:
        """A reminder is cancelled between its ringing and its message."""
        loud, scheduler = self.Loud.ref("skip"), self.solid.runtime.scheduler()
        loud.arm(body=body)
        loud.disarm.send()
        scheduler.ring_due()
        self.settle()

    def _crash(self, body: str) -> None:
        """A process dies with a message in hand, and again at its last attempt."""
        runtime = self.solid.runtime
        self.Loud.ref("crash").say.send(body=body)
        for _ in range(2):
            worker = runtime.worker()
            claim = worker._claiming.claim_next(worker.registration.id, ["Loud"])
            assert claim is not None
            self.age("instances", "activation_expires_at", claim.lease.instance_id)
            assert runtime.maintenance().recover() == 1

    def _abandon(self, body: str) -> None:
        """A process dies with an effect in hand whose actor wants to be told; once it can be told, once not."""
        runtime = self.solid.runtime
        for first in ("told", "fail"):
            self.Loud.ref("abandon").post_once(body=f"{first} {body}")
            role = runtime.effect_worker()
            assert role._claim() is not None
            self.age("processes", "last_heartbeat_at", role.registration.id)
            self.solid.processes.clean_up()
            assert role._recovering.retire_abandoned() == 1
            self.settle()

    def _refuse_callers(self, body: str) -> None:
        """Callers that do not get through."""
        loud = self.Loud.ref("blocked")
        loud.say.using(delay=60).send(body=body)
        message = self.Loud.ref("later").say.using(delay=60).send(body=body)
        with suppress(CallTimeout):
            message.wait(timeout=0.01)
        self.Loud.ref("parked").say(body=f"broken {body}")
        with suppress(RuntimeError):
            self.Loud.ref("parked").look()

    def age(self, table: str, column: str, row_id: object) -> None:
        """Move a time into the past behind the runtime's back."""
        database = self.solid.runtime.core.database
        past = database.dialect.encode_time(database.read(lambda tx: tx.now()) - timedelta(hours=1))
        statement = text(f"UPDATE solid_objects_{table} SET {column} = :past WHERE id = :id")
        with database.engine.begin() as connection:
            assert connection.execute(statement, {"past": past, "id": row_id}).rowcount == 1

    def names(self) -> list[str]:
        return [event.name for _, event in self.events]

    def of(self, name: str) -> list[Event]:
        return [event for _, event in self.events if event.name == name]


class Lines(logging.Handler):
    """The lines of a log: as text, with what handlers may look at, and as JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.jsons: list[str] = []
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.texts.append(f"{record.getMessage()} {vars(record)}")
        self.jsons.append(JsonFormatter().format(record))
