"""Who may see and watch what, in live views: everything here is public, and each visitor is the browser's session."""

from __future__ import annotations

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
