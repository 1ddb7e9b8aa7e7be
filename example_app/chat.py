"""A chat room with presence: one actor, a page, and no JavaScript of its own.

Everybody in a room sees what is said and who is there as it happens. The page says every few seconds that it is still
open; a reminder takes out who has gone quiet.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from flask import Blueprint, abort, redirect, render_template, request, session, url_for
from werkzeug.wrappers import Response

from example_app.actors import solid
from example_app.shop import check_form, field, visitor
from flask_solid_objects import Actor, Rejected, attribute, observable, operation

GONE_AFTER = timedelta(seconds=30)
KEPT, LONGEST = 100, 500

chat = Blueprint("chat", __name__, template_folder="templates")
chat.before_request(check_form)


@dataclass
class Line:
    """One thing that was said."""

    who: str
    name: str
    text: str
    at: datetime


@solid.actor
class ChatRoom(Actor):
    """One room: what was said last, and who is there."""

    lines: list[Line] = attribute(default_factory=list, observable=True)
    names: dict[str, str] = attribute(default_factory=dict, observable=True)
    seen: dict[str, datetime] = attribute(default_factory=dict)

    @observable(broadcast="value")
    def people(self) -> int:
        return len(self.names)

    @operation
    def here(self, who: str, name: str) -> None:
        """Somebody's page is open; looks later whether it still is."""
        self.names[who] = name
        self.seen[who] = self.context.now
        self.sweep.using(delay=GONE_AFTER, key=who).schedule()

    @operation
    def say(self, who: str, name: str, text: str) -> None:
        text = text.strip()
        if not text:
            raise Rejected("empty", "Write something first.")
        self.here(who, name)
        self.lines = [*self.lines, Line(who, name, text[:LONGEST], self.context.now)][-KEPT:]

    @operation
    def sweep(self) -> None:
        """Take out everybody whose page has been silent for too long."""
        for who, at in list(self.seen.items()):
            if self.context.now - at >= GONE_AFTER:
                del self.seen[who]
                self.names.pop(who, None)


@chat.get("/chat/<room>")
def show(room: str) -> str:
    """The room, or the question for a name."""
    if not room.isalnum() or len(room) > 40:
        abort(404)
    if "name" not in session:
        return render_template("chat/room.html", room=None, room_id=room)
    ChatRoom.ref(room).here.send(who=visitor(), name=_name())
    return _page(room)


@chat.post("/chat/<room>/join")
def join(room: str) -> Response:
    """Take a name for this browser."""
    name = "".join(letter for letter in field("name", 40) if letter.isprintable())
    session["name"] = name.strip() or "Somebody"
    return redirect(url_for("chat.show", room=room), code=303)


@chat.post("/chat/<room>/say")
def say(room: str) -> str | Response:
    """Say something. The answer is the empty form; the room itself refetches like everybody else's."""
    problem = ""
    try:
        ChatRoom.ref(room).say(who=visitor(), name=_name(), text=field("text", LONGEST))
    except Rejected as rejection:
        problem = rejection.message
    if "HX-Request" in request.headers:
        return render_template("chat/say.html", room_id=room, problem=problem)
    return _page(room, problem) if problem else redirect(url_for("chat.show", room=room), code=303)


@chat.post("/chat/<room>/here")
def here(room: str) -> tuple[str, int]:
    """The page is still open."""
    ChatRoom.ref(room).here(who=visitor(), name=_name())
    return "", 204


def _name() -> str:
    name = session.get("name")
    if not isinstance(name, str):
        abort(403)
    return name


def _page(room: str, problem: str = "") -> str:
    return render_template("chat/room.html", room=ChatRoom.ref(room), room_id=room, problem=problem)
