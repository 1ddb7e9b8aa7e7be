"""The token that every form of the dashboard carries, so that no other site can press its buttons.

A random secret is kept in the signed session; each page shows it under a fresh mask, so that compressed answers do not
give it away byte by byte. It stands beside Flask-WTF's own token where an application uses that (hazard H109).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets

from flask import request, session

FIELD = "solid_token"
_KEY = "_solid_dashboard"
_BYTES = 32


def form_token() -> str:
    """The secret of this session, masked anew."""
    secret = _secret() or _new_secret()
    mask = secrets.token_bytes(_BYTES)
    return base64.urlsafe_b64encode(mask + _xor(mask, secret)).decode()


def is_ours() -> bool:
    """Whether this request carries the token of its session."""
    secret = _secret()
    if secret is None:
        return False
    try:
        given = base64.urlsafe_b64decode(request.form.get(FIELD, "").encode("ascii"))
    except (ValueError, binascii.Error):
        return False
    return len(given) == 2 * _BYTES and hmac.compare_digest(_xor(given[:_BYTES], given[_BYTES:]), secret)


def _secret() -> bytes | None:
    stored = session.get(_KEY)
    try:
        secret = base64.urlsafe_b64decode(stored) if isinstance(stored, str) else b""
    except (ValueError, binascii.Error):
        return None
    return secret if len(secret) == _BYTES else None


def _new_secret() -> bytes:
    secret = secrets.token_bytes(_BYTES)
    session[_KEY] = base64.urlsafe_b64encode(secret).decode()
    return secret


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
