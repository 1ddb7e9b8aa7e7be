"""Which pages may open a socket."""

from __future__ import annotations

import pytest

from flask_solid_objects.web.origins import is_allowed


@pytest.mark.parametrize(
    ("origin", "scheme", "host"),
    [
        ("https://site.example", "https", "site.example"),
        ("https://SITE.example", "https", "site.example"),
        ("https://site.example", "https", "Site.Example"),
        ("https://site.example:443", "https", "site.example"),
        ("http://site.example", "http", "site.example:80"),
        ("http://site.example:5000", "http", "site.example:5000"),
        ("http://[::1]:5000", "http", "[::1]:5000"),
        ("https://partner.example", "http", "site.example"),
        ("https://partner.example:443", "http", "site.example"),
    ],
)
def test_the_same_origin_however_it_is_spelt(origin: str, scheme: str, host: str) -> None:
    """Letter case and the usual port make no difference; what the settings name is taken too."""
    assert is_allowed(origin, scheme=scheme, host=host, others=["https://partner.example"])


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "https://site.example:444",
        "http://site.example",
        "http://site.example:443",
        "https://evil.example",
        "https://site.example.evil.example",
        "https://sub.site.example",
        "https://site.example@evil.example",
        "https://user@site.example",
        "https://user:pass@site.example",
        "https://site.example/path",
        "https://site.example?x",
        "https://site.example#x",
        "https://site.example:port",
        "https://site.example:99999",
        "https://[site.example",
        "//site.example",
        "site.example",
        "wss://site.example",
        "file://",
        "https://partner.example:8443",
        "https://site.example https://site.example",
    ],
)
def test_any_other_origin_is_refused(origin: str) -> None:
    """Another scheme, host or port, a user's name, a path, or what is no origin at all."""
    assert not is_allowed(
        origin, scheme="https", host="site.example", others=["https://partner.example", "not an origin"]
    )
