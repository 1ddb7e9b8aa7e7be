"""The pages of the shop: one event, rendered by the server, with plain forms."""

from __future__ import annotations

import hmac
import secrets
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, abort, flash, redirect, render_template, request, session, url_for
from werkzeug.wrappers import Response

from example_app.actors import Event, EventView, Ledger, view_of
from example_app.orders import Order, db
from flask_solid_objects.errors import CallEnqueueTimeout, CallTimeout, Rejected

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
    return {"form_token": form_token}


@shop.app_template_filter("money")
def money(cents: int) -> str:
    return f"€ {cents / 100:,.2f}"


@shop.app_template_filter("hall_for")
def hall_for(event: Any, holder: str) -> EventView:
    """The whole hall as one visitor sees it; a hold that has run out counts as over, whoever cleans it up."""
    return view_of(event, holder, datetime.now(UTC))


@shop.get("/")
def index() -> Response:
    return redirect(url_for("shop.event", event_id="night-of-strings"))


@shop.get("/events/<event_id>")
def event(event_id: str) -> str:
    """The seat map, live: it follows every change of the event."""
    known = Event.ref(event_id).snapshot()
    if not known.title:
        abort(404, "There is no such event. Run `flask --app example_app seed`.")
    return render_template("shop/event.html", event_id=event_id, event=Event.ref(event_id), ledger=Ledger.ref(event_id))


@shop.get("/orders")
def orders() -> str:
    """What this browser has bought, from the shop's own table."""
    mine = db.session.scalars(db.select(Order).where(Order.holder == visitor()).order_by(Order.id.desc())).all()
    return render_template("shop/orders.html", orders=mine)


@shop.post("/events/<event_id>/hold")
def hold(event_id: str) -> Response:
    seat = request.form.get("seat", "")
    try:
        Event.ref(event_id).hold(seat=seat, holder=visitor())
    except Rejected as rejection:
        flash(rejection.message, "problem")
    return back(event_id)


@shop.post("/events/<event_id>/release")
def release(event_id: str) -> Response:
    Event.ref(event_id).release(seat=request.form.get("seat", ""), holder=visitor())
    return back(event_id)


@shop.post("/events/<event_id>/confirm")
def confirm(event_id: str) -> Response:
    """Have the held seats paid; the form's own key makes pressing twice harmless."""
    key = request.form.get("key", "")[:64] or None
    confirm = Event.ref(event_id).confirm.using(idempotency_key=f"confirm:{visitor()}:{key}")
    try:
        confirm(holder=visitor(), card=request.form.get("card", "")[:32])
    except Rejected as rejection:
        flash(rejection.message, "problem")
    return back(event_id)


@shop.app_errorhandler(CallTimeout)
@shop.app_errorhandler(CallEnqueueTimeout)
def busy(_error: Exception) -> tuple[str, int, dict[str, str]]:
    """The actor is behind others; nothing is lost, so the visitor is asked to look again."""
    return render_template("shop/busy.html"), 503, {"Retry-After": "2"}


def visitor() -> str:
    """A random name for this browser."""
    if "visitor" not in session:
        session["visitor"] = secrets.token_hex(8)
    return str(session["visitor"])


def form_token() -> str:
    if "token" not in session:
        session["token"] = secrets.token_urlsafe(24)
    return str(session["token"])


def back(event_id: str) -> Response:
    return redirect(url_for("shop.event", event_id=event_id), code=303)
