"""What the server around the application tells it, by the environ of each request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

_KEY = "solid_objects.serving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """One worker of a server.

    :param is_alive: False once it ends, which open sockets would hold up.
    :param most_sockets: how many leave room for ordinary requests; None when that is not known.
    """

    is_alive: Callable[[], bool]
    most_sockets: int | None


UNKNOWN = Serving(is_alive=lambda: True, most_sockets=None)


class Told:
    """A WSGI application that is told by whom it is served."""

    def __init__(self, application: Callable[..., Iterable[bytes]], serving: Serving) -> None:
        self._application, self._serving = application, serving

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        environ[_KEY] = self._serving
        return self._application(environ, start_response)


def serving_of(environ: dict[str, Any]) -> Serving:
    serving: Serving = environ.get(_KEY, UNKNOWN)
    return serving
