"""Live views: the blueprint of their endpoints, and what they add to the templates of an application.

Everything personal goes over ordinary requests with the visitor's own cookies; nothing here may be cached or swapped
into a page by mistake.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Flask, Response, current_app, request
from markupsafe import Markup
from werkzeug.wrappers import Response as BaseResponse

from flask_solid_objects.assets import STATIC
from flask_solid_objects.errors import InvalidComponent, StateMigrationError, Unauthorized, UnknownActorType
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.values import ActorKey
from flask_solid_objects.web.components import Components, Scope
from flask_solid_objects.web.handles import HandleRefused, Handles
from flask_solid_objects.web.health import Health
from flask_solid_objects.web.own_turns import OwnTurns
from flask_solid_objects.web.protocol import Malformed, items_of
from flask_solid_objects.web.sockets import Sockets
from flask_solid_objects.web.subscriptions import Subscriptions
from flask_solid_objects.web.viewers import signing_keys, viewer_of

HTMX = "vendor/htmx-4.0.1.min.js"
IDIOMORPH = "vendor/idiomorph-0.8.0.min.js"
SCRIPT = "solid-objects.js"
_MOST_PARTS = 50
_STATUS = {"expired": 410, "denied": 403}


class LiveViews:
    """The live views of one application.

    :param runtime: finds its runtime.
    :param viewer_function: what the application registered with ``@solid.viewer``, if anything.
    """

    def __init__(
        self, prefix: str, runtime: Callable[[], Runtime], viewer_function: Callable[[], Callable[[], str] | None]
    ) -> None:
        self._prefix, self._runtime = prefix, runtime
        handles = Handles(signing_keys)
        self._viewer_function, self._handles = viewer_function, handles
        self._subscriptions = Subscriptions(runtime, handles)
        self.sockets = Sockets(runtime, self._viewer, self._subscriptions)
        self.own_turns = OwnTurns(lambda: runtime().core, self._viewer)

    def register(self, app: Flask) -> None:
        """Add the blueprint and the names that templates use."""
        blueprint = Blueprint("solid_objects", __name__, static_folder=str(STATIC), static_url_path="/static")
        blueprint.add_url_rule("/ws", "socket", self._socket, websocket=True)
        # Told apart by the upgrade alone: the same path without one is answered too, with the reason.
        blueprint.add_url_rule("/ws", "socket_refused", self._no_socket)
        blueprint.add_url_rule("/c/<path:token>", "component", self._component)
        blueprint.add_url_rule("/batch", "batch", self._batch)
        blueprint.add_url_rule("/sync", "sync", self._sync)
        Health(self._runtime).register(blueprint)
        blueprint.after_request(_uncached)
        app.register_blueprint(blueprint, url_prefix=self._prefix)
        app.after_request(self.own_turns.add_to)
        for name, function in self._globals().items():
            app.add_template_global(function, name)

    def _viewer(self) -> str:
        return viewer_of(self._viewer_function())

    def _globals(self) -> dict[str, Callable[..., Any]]:
        def components() -> Components:
            base = request.script_root + self._prefix if request else self._prefix
            return Components(runtime=self._runtime, viewer=self._viewer, handles=self._handles, base=base)

        return {
            "solid_scope": lambda reference: Scope(components(), reference),
            "solid_component": lambda reference, name, **options: components().component(reference, name, **options),
            "solid_scalar": lambda reference, name, **options: components().scalar(reference, name, **options),
            "solid_watch": lambda reference, *names, **options: components().watch(reference, *names, **options),
            "solid_scripts": self._scripts,
        }

    def _scripts(self, *, htmx: str | None = HTMX, **settings: str | int) -> Markup:
        """The script tags of a page: htmx unless the page has it already, and ours.

        :param htmx: another vendored file, or None for a page that loads htmx itself.
        :param settings: of our script, such as ``poll=2000`` for ``data-poll``, and ``url_max`` for ``data-url-max``.
        """
        base = request.script_root + self._prefix
        # htmx 2 has no morph of its own.
        morph = [IDIOMORPH] if htmx is not None and "htmx-2" in htmx else []
        names = [*([] if htmx is None else [htmx]), *morph, SCRIPT]
        data = {"base": base, **{name.replace("_", "-"): value for name, value in settings.items()}}
        ours = Markup().join(Markup(' data-{}="{}"').format(name, value) for name, value in data.items())
        tags = [
            Markup('<script defer src="{}/static/{}?v={}"{}></script>').format(
                base, name, _version(name), ours if name == SCRIPT else ""
            )
            for name in names
        ]
        return Markup("\n").join(tags)

    # -- endpoints ----------------------------------------------------------------------------

    def _socket(self) -> BaseResponse:
        return self.sockets.endpoint()

    def _no_socket(self) -> BaseResponse:
        return Response("This is a WebSocket.", 426, {"Upgrade": "websocket"}, mimetype="text/plain")

    def _component(self, token: str) -> BaseResponse:
        """One component, rendered anew after its policies were asked again."""
        viewer, seen = self._viewer(), dict[ActorKey, Any]()
        events = self._runtime().core.events
        try:
            rendered = self._rendered(token, viewer, seen, oob=False)
        except HandleRefused as refused:
            events.announce("component.refreshed", outcome="invalid_token")
            return self._refused(_STATUS[refused.why])
        except Unauthorized:
            events.announce("component.refreshed", outcome="unauthorized")
            return self._refused(403)
        except (UnknownActorType, InvalidComponent):
            # The page is older than the code.
            events.announce("component.refreshed", outcome="unknown_component")
            return self._refused(410)
        except StateMigrationError as error:
            # This code cannot read the state, or not yet: the page keeps what it shows and asks again later.
            events.announce("view.failed", error=type(error).__name__)
            events.announce("component.refreshed", outcome="unreadable_state")
            return self._refused(503)
        events.announce("component.refreshed", outcome="rendered")
        return Response(rendered)

    def _batch(self) -> BaseResponse:
        """Several components in one answer; one that is refused is left out, and the page asks for it alone."""
        tokens = request.args.getlist("c")
        if not 1 <= len(tokens) <= _MOST_PARTS:
            return self._refused(400)
        viewer, seen, parts = self._viewer(), dict[ActorKey, Any](), list[str]()
        events = self._runtime().core.events
        for token in tokens:
            try:
                parts.append(self._rendered(token, viewer, seen, oob=True))
            except (HandleRefused, Unauthorized, UnknownActorType, InvalidComponent):
                continue
            except Exception as error:
                # Whatever a template does keeps nothing from the others; asked for alone it is an ordinary failure.
                events.announce("view.failed", error=type(error).__name__)
        events.announce("component.batch_refreshed", component_count=len(parts), failures=len(tokens) - len(parts))
        return Response("\n".join(parts))

    def _sync(self) -> BaseResponse:
        """What a socket would answer to a subscription, for pages that cannot have one."""
        try:
            items = items_of(request.args.get("s", "[]"), _MOST_PARTS * 5)
        except Malformed:
            return self._refused(400)
        frames = self._subscriptions.answer(items, self._viewer(), None)
        return Response(json.dumps(frames), mimetype="application/json")

    def _rendered(self, token: str, viewer: str, seen: dict[ActorKey, Any], *, oob: bool) -> str:
        spec = self._handles.read_component(token, viewer)
        base = request.script_root + self._prefix
        components = Components(runtime=self._runtime, viewer=lambda: viewer, handles=self._handles, base=base)
        return str(components.render(spec, viewer, seen, oob=oob))

    def _refused(self, status: int) -> BaseResponse:
        """An empty answer, which no version of htmx can swap in; with a place to log in where that may help."""
        response = Response(b"", status, mimetype="text/plain")
        login = self._runtime().settings.login_url
        if status == 403 and login is not None:
            response.status_code = 401
            response.headers["Solid-Login"] = login
        return response


def _uncached(response: Any) -> Any:
    """Personal answers stay out of every cache; the files carry their version in the address."""
    if request.endpoint == "solid_objects.static":
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    else:
        response.headers["Cache-Control"] = "private, no-store"
        response.headers["Vary"] = "Cookie"
    return response


def _version(name: str) -> str:
    """A short hash of a file's content, so that a browser takes a new one at once."""
    versions: dict[str, str] = current_app.extensions.setdefault("solid_objects_versions", {})
    if name not in versions:
        versions[name] = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:10]
    return versions[name]
