"""The blueprint of the dashboard: who may see it, what every answer carries, and what happens to errors.

Nothing is shown without an administration policy (hazard H108). Each page and each act asks it once, with one
``Access``; its ``context`` is what ``identity`` says, by default the viewer of the request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, abort, current_app, render_template, request, session
from werkzeug.exceptions import HTTPException

from flask_solid_objects.assets import STATIC, TEMPLATES
from flask_solid_objects.errors import (
    ActorDestroyed,
    ActUnresolved,
    CommitUnknown,
    DatabaseDeadlineExceeded,
    IdempotencyConflict,
    InvalidActorId,
    InvalidPayload,
    MailboxFull,
    ReminderCompleted,
    SchemaMissing,
    SolidObjectsError,
    Unauthorized,
    UnknownActorType,
    UnknownDeadLetter,
    UnknownInstance,
    UnknownOperation,
    UnknownOutboxRow,
    UnknownRedrive,
    UnknownReminder,
)
from flask_solid_objects.runtime.runtime import Runtime
from flask_solid_objects.web.dashboard import display
from flask_solid_objects.web.dashboard.acts import Acts
from flask_solid_objects.web.dashboard.forms import PREFIX
from flask_solid_objects.web.dashboard.message_forms import MessageForms
from flask_solid_objects.web.dashboard.metrics import Metrics
from flask_solid_objects.web.dashboard.pages import Pages
from flask_solid_objects.web.dashboard.redirects import link
from flask_solid_objects.web.dashboard.tokens import FIELD, form_token, is_ours

_NOTICE = "_solid_notice"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_STATUS: dict[type[SolidObjectsError], int] = {
    Unauthorized: 403,
    UnknownInstance: 404,
    ActorDestroyed: 404,
    InvalidActorId: 404,
    UnknownDeadLetter: 404,
    UnknownOutboxRow: 404,
    UnknownRedrive: 404,
    UnknownReminder: 404,
    UnknownActorType: 404,
    UnknownOperation: 404,
    ReminderCompleted: 409,
    IdempotencyConflict: 409,
    InvalidPayload: 422,
    MailboxFull: 422,
    ActUnresolved: 503,
    CommitUnknown: 503,
    DatabaseDeadlineExceeded: 503,
    SchemaMissing: 503,
}


class Dashboard:
    """The pages of one extension; made once for each blueprint that an application registers.

    :param runtime: finds the runtime of the current application.
    :param viewer: the browser's user, as live views know it.
    :param identity: who acts, as the policy and the audit log see it; the viewer when it is None.
    """

    def __init__(
        self, runtime: Callable[[], Runtime], viewer: Callable[[], str], identity: Callable[[], object] | None
    ) -> None:
        self.runtime, self.viewer = runtime, viewer
        self.identity: Callable[[], object] = identity or viewer

    def blueprint(self, name: str, url_prefix: str | None) -> Blueprint:
        blueprint = Blueprint(
            name,
            __name__,
            url_prefix=url_prefix,
            template_folder=str(TEMPLATES),
            static_folder=str(STATIC),
            static_url_path="/static",
        )
        blueprint.before_request(_check_text)
        blueprint.before_request(self._check_token)
        blueprint.after_request(_secured)
        blueprint.context_processor(self._names)
        for error in _STATUS:
            blueprint.register_error_handler(error, self._failed)
        for code in (400, 404):
            blueprint.register_error_handler(code, self._refused)
        Pages(self).register(blueprint)
        Acts(self).register(blueprint)
        MessageForms(self).register(blueprint)
        Metrics(self).register(blueprint)
        blueprint.record_once(_need_key)
        return blueprint

    def notify(self, text: str, kind: str = "done") -> None:
        """Say on the next page what was done; apart from the application's own flashed messages."""
        session[_NOTICE] = [kind, text]

    def can(self, action: str, resource: str, **subject: Any) -> bool:
        return self.runtime().browsing.acts.allows(action, resource, self.identity(), **subject)

    def require(self, action: str, resource: str, **subject: Any) -> None:
        """Refuse whoever may not do what a form is for.

        :raises Unauthorized: answered with 403.
        """
        self.runtime().browsing.acts.require(action, resource, self.identity(), **subject)

    def _names(self) -> dict[str, Any]:
        runtime = self.runtime()
        limit = runtime.settings.dashboard_value_limit
        return {
            "can": self.can,
            "count": display.count,
            "span": display.span,
            "moment": display.moment,
            "document": lambda value: display.document(value, limit),
            "shown": runtime.redaction,
            "size": display.size,
            "stored_error": display.stored_error,
            "cut": lambda text, most=200: display.cut(text, most),
            "form_token": form_token,
            "token_field": FIELD,
            "take_notice": lambda: session.pop(_NOTICE, None),
            "link": link,
            "is_part": _is_part(),
            "polled": True,
            "live_scripts": _live_scripts(),
        }

    def _check_token(self) -> tuple[str, int] | None:
        if request.method in ("GET", "HEAD", "OPTIONS") or is_ours():
            return None
        return _error("Not allowed", "This form is too old, or not ours: go back, reload the page, and try again.", 403)

    def _failed(self, error: SolidObjectsError) -> tuple[str, int]:
        status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
        title = {403: "Not allowed", 404: "Not there", 503: "Not now"}.get(status, "Not possible")
        return _error(title, str(error), status)

    def _refused(self, error: HTTPException) -> tuple[str, int]:
        title = "Not there" if error.code == 404 else "Not possible"
        return _error(title, error.description or "There is no such page.", error.code or 400)


def _error(title: str, text: str, status: int) -> tuple[str, int]:
    return render_template("solid_objects/dashboard/error.html", title=title, text=text, polled=False), status


def _need_key(state: Any) -> None:
    if not state.app.secret_key:
        raise RuntimeError("The dashboard keeps its form token in the session: set app.config['SECRET_KEY'] first.")


def _check_text() -> None:
    """No database stores or compares a NUL; the arguments of a form are checked with all others."""
    given = [*request.args.values(), *(request.view_args or {}).values()]
    given += [text for name, text in request.form.items() if not name.startswith(PREFIX)]
    if any(isinstance(text, str) and "\0" in text for text in given):
        abort(400, "A text of this request holds a NUL character.")


def _secured(response: Response) -> Response:
    """No answer may be cached, framed, or run a script that is not a file of ours; files may be kept."""
    response.headers["X-Content-Type-Options"] = "nosniff"
    if request.endpoint is not None and request.endpoint.endswith(".static"):
        return response
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    response.vary.update(("Cookie", "HX-Request"))
    return response


def _is_part() -> bool:
    """Whether htmx asks for the changing part of a page it has already."""
    return request.headers.get("HX-Request") == "true"


def _live_scripts() -> bool:
    """Whether the application serves live views, whose scripts the dashboard then uses."""
    return "solid_objects" in current_app.blueprints
