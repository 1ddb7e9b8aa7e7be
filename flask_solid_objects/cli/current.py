"""The runtime and schema of the application that a command runs for."""

from __future__ import annotations

from typing import Any, cast

from flask import current_app

from flask_solid_objects.errors import NotInitialized
from flask_solid_objects.runtime.runtime import Runtime


def current_state() -> Any:
    """What the extension keeps for this application.

    :raises NotInitialized: the application has no SolidObjects.
    """
    state = current_app.extensions.get("solid_objects")
    if state is None:
        raise NotInitialized(f"The app {current_app.name!r} has no SolidObjects: call solid.init_app(app).")
    return state


def current_runtime() -> Runtime:
    return cast("Runtime", current_state().runtime)
