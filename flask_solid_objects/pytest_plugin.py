"""A pytest plugin: the fixture ``solid_objects`` gives a test the actors of its ``app``, with tables and without rows.

Loaded by pytest wherever the package is installed, so that it does nothing until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flask_solid_objects.errors import SchemaMissing
from flask_solid_objects.testing import Testing

_NEEDED = """The fixture solid_objects needs a fixture named `app`, which gives your Flask app:

    @pytest.fixture
    def app(tmp_path):
        return create_app({"SQLALCHEMY_DATABASE_URI": f"sqlite:///{tmp_path / 'test.sqlite3'}"})
"""


@pytest.fixture
def solid_objects(request: pytest.FixtureRequest) -> Iterator[Testing]:
    """``solid.testing`` of the app that the fixture ``app`` gives, in an app context; nothing is left afterwards."""
    app = _app(request)
    solid = app.extensions["solid_objects"].extension
    with app.app_context():
        testing = solid.testing
        testing.make_tables()
        yield testing
    # In a context of its own, since what the test's session left open is in the way.
    with app.app_context():
        try:
            testing.reset()
        except SchemaMissing:
            # The test, or its own fixture, has dropped the tables already.
            pass
        finally:
            testing.close()


def _app(request: pytest.FixtureRequest) -> Any:
    try:
        app = request.getfixturevalue("app")
    except pytest.FixtureLookupError as error:
        if error.argname != "app":
            raise
        pytest.fail(_NEEDED, pytrace=False)
    if "solid_objects" not in getattr(app, "extensions", {}):
        pytest.fail(
            f"The fixture `app` gives {app!r}, which has no SolidObjects: call solid.init_app(app) in it.",
            pytrace=False,
        )
    return app
