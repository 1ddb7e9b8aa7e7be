"""``SolidObjects``: joins an application with its actors; the only module that sees everything.

Creating it, or an app with it, opens no connection and starts no thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, overload

import flask
import sqlalchemy
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Engine

from flask_solid_objects.actors.actor import Actor
from flask_solid_objects.actors.message import Message
from flask_solid_objects.actors.registry import Registry
from flask_solid_objects.cli import solid_cli
from flask_solid_objects.errors import NotInitialized
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.operators import Operators
from flask_solid_objects.runtime.policies import Policies, PolicyName
from flask_solid_objects.runtime.references import make_reference
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.seams import Seams
from flask_solid_objects.settings import Settings
from flask_solid_objects.store.database import Database
from flask_solid_objects.store.sessions import SessionOutbox, SessionWatch
from flask_solid_objects.store.store import Store
from flask_solid_objects.store.tables import Tables, build_tables
from flask_solid_objects.store.write_guard import guard
from flask_solid_objects.values import Policy
from flask_solid_objects.web.app_context import run_in_app_context

EXTENSION_KEY = "solid_objects"

_A = TypeVar("_A", bound=type[Actor])
_F = TypeVar("_F", bound=Policy)


@dataclass(slots=True)
class AppState:
    """What the extension keeps for one application, under ``app.extensions["solid_objects"]``."""

    extension: SolidObjects
    settings: Settings
    tables: Tables
    db: SQLAlchemy | None
    seams: Seams
    watch: SessionWatch | None = None
    runtime_or_none: Runtime | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    make: Callable[[], Runtime] | None = None

    @property
    def runtime(self) -> Runtime:
        """The runtime of the application, made at the first use."""
        if self.runtime_or_none is None:
            with self.lock:
                if self.runtime_or_none is None:
                    assert self.make is not None, "init_app sets it"
                    self.runtime_or_none = self.make()
        return self.runtime_or_none


class SolidObjects:
    """Durable virtual actors of one or more applications.

    :param app: initialised at once when given; otherwise call :meth:`init_app`.
    :param db: the app's Flask-SQLAlchemy, when it cannot be found on the app.
    """

    def __init__(self, app: Flask | None = None, *, db: SQLAlchemy | None = None) -> None:
        self._policies: dict[str, Policy] = {}
        self.registry = Registry(make_reference=make_reference, current_runtime=lambda: self.runtime)
        if app is not None:
            self.init_app(app, db=db)

    def init_app(self, app: Flask, *, db: SQLAlchemy | None = None, seams: Seams | None = None) -> None:
        """Read the settings, join the tables to the app's metadata, and add the commands.

        :raises InvalidSettings: naming every ``SOLID_OBJECTS_*`` key that is wrong.
        :raises RuntimeError: the app has a SolidObjects already.
        """
        if EXTENSION_KEY in app.extensions:
            raise RuntimeError("This app has a SolidObjects already; use that one, or make another app.")
        settings = Settings.from_mapping(app.config)
        db = db if db is not None else app.extensions.get("sqlalchemy")
        metadata = sqlalchemy.MetaData() if db is None else _metadata(db, settings.bind_key)
        tables = build_tables(metadata, settings.table_prefix)
        state = AppState(
            extension=self, settings=settings, tables=tables, db=db, seams=seams if seams is not None else Seams()
        )
        state.make = lambda: self._make_runtime(app, state)
        if db is not None:
            # From the beginning, so that work before the first call counts too.
            state.watch = SessionWatch(db.session, lambda engine: engine.url == state.runtime.core.database.url)
        app.extensions[EXTENSION_KEY] = state
        app.cli.add_command(solid_cli)

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

    # -- use ----------------------------------------------------------------------------------

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
        """Dead letters; see :class:`~flask_solid_objects.runtime.operators.Operators`."""
        return self.runtime.operators

    @property
    def instances(self) -> Operators:
        """Actors as operators see them."""
        return self.runtime.operators

    @property
    def processes(self) -> Operators:
        """Registered processes."""
        return self.runtime.operators

    def _authorize(self, name: PolicyName, policy: _F) -> _F:
        self._policies[name] = policy
        return policy

    def _make_runtime(self, app: Flask, state: AppState) -> Runtime:
        place = _place(app, state)
        database = Database(
            place.url,
            settings=state.settings,
            connect_args=place.connect_args,
            engine_options=state.settings.engine_options,
            shared_engine=place.shared_engine,
            seams=state.seams,
        )
        if state.db is not None:
            with app.app_context():
                engines = dict(state.db.engines)
            for engine in engines.values():
                guard(engine)
        core = Core(
            database=database,
            store=Store(state.tables, database.dialect, state.settings),
            settings=state.settings,
            registry=self.registry,
            policies=Policies(registered=self._policies, strict=state.settings.strict_policies),
            run_actor_code=lambda function: run_in_app_context(app, function),
            has_uncommitted_work=state.watch.has_uncommitted_work if state.watch is not None else bool,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the tables of one application are."""

    url: sqlalchemy.URL
    connect_args: dict[str, Any]
    shared_engine: Callable[[], Engine] | None
    find_engine: Callable[[], Engine] | None


def _metadata(db: SQLAlchemy, bind_key: str | None) -> sqlalchemy.MetaData:
    """The metadata of the bind, made here when no model of the app uses it."""
    return db.metadatas.setdefault(bind_key, sqlalchemy.MetaData(info={"bind_key": bind_key} if bind_key else {}))


def _place(app: Flask, state: AppState) -> _Place:
    """The database of the app's bind, or of its URI, or a SQLite file in the instance folder."""
    key = state.settings.bind_key
    db = state.db
    if db is None:
        uri = app.config.get("SQLALCHEMY_DATABASE_URI")
        if key is not None:
            uri = dict(app.config.get("SQLALCHEMY_BINDS") or {}).get(key)
            if uri is None:
                raise NotInitialized(f"SOLID_OBJECTS_BIND_KEY is {key!r}, but SQLALCHEMY_BINDS has no such bind.")
        return _Place(url=_file_url(app, uri), connect_args={}, shared_engine=None, find_engine=None)
    with app.app_context():
        engines = dict(db.engines)
    if key not in engines:
        raise NotInitialized(f"Flask-SQLAlchemy has no bind {key!r}: set SQLALCHEMY_BINDS or SOLID_OBJECTS_BIND_KEY.")
    engine = engines[key]
    memory = engine.url.get_backend_name() == "sqlite" and engine.url.database in (None, "", ":memory:")
    options = _engine_options(app, key)
    return _Place(
        url=engine.url,
        connect_args=dict(options.get("connect_args") or {}),
        shared_engine=(lambda: engine) if memory else None,
        find_engine=lambda: engine,
    )


def _engine_options(app: Flask, key: str | None) -> dict[str, Any]:
    """The options of a bind, as Flask-SQLAlchemy reads them."""
    if key is None:
        return dict(app.config.get("SQLALCHEMY_ENGINE_OPTIONS") or {})
    bind = dict(app.config.get("SQLALCHEMY_BINDS") or {}).get(key)
    return dict(bind) if isinstance(bind, dict) else {}


def _file_url(app: Flask, uri: Any) -> sqlalchemy.URL:
    """A URL whose relative SQLite path lies in the instance folder, as Flask-SQLAlchemy has it."""
    if isinstance(uri, dict):
        uri = uri.get("url")
    url = sqlalchemy.make_url(uri or "sqlite:///solid_objects.sqlite3")
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:" or name.startswith("file:"):
        return url
    path = Path(app.instance_path) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return url.set(database=str(path))
