"""Whether a page of some origin may open a socket: browsers send a site's cookies along whoever asks."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def is_allowed(origin: str, *, scheme: str, host: str, others: Collection[str]) -> bool:
    """Whether this is the origin that the request went to, or one of the others.

    :param host: with the port, unless it is the usual one.
    """
    asked = _parts(origin)
    if asked is None:
        return False
    return any(asked == _parts(each) for each in (f"{scheme}://{host}", *others))


def _parts(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what no browser sends, such as a path, a user's name, or ``null``."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    scheme, host = parts.scheme, parts.hostname
    if scheme not in _PORTS or not host or origin.lower() != f"{scheme}://{parts.netloc.lower()}" or "@" in origin:
        return None
    return scheme, host, _PORTS[scheme] if port is None else port
