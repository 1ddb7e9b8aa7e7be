"""Who may see, watch and operate what: the pages are public, and each visitor is the browser's session."""

from __future__ import annotations

from flask import has_request_context, request

from example_app.actors import solid
from example_app.shop import visitor
from flask_solid_objects import Access

_PUBLIC = {"Event", "Ledger", "ChatRoom", "Customer"}


@solid.viewer
def viewer() -> str:
    return visitor()


@solid.authorize_query
def may_see(access: Access) -> bool:
    """Pages and refetches ask this; calls of the shop's own code do, too."""
    return access.actor_type in _PUBLIC


@solid.authorize_subscription
def may_watch(access: Access) -> bool:
    return access.actor_type in _PUBLIC


@solid.authorize_administration
def may_operate(access: Access) -> bool:
    """Whoever sits at this machine operates the example; an application asks who is logged in."""
    return not has_request_context() or request.remote_addr in ("127.0.0.1", "::1")
