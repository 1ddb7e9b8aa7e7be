"""Who looks at a page: a stable text for the browser's user, to which handles are bound."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from flask import current_app, session

from flask_solid_objects.errors import NotInitialized

_SESSION_KEY = "_solid_viewer"


def viewer_of(function: Callable[[], str] | None) -> str:
    """What the application's ``@solid.viewer`` says, else a random name that is kept in the Flask session.

    :raises NotInitialized: there is no SECRET_KEY to sign anything with.
    """
    if function is not None:
        return str(function())
    signing_keys()
    viewer = session.get(_SESSION_KEY)
    if not isinstance(viewer, str):
        viewer = session[_SESSION_KEY] = secrets.token_urlsafe(16)
    return viewer


def signing_keys() -> Sequence[bytes]:
    """The application's keys, the current one first.

    :raises NotInitialized: SECRET_KEY is missing.
    """
    current = current_app.secret_key
    if not current:
        raise NotInitialized("Live views are signed: set app.config['SECRET_KEY'] to a long random value.")
    former = current_app.config.get("SECRET_KEY_FALLBACKS") or []
    return [each.encode() if isinstance(each, str) else bytes(each) for each in (current, *former)]
