"""One page that shows one actor, for the measurements of live views, on the database of ``DATABASE_URL``.

``python -m benchmarks.live_site PORT`` serves it; under gunicorn it is ``benchmarks.live_site:make_app()``.
"""

from __future__ import annotations

import os
import sys
import time

from flask import Flask, render_template
from jinja2 import DictLoader
from werkzeug.serving import make_server

from flask_solid_objects import Access, Actor, SolidObjects, attribute, operation

_TEMPLATES = {
    "actors/Board/_number.html": '<b id="number">{{ actor.number }}</b>',
    "page.html": """<!doctype html><html lang="en"><head><title>Live</title>{{ solid_scripts() }}</head>
<body>{{ solid_component(board, "number", observes=["number"]) }}</body></html>""",
}


def make_app() -> Flask:
    app = Flask("live_benchmark")
    app.jinja_loader = DictLoader(_TEMPLATES)
    app.config.update(
        SECRET_KEY="benchmark", SQLALCHEMY_DATABASE_URI=os.environ["DATABASE_URL"], SOLID_OBJECTS_LIVE_MAX_SOCKETS=5000
    )
    solid = SolidObjects(app)

    @solid.actor
    class Board(Actor):
        number: int = attribute(0, observable=True)

        @operation
        def set(self, number: int) -> None:
            self.number = number

    @solid.viewer
    def viewer() -> str:
        return "everybody"

    @solid.authorize_query
    @solid.authorize_subscription
    def everybody(_access: Access) -> bool:
        return True

    @app.get("/")
    def page() -> str:
        return render_template("page.html", board=Board.ref("one"))

    @app.post("/set/<int:number>")
    def change(number: int) -> str:
        Board.ref("one").set(number=number)
        return repr(time.time())

    @app.get("/favicon.ico")
    def icon() -> tuple[str, int]:
        return "", 204

    return app


def main() -> None:
    server = make_server("127.0.0.1", int(sys.argv[1]), make_app(), threaded=True)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
