"""Where an application keeps its data: the database of the actors' bind, and the metadata that migrations see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Engine

from flask_solid_objects.errors import NotInitialized
from flask_solid_objects.store.location import bind_options, is_in_memory, plain_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the tables of one application are."""

    url: sqlalchemy.URL
    connect_args: dict[str, Any] = field(default_factory=dict)
    engine_options: dict[str, Any] = field(default_factory=dict)
    shared_engine: Callable[[], Engine] | None = None
    find_engine: Callable[[], Engine] | None = None


def binds_at(app: Flask, db: SQLAlchemy, url: sqlalchemy.URL) -> frozenset[str | None]:
    """The binds of an application that are the database of its actors."""
    with app.app_context():
        return frozenset(key for key, engine in db.engines.items() if engine.url == url)


def metadata_of(db: SQLAlchemy, bind_key: str | None) -> sqlalchemy.MetaData:
    """The metadata of the bind, made here when no model of the app uses it."""
    return db.metadatas.setdefault(bind_key, sqlalchemy.MetaData(info={"bind_key": bind_key} if bind_key else {}))


def place_of(app: Flask, db: SQLAlchemy | None, key: str | None) -> Place:
    """The database of the app's bind, or of its URI, or a SQLite file in the instance folder."""
    if db is None:
        return Place(url=plain_url(app.config, key, app.instance_path))
    engine = db.engines.get(key)
    if engine is None:
        raise NotInitialized(f"Flask-SQLAlchemy has no bind {key!r}: set SQLALCHEMY_BINDS or SOLID_OBJECTS_BIND_KEY.")
    options = bind_options(app.config, key, db._engine_options)
    return Place(
        url=engine.url,
        connect_args=dict(options.get("connect_args") or {}),
        engine_options={name: options[name] for name in ("creator",) if name in options},
        shared_engine=(lambda: engine) if is_in_memory(engine.url) else None,
        find_engine=lambda: engine,
    )
