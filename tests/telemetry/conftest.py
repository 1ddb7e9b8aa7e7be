"""Apps on each database that listen to themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import URL

from flask_solid_objects.seams import Seams
from tests.telemetry.loud import LoudApp


@pytest.fixture
def app(database_url: URL, seams: Seams) -> Iterator[LoudApp]:
    """An app that listens at every outlet."""
    with LoudApp(database_url, seams=seams).ready(made=True) as ready:
        assert isinstance(ready, LoudApp)
        with ready.listening():
            yield ready
