"""A client of Redis, whose driver is optional."""

from __future__ import annotations

from typing import Any

from flask_solid_objects.errors import InvalidSettings


def connect_redis(url: str, **options: Any) -> Any:
    """A client with a pool of its own; it connects at the first use.

    :raises InvalidSettings: the driver is not installed.
    """
    try:
        import redis  # noqa: PLC0415 - an optional driver
    except ImportError as error:
        raise InvalidSettings(
            {"SOLID_OBJECTS_REDIS_URL": "needs the redis package: pip install 'flask-solid-objects[redis]'"}
        ) from error
    # Health checks find a connection that died silently; the client reconnects by itself.
    return redis.Redis.from_url(url, health_check_interval=10, **options)
