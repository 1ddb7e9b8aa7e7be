"""The site of these tests as a real server loads it; the database comes from the environment."""

from __future__ import annotations

import os

from flask import Flask
from sqlalchemy import make_url

from tests.web.live.site import Site


def make() -> Flask:
    site = Site(make_url(os.environ["SITE_URL"]))

    @site.app.post("/say/<text>")
    def say(text: str) -> str:
        site.Room.ref("lobby").say(text=text)
        return "said"

    return site.app
