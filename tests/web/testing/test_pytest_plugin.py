"""The pytest plugin, in a pytest of its own on a project that uses it, and on one that does not."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLUGIN = "flask_solid_objects.pytest_plugin"

CONFTEST = """
    import pytest
    from shop import create_app

    @pytest.fixture(scope=SCOPE)
    def app(tmp_path_factory):
        return create_app(URI.format(tmp_path_factory.mktemp("db") / "test.sqlite3"))
"""
SHOP = """
    from flask import Flask
    from flask_sqlalchemy import SQLAlchemy
    from flask_solid_objects import Actor, SolidObjects, operation

    solid = SolidObjects()

    @solid.actor
    class Cart(Actor):
        items: int = 0

        @operation
        def add(self) -> int:
            self.items += 1
            return self.items

    def create_app(uri):
        app = Flask("shop")
        app.config["SQLALCHEMY_DATABASE_URI"] = uri
        SQLAlchemy(app)
        solid.init_app(app)
        return app
"""
TESTS = """
    from shop import Cart

    def test_add(solid_objects):
        Cart.ref("a").add.send()
        solid_objects.drain()
        assert 1 == Cart.ref("a").snapshot().items

    def test_add_again(solid_objects):
        assert 1 == Cart.ref("a").add()
"""


class Project:
    """A project of a user, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str, **values: str) -> None:
        for key, value in values.items():
            text = text.replace(key, repr(value))
        (self.folder / name).write_text(textwrap.dedent(text))

    def test(self, *arguments: str) -> tuple[int, str]:
        """Run pytest there with this plugin and no other; the exit code and what it said."""
        command = [sys.executable, "-W", "error", "-m", "pytest", "-W", "error", "-p", PLUGIN, *arguments]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("shop.py", SHOP)
    made.write("test_shop.py", TESTS)
    return made


def test_it_is_found_by_pytest() -> None:
    """The package tells pytest where its plugin is."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]

    assert found == {"flask_solid_objects": PLUGIN}


@pytest.mark.parametrize("uri", ["sqlite:///{}", "sqlite:///:memory:"], ids=["file", "memory"])
@pytest.mark.parametrize("scope", ["function", "session"])
def test_one_line_is_enough(project: Project, uri: str, scope: str) -> None:
    """With a fixture `app` each test finds tables without rows, and no warning is given."""
    project.write("conftest.py", CONFTEST, URI=uri, SCOPE=scope)
    code, said = project.test()

    assert (code, "2 passed" in said) == (0, True), said


def test_what_a_test_leaves_open_is_not_in_the_way(project: Project) -> None:
    """A session that a test has left in the middle of its work does not disturb the end."""
    project.write("conftest.py", CONFTEST, URI="sqlite:///{}", SCOPE="session")
    tests = """
        def test_leaves_work(app, solid_objects):
            from sqlalchemy import text
            session = app.extensions["sqlalchemy"].session
            session.execute(text("CREATE TABLE note (id INTEGER)"))
            session.execute(text("INSERT INTO note VALUES (1)"))
    """
    project.write("test_open.py", tests)
    code, said = project.test()

    assert (code, "3 passed" in said) == (0, True), said


def test_dropped_tables_are_made_again(project: Project) -> None:
    """A test may drop the tables; the next one has them."""
    project.write("conftest.py", CONFTEST, URI="sqlite:///{}", SCOPE="session")
    tests = """
        def test_drops(app, solid_objects):
            app.extensions["sqlalchemy"].drop_all()
    """
    project.write("test_drops.py", tests)
    code, said = project.test("test_drops.py", "test_shop.py")

    assert (code, "3 passed" in said) == (0, True), said


def test_without_an_app(project: Project) -> None:
    """Without a fixture `app` it says what is missing and shows one."""
    code, said = project.test("-k", "again")

    assert code == 1
    assert "needs a fixture named `app`" in said
    assert "def app(tmp_path):" in said


def test_an_app_that_lacks_a_fixture(project: Project) -> None:
    """What the fixture `app` itself lacks is reported under its own name."""
    project.write("conftest.py", "import pytest\n\n@pytest.fixture\ndef app(other):\n    pass\n")
    code, said = project.test("-k", "again")

    assert (code, "fixture 'other' not found" in said) == (1, True), said


def test_an_app_without_actors(project: Project) -> None:
    """An app that has no SolidObjects is named."""
    project.write(
        "conftest.py", "import flask, pytest\n\n@pytest.fixture\ndef app():\n    return flask.Flask('bare')\n"
    )
    code, said = project.test("-k", "again")

    assert (code, "<Flask 'bare'>, which has no SolidObjects" in said) == (1, True), said


def test_a_project_that_does_not_use_it(project: Project) -> None:
    """Where nobody asks for the fixture nothing is imported from the project, started or warned of."""
    tests = """
        import sys, threading

        def test_nothing_happened():
            assert "shop" not in sys.modules
            assert 1 == threading.active_count()
    """
    project.write("test_shop.py", tests)
    code, said = project.test()

    assert (code, "1 passed" in said) == (0, True), said
