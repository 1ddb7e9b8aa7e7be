"""Where the tables of an application are: the URL and connect options that its own configuration gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy

from flask_solid_objects.errors import NotInitialized

DEFAULT_URI = "sqlite:///solid_objects.sqlite3"


def bind_options(config: Mapping[str, Any], bind_key: str | None, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The engine options of a bind, put together as Flask-SQLAlchemy does.

    :param defaults: the options that its constructor got, which hold for every bind.
    """
    options = dict(defaults)
    bind = (config.get("SQLALCHEMY_BINDS") or {}).get(bind_key)
    if isinstance(bind, Mapping):
        options |= bind
    if bind_key is None:
        options |= config.get("SQLALCHEMY_ENGINE_OPTIONS") or {}
    return options


def plain_url(config: Mapping[str, Any], bind_key: str | None, instance_path: str) -> sqlalchemy.URL:
    """The URL of an application without Flask-SQLAlchemy; a relative SQLite path lies in the instance folder.

    :raises NotInitialized: there is no such bind.
    """
    uri = config.get("SQLALCHEMY_DATABASE_URI")
    if bind_key is not None:
        uri = (config.get("SQLALCHEMY_BINDS") or {}).get(bind_key)
        if uri is None:
            raise NotInitialized(f"SOLID_OBJECTS_BIND_KEY is {bind_key!r}, but SQLALCHEMY_BINDS has no such bind.")
    url = sqlalchemy.make_url((uri.get("url") if isinstance(uri, Mapping) else uri) or DEFAULT_URI)
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:" or name.startswith("file:"):
        return url
    path = Path(instance_path) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return url.set(database=str(path))


def is_in_memory(url: sqlalchemy.URL) -> bool:
    """True for a SQLite database that exists in one connection only."""
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")
