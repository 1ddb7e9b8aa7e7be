"""``SolidObjects``: joins an application with its actors; the only module that sees everything.

Creating it, or an app with it, opens no connection and starts no thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

import flask
import sqlalchemy
from flask import Flask
from flask.signals import appcontext_pushed
from flask_sqlalchemy import SQLAlchemy

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.commit_actions import CommitAction, make_commit_action
from flask_solid_objects.actors.effects import Effect
from flask_solid_objects.actors.message import Message
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.cli import solid_cli
from flask_solid_objects.errors import NotInitialized
from flask_solid_objects.place import binds_at, metadata_of, place_of
from flask_solid_objects.runtime.core import Core, ignore
from flask_solid_objects.runtime.events import Events, Exporter
from flask_solid_objects.runtime.operators import Operators
from flask_solid_objects.runtime.policies import Policies, PolicyName
from flask_solid_objects.runtime.reconciling import InstanceReads
from flask_solid_objects.runtime.redaction import Redactor
from flask_solid_objects.runtime.redrive_operators import RedriveOperators
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.runtime.reminder_operators import ReminderOperators
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.seams import Seams
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.schema import upgrade
from flask_solid_objects.store.sessions import SessionOutbox, SessionWatch, watch_engine
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import Tables, build_tables
from flask_solid_objects.store.write_guard import guard
from flask_solid_objects.testing import Testing
from flask_solid_objects.values import CommitContext, EffectContext, Policy
from flask_solid_objects.web.app_context import run_in_app_context
from flask_solid_objects.web.dashboard.blueprint import Dashboard
from flask_solid_objects.web.live import LiveViews
from flask_solid_objects.web.viewers import viewer_of

EXTENSION_KEY = "solid_objects"

_A = TypeVar("_A", bound=type[Actor])
_E = TypeVar("_E", bound=Exporter)
_F = TypeVar("_F", bound=Policy)
_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(slots=True, weakref_slot=True, kw_only=True)
class AppState:
    """What the extension keeps for one application, under ``app.extensions["solid_objects"]``."""

    extension: SolidObjects
    settings: Settings
    seams: Seams
    make: Callable[[AppState], Runtime]
    tables: Tables = field(init=False)
    db: SQLAlchemy | None = None
    watch: SessionWatch | None = None
    live: LiveViews | None = None
    is_prepared: bool = False
    runtime_or_none: Runtime | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def runtime(self) -> Runtime:
        """The runtime of the application, made at the first use."""
        if self.runtime_or_none is None:
            with self.lock:
                if self.runtime_or_none is None:
                    self.runtime_or_none = self.make(self)
        return self.runtime_or_none

    def join(self, db: SQLAlchemy | None) -> None:
        """Put the tables where the app's migrations see them, and watch its session from the beginning."""
        metadata = sqlalchemy.MetaData() if db is None else metadata_of(db, self.settings.bind_key)
        self.db, self.tables = db, build_tables(metadata, self.settings.table_prefix)
        if db is not None:
            self.watch = SessionWatch(db.session, lambda engine: engine.url == self.runtime.core.database.url)

    def prepare(self, app: Flask, **_: object) -> None:
        """Join the app's Flask-SQLAlchemy and guard its engines, before any code can use them in an app context.

        Called at every push of a context until it was found: it may be initialised later than this extension.
        """
        with self.lock:
            found = app.extensions.get("sqlalchemy")
            if self.is_prepared or not isinstance(found, SQLAlchemy) or self.db not in (None, found):
                return
            if self.db is None:
                self.join(found)
            for engine in found.engines.values():
                guard(engine)
                watch_engine(engine)
            self.is_prepared = True
        appcontext_pushed.disconnect(self.prepare, app)


