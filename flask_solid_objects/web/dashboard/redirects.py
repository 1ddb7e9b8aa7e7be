"""Addresses of the dashboard's own pages, whatever name and prefix its blueprint was registered with."""

from __future__ import annotations

from typing import Any

from flask import Response, url_for


def link(page: str, **values: Any) -> str:
    """The address of a page; values that are empty are left out of it."""
    return url_for(f".{page}", **{name: value for name, value in values.items() if value not in (None, "")})


def redirect_to(page: str, **values: Any) -> Response:
    """Go on to a page after a form; a reload of it presses no button again."""
    return Response(status=303, headers={"Location": link(page, **values)})
