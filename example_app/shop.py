"""The pages of the shop: one event, rendered by the server, with plain forms."""

from __future__ import annotations

import hmac
import re
import secrets
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, abort, flash, redirect, render_template, request, session, url_for
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.wrappers import Response

from example_app.actors import Event, Ledger
from example_app.hall import HallView, hall_of
from example_app.orders import Order, db
from example_app.payments import CARDS
from flask_solid_objects import Rejected
from flask_solid_objects.errors import (
    CallEnqueueTimeout,
    CallTimeout,
    IdempotencyConflict,
    InvalidActorId,
    InvalidPayload,
)

shop = Blueprint("shop", __name__, template_folder="templates", static_folder="static", static_url_path="/shop-static")


@shop.before_request
def check_form() -> None:
    """A form must carry the token of this browser's session, which no other site can read."""
    if request.method == "POST":
        given = request.form.get("token", "")
        if not hmac.compare_digest(given.encode(), form_token().encode()):
            abort(403, "This form is out of date. Open the page again and repeat what you did.")


@shop.app_context_processor
def form_values() -> dict[str, object]:
    return {"form_token": form_token, "new_key": lambda: secrets.token_hex(8), "cards": CARDS}


@shop.app_template_filter("money")
def money(cents: int) -> str:
    return f"€ {cents / 100:,.2f}"


@shop.app_template_filter("hall_for")
def hall_for(event: Any, holder: str) -> HallView:
    """The whole hall as one visitor sees it; a hold that has run out counts as over, whoever cleans it up."""
    return hall_of(event, holder, datetime.now(UTC))


@shop.get("/")
def index() -> Response:
    return redirect(url_for("shop.event", event_id="night-of-strings"))


@shop.get("/events/<event_id>")
def event(event_id: str) -> str:
    """The seat map, live: it follows every change of the event."""
    return render_template("shop/event.html", event_id=event_id, event=known(event_id), ledger=Ledger.ref(event_id))


@shop.get("/orders")
def orders() -> str:
    """What this browser has bought, from the shop's own table."""
    mine = db.session.scalars(db.select(Order).where(Order.holder == visitor()).order_by(Order.id.desc())).all()
    return render_template("shop/orders.html", orders=mine)


@shop.post("/events/<event_id>/hold")
def hold(event_id: str) -> Response:
    """Hold a seat; a form that is sent again, even after the seat was given back, changes nothing."""
    seat = field("seat", 8)
    hold = known(event_id).hold.using(idempotency_key=form_key("hold", seat))
    try:
        hold(seat=seat, holder=visitor())
    except Rejected as rejection:
        flash(rejection.message, "problem")
    return back(event_id)


@shop.post("/events/<event_id>/release")
def release(event_id: str) -> Response:
    known(event_id).release(seat=field("seat", 8), holder=visitor())
    return back(event_id)


@shop.post("/events/<event_id>/confirm")
def confirm(event_id: str) -> Response:
    """Have the held seats paid; the form's key makes pressing twice harmless."""
    confirm = known(event_id).confirm.using(idempotency_key=form_key("confirm"))
    try:
        confirm(holder=visitor(), card=field("card", 32))
    except IdempotencyConflict:
        flash("These seats are being paid with another card.", "problem")
    except Rejected as rejection:
        flash(rejection.message, "problem")
    return back(event_id)


@shop.app_errorhandler(HTTPException)
def problem(error: HTTPException) -> tuple[str, int]:
    """Errors look like every other page."""
    return render_template("shop/problem.html", title=error.name, text=error.description), error.code or 500


@shop.app_errorhandler(InvalidActorId)
def nowhere(_error: Exception) -> tuple[str, int]:
    """An address with a name that no actor can have."""
    return problem(NotFound("There is no such page."))


@shop.app_errorhandler(InvalidPayload)
def nonsense(_error: Exception) -> tuple[str, int]:
    """A form with something in it that no actor takes, such as a NUL character; no page of ours sends that."""
    return "This form holds something that cannot be stored.", 400


@shop.app_errorhandler(CallTimeout)
@shop.app_errorhandler(CallEnqueueTimeout)
def busy(_error: Exception) -> tuple[str, int, dict[str, str]]:
    """The actor is behind others; nothing is lost, so the visitor is asked to look again."""
    text = "Many people are choosing seats right now. What you did is not lost."
    return render_template("shop/problem.html", title="One moment", text=text), 503, {"Retry-After": "2"}


def known(event_id: str) -> Event:
    """The event, when it is on sale: an address that somebody made up must not make an actor."""
    event = Event.ref(event_id)
    if not event.snapshot().title:
        abort(404, "There is no such event. Run `flask --app example_app seed`.")
    return event


def field(name: str, longest: int) -> str:
    """What a form says, cut to a length."""
    return request.form.get(name, "")[:longest]


def visitor() -> str:
    """A random name for this browser."""
    if "visitor" not in session:
        session["visitor"] = secrets.token_hex(8)
    return str(session["visitor"])


def form_token() -> str:
    if "token" not in session:
        session["token"] = secrets.token_urlsafe(24)
    return str(session["token"])


def form_key(*act: str) -> str | None:
    """The idempotency key of the form that was sent: the key that the page gave it, for this browser and this act."""
    key = ":".join((*act, visitor(), request.form.get("key", "")))
    return key if re.fullmatch(r"[\w:]+:[0-9a-f]{1,32}", key) else None


def back(event_id: str) -> Response:
    return redirect(url_for("shop.event", event_id=event_id), code=303)
