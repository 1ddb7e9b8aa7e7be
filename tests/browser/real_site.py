"""A site with live views in a process of its own: ``python -m tests.browser.real_site FILE PORT``.

Its pages are what a visitor sees; everything under ``/control`` is what a test does to it from outside.
"""

from __future__ import annotations

import sys
from typing import Any

import flask
from flask import Blueprint, Flask, Response, abort, redirect, render_template, request, url_for
from jinja2 import DictLoader
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server
from werkzeug.wrappers import Response as BaseResponse

from flask_solid_objects import Access, Actor, SolidObjects, attribute, observable, operation
from flask_solid_objects.store.schema import upgrade

SCRIPTS = {"htmx4": "vendor/htmx-4.0.1.min.js", "htmx2": "vendor/htmx-2.0.11.min.js"}
TEMPLATES = {
    "actors/Room/_talk.html": """
<p class="holder">{% if actor.holder == viewer %}You hold this room{% elif actor.holder %}Somebody holds it
  {%- else %}Free{% endif %}</p>
<p class="last">{{ actor.lines[-1] if actor.lines else "nothing" }}</p>
<ul>{% for line in actor.lines %}<li>{{ line }}</li>
  {%- endfor %}</ul>
<input class="draft" id="draft-{{ actor.actor_id }}">
<button hx-post="{{ url_for('site.press', name=actor.actor_id) }}" hx-target="closest [data-solid-c]"
  hx-swap="outerMorph">press</button>""",
    "actors/Board/_title.html": "<b>{{ actor.title }}</b>",
    "page.html": """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Real</title>
<link rel="icon" href="{{ url_for('site.icon') }}">
<meta name="htmx-config" content='{"includeIndicatorStyles":false,"allowEval":false}'>
{{ solid_scripts(htmx=script, poll=300, grace=500) }}</head><body>{% block body %}{% endblock %}</body></html>""",
    "room.html": """{% extends "page.html" %}{% block body %}
{% for name in rooms %}{% set live = solid_scope(ref(name)) %}
<section id="at-{{ name }}">{{ live.component("talk", observes=["lines", "holder"]) }}
<p>{{ live.scalar("count") }}</p></section>
{% endfor %}
{{ solid_component(board, "title", observes=["title"]) }}
<a hx-boost="true" href="{{ url_for('site.away') }}">away</a>{% endblock %}""",
    "part.html": """{{ solid_component(ref(name), "talk", observes=["lines", "holder"]) }}""",
    "away.html": """{% extends "page.html" %}{% block body %}<h1>Away</h1>{% endblock %}""",
}


solid = SolidObjects()
denied: set[str] = set()


@solid.actor
class Room(Actor):
    lines: list[str] = attribute(default_factory=list, observable=True)
    holder: str = attribute("", observable=True)

    @observable(broadcast="value")
    def count(self) -> int:
        return len(self.lines)

    @operation
    def say(self, text: str) -> None:
        self.lines = [*self.lines, text][-60:]

    @operation
    def take(self, who: str) -> None:
        self.holder = who


@solid.actor
class Board(Actor):
    title: str = attribute("untitled", observable=True)

    @operation
    def name(self, title: str) -> None:
        self.title = title


@solid.viewer
def viewer() -> str:
    return str(flask.session.get("user") or "nobody")


@solid.authorize_query
@solid.authorize_subscription
def allowed(access: Access) -> bool:
    return str(access.context) not in denied


site = Blueprint("site", __name__)


@site.before_app_request
def watch_the_door() -> BaseResponse | None:
    """Cookies of a browser say what this site does to it."""
    if request.path == "/solid/ws" and "refused" in request.cookies:
        abort(int(request.cookies["refused"]))
    if request.path.startswith("/solid/") and "redirected" in request.cookies:
        return redirect("/login")
    return None


@site.after_app_request
def strict(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = "default-src 'self'"
    return response


@site.app_context_processor
def names() -> dict[str, Any]:
    return {"script": SCRIPTS[request.cookies.get("htmx", "htmx4")], "ref": Room.ref}


@site.get("/icon")
def icon() -> tuple[str, int]:
    return "", 204


@site.get("/enter/<user>/<names>")
def enter(user: str, names: str) -> BaseResponse:
    flask.session["user"] = user
    return redirect(url_for("site.show", names=names))


@site.get("/login")
@site.get("/away", endpoint="away")
def away() -> str:
    return render_template("away.html")


@site.get("/rooms/<names>")
def show(names: str) -> str:
    return render_template("room.html", rooms=names.split(","), board=Board.ref(names.split(",", maxsplit=1)[0]))


@site.get("/part/<name>")
def part(name: str) -> str:
    return render_template("part.html", name=name)


@site.post("/press/<name>")
def press(name: str) -> str:
    """An action of the visitor, answered with the new room."""
    Room.ref(name).say(text="pressed")
    return part(name)


@site.post("/control/say/<names>")
def say(names: str) -> str:
    for text in request.form.getlist("text"):
        for name in names.split(","):
            Room.ref(name).say(text=text)
    return ""


@site.post("/control/take/<name>/<who>")
def take(name: str, who: str) -> str:
    Room.ref(name).take(who=who)
    return ""


@site.post("/control/destroy/<name>")
def destroy(name: str) -> str:
    Room.ref(name).destroy()
    return ""


@site.post("/control/name/<board>/<title>")
def name_board(board: str, title: str) -> str:
    Board.ref(board).name(title=title)
    return ""


@site.post("/control/deny/<who>")
def deny(who: str) -> str:
    denied.add(who)
    return ""


def create_app(database: str) -> Flask:
    app = Flask(__name__)
    app.jinja_loader = DictLoader(TEMPLATES)
    app.config.update(
        SECRET_KEY="real",
        SQLALCHEMY_DATABASE_URI=f"sqlite:///{database}",
        SOLID_OBJECTS_LIVE_POLLING_INTERVAL=0.2,
        SOLID_OBJECTS_LIVE_HEARTBEAT=0.5,
        SOLID_OBJECTS_LIVE_RECHECK_INTERVAL=1.0,
        SOLID_OBJECTS_LOGIN_URL="/login",
    )
    app.register_blueprint(site)
    solid.init_app(app)
    with app.app_context():
        upgrade(solid.runtime.core.database.engine, solid.runtime.settings.table_prefix)
    return app


def main(database: str, port: str) -> None:
    app = create_app(database)
    both: Any = DispatcherMiddleware(app, {"/mounted": app})
    server = make_server("127.0.0.1", int(port), both, threaded=True)
    server.daemon_threads = True
    print(f"serves {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