class SolidObjects:
    """Durable virtual actors of one or more applications.

    :param app: initialised at once when given; otherwise call :meth:`init_app`.
    :param db: the app's Flask-SQLAlchemy, when it cannot be found on the app.
    """

    def __init__(self, app: Flask | None = None, *, db: SQLAlchemy | None = None) -> None:
        self._db = db
        self._policies: dict[str, Policy] = {}
        self._viewer: Callable[[], str] | None = None
        self._exporters: list[Exporter] = []
        self._redactors: dict[str, Redactor] = {}
        self.registry = Registry(make_reference=make_reference, current_runtime=lambda: self.runtime)
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask, *, db: SQLAlchemy | None = None, seams: Seams | None = None) -> None:
        """Read the settings, join the tables to the app's metadata, and add the commands.

        :raises InvalidSettings: naming every ``SOLID_OBJECTS_*`` key that is wrong.
        :raises RuntimeError: the app has a SolidObjects already.
        """
        if EXTENSION_KEY in app.extensions:
            raise RuntimeError("This app has a SolidObjects already; use that one, or make another app.")
        state = AppState(
            extension=self,
            settings=Settings.from_mapping(app.config),
            seams=seams if seams is not None else Seams(),
            make=lambda state: self._make_runtime(app, state),
        )
        found = app.extensions.get("sqlalchemy")
        state.join(db or self._db or (found if isinstance(found, SQLAlchemy) else None))
        app.extensions[EXTENSION_KEY] = state
        if state.settings.url_prefix is not None:
            state.live = LiveViews(state.settings.url_prefix, lambda: state.runtime, lambda: self._viewer)
            state.live.register(app)
        app.cli.add_command(solid_cli)
        # Weakly, so that an app that is dropped is not kept alive by a signal.
        appcontext_pushed.connect(state.prepare, app)
        if flask.has_app_context() and flask.current_app == app:
            state.prepare(app)

    # -- registration -------------------------------------------------------------------------

    @overload
    def actor(self, cls: _A, /) -> _A: ...

    @overload
    def actor(self, name: str | None = None, /, *, aliases: tuple[str, ...] = ()) -> Callable[[_A], _A]: ...

    def actor(self, cls: Any = None, /, *, aliases: tuple[str, ...] = ()) -> Any:
        """Register an actor class, under its own name or the one that is given.

        :param aliases: former names, under which actors are stored already.
        :raises InvalidActor: the class is malformed; the text says where and how to mend it.
        """
        if isinstance(cls, type):
            self.registry.register(cls)
            return cls

        def register(actor_class: _A) -> _A:
            self.registry.register(actor_class, cls, tuple(aliases))
            return actor_class

        return register

    @overload
    def effect(self, function: Callable[Concatenate[EffectContext, _P], _R]) -> Effect[_P, _R]: ...

    @overload
    def effect(
        self, *, name: str | None = None, max_attempts: int | None = None
    ) -> Callable[[Callable[Concatenate[EffectContext, _P], _R]], Effect[_P, _R]]: ...

    def effect(self, function: Any = None, *, name: str | None = None, max_attempts: int | None = None) -> Any:
        """Register work outside the database, which operations emit and the effect role runs after their commit.

        :param name: under which it is stored; the function's own by default.
        :param max_attempts: instead of ``SOLID_OBJECTS_MAX_ATTEMPTS``.
        :raises InvalidEffect: the function cannot be one; the text says why and how to mend it.
        """
        if function is not None:
            return self.registry.effects.register(function, None, None)
        return lambda function: self.registry.effects.register(function, name, max_attempts)

    def commit_action(self, function: Callable[Concatenate[CommitContext, _P], Any], /) -> CommitAction[_P]:
        """Make a function one that operations stage, and that writes in the transaction of their commit.

        :raises InvalidEffect: the function cannot be one; the text says why and how to mend it.
        """
        return make_commit_action(function)

    def authorize_message(self, policy: _F) -> _F:
        """Register the policy for calls and sends of operations, and for reading their messages."""
        return self._authorize("message", policy)

    def authorize_query(self, policy: _F) -> _F:
        """Register the policy for queries, reads and snapshots."""
        return self._authorize("query", policy)

    def authorize_destroy(self, policy: _F) -> _F:
        """Register the policy for destroying actors."""
        return self._authorize("destroy", policy)

    def authorize_subscription(self, policy: _F) -> _F:
        """Register the policy for watching actors from a browser."""
        return self._authorize("subscription", policy)

    def authorize_administration(self, policy: _F) -> _F:
        """Register the policy for operators: the command line and administrative reads and acts."""
        return self._authorize("administration", policy)

    def authorize_transmission(self, policy: _F) -> _F:
        """Register the policy for messages from other systems."""
        return self._authorize("transmission", policy)

    def redact(self, actor_type: str) -> Callable[[Redactor], Redactor]:
        """Register what may be shown to operators of the values of an actor type.

        The function gets what it is ("state", "arguments", "result" or "rejection"), the operation or None, and the
        plain JSON value without what is marked sensitive; it returns what is shown instead.
        """

        def register(function: Redactor) -> Redactor:
            self._redactors[actor_type] = function
            return function

        return register

    def viewer(self, function: Callable[[], str]) -> Callable[[], str]:
        """Say who looks at a page: a stable text for the browser's user; by default a random id in the session."""
        self._viewer = function
        return function

    def export_events(self, exporter: _E) -> _E:
        """Hand every event to a function, as the portable envelope of docs/telemetry.md: a dict that is ready for JSON.

        It is called in the thread that announces, so it must be quick; what it raises changes nothing.
        """
        self._exporters.append(exporter)
        return exporter

    def dashboard(
        self,
        name: str = "solid_dashboard",
        *,
        url_prefix: str | None = "/admin/solid",
        identity: Callable[[], object] | None = None,
    ) -> flask.Blueprint:
        """Make the administration dashboard: a blueprint that the application registers, under any prefix.

        Everything in it is denied until ``@solid.authorize_administration`` allows it.

        :param identity: who acts, for the policy's ``context`` and the audit log; by default what ``@solid.viewer``
            says.
        """
        viewer = lambda: viewer_of(self._viewer)  # noqa: E731 - read at each request
        return Dashboard(lambda: self.runtime, viewer, identity).blueprint(name, url_prefix)

    # -- use ----------------------------------------------------------------------------------

    def upgrade(self) -> None:
        """Make the tables of the current application, or bring them to this version, as ``flask solid upgrade`` does.

        For a command or a deployment step of your own; not for every start of the app.

        :raises InvalidSchema: tables of these names exist in another shape; nothing was changed.
        """
        core = self.runtime.core
        upgrade(core.database.engine, core.settings.table_prefix)

    @property
    def runtime(self) -> Runtime:
        """The runtime of the current application.

        :raises NotInitialized: outside an application context, or on an app without this extension.
        """
        if not flask.has_app_context():
            raise NotInitialized(
                "Actors need an application: use them in a request or within `with app.app_context():`."
            )
        state = flask.current_app.extensions.get(EXTENSION_KEY)
        if state is None or state.extension is not self:
            raise NotInitialized(
                f"The app {flask.current_app.name!r} has no SolidObjects, or another one: call solid.init_app(app)."
            )
        runtime: Runtime = state.runtime
        return runtime

    @property
    def messages(self) -> MessageLookup:
        """Look-ups of messages by request id."""
        return MessageLookup(self.runtime)

    @property
    def dead_letters(self) -> Operators:
        """Dead letters; ``.effects`` and ``.broadcasts`` of it are those of the outboxes."""
        return self.runtime.operators

    @property
    def redrives(self) -> RedriveOperators:
        """Durable tasks that revive dead effects and broadcasts."""
        return self.runtime.operators.redrives

    @property
    def reminders(self) -> ReminderOperators:
        """Reminders of all actors."""
        return self.runtime.operators.reminders

    @property
    def instances(self) -> InstanceReads:
        """Reads that compare the actors of a type with what the application knows."""
        return self.runtime.instances

    @property
    def processes(self) -> Operators:
        """Registered processes."""
        return self.runtime.operators

    @property
    def testing(self) -> Testing:
        """Helpers for tests of the current application; see docs/testing.md."""
        return Testing(self.runtime)

    def _authorize(self, name: PolicyName, policy: _F) -> _F:
        self._policies[name] = policy
        return policy

    def _make_runtime(self, app: Flask, state: AppState) -> Runtime:
        with app.app_context():
            # From now on nothing changes any more: an app without Flask-SQLAlchemy stays without.
            state.prepare(app)
            appcontext_pushed.disconnect(state.prepare, app)
            place = place_of(app, state.db, state.settings.bind_key)
        database = Database(
            place.url,
            settings=state.settings,
            connect_args=place.connect_args,
            engine_options={**place.engine_options, **state.settings.engine_options},
            shared_engine=place.shared_engine,
            seams=state.seams,
        )
        core = Core(
            database=database,
            store=Store(state.tables, database.dialect, state.settings),
            settings=state.settings,
            registry=self.registry,
            events=Events(adapter=database.dialect.name, sender=app, exporters=self._exporters),
            policies=Policies(registered=self._policies, strict=state.settings.strict_policies),
            run_actor_code=lambda function: run_in_app_context(app, function),
            has_uncommitted_work=state.watch.has_uncommitted_work if state.watch is not None else bool,
            commit_binds=lambda: None if state.db is None else binds_at(app, state.db, place.url),
            turn_committed=ignore if state.live is None else state.live.own_turns.note,
            redactors=self._redactors,
            seams=state.seams,
        )
        return Runtime(core, SessionOutbox(place.find_engine))


class MessageLookup:
    """``solid.messages``: messages by the request id that a send or an error gave."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def find(self, *, request_id: str, context: object = None) -> Message[Any] | None:
        """The message of a request id; None when there is none, or when the policy refuses."""
        return self._runtime.messages.find(request_id=request_id, context=context)
