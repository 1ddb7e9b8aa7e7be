"""An application with Flask-Migrate sees no difference, whichever way its tables came about and in whichever bind."""

from __future__ import annotations

import logging.config
from collections.abc import Callable
from pathlib import Path

import flask_migrate  # type: ignore[import-untyped]
import pytest
from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import URL, Engine, inspect

from flask_solid_objects.store.schema import check, downgrade, upgrade
from flask_solid_objects.store.tables import build_tables

MakeURL = Callable[[], URL]

# Flask-Migrate's own environment asks Flask-SQLAlchemy the old way first.
pytestmark = pytest.mark.filterwarnings("ignore:'get_engine' is deprecated:DeprecationWarning")

BINDS = pytest.mark.parametrize("bind", [None, "actors"])


@pytest.fixture(autouse=True)
def _keep_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flask-Migrate's environment would set up logging anew for the whole test process."""
    monkeypatch.setattr(logging.config, "fileConfig", lambda *_args, **_options: None)


class Host:
    """An application with a table of its own, whose tables for actors lie in one of its binds."""

    def __init__(self, url: URL, bind: str | None, folder: Path) -> None:
        self.bind = bind
        self.folder = folder / "migrations"
        self.app = Flask("host")
        text = url.render_as_string(hide_password=False)
        if bind is None:
            self.app.config["SQLALCHEMY_DATABASE_URI"] = text
        else:
            self.app.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{folder / 'default.db'}"
            self.app.config["SQLALCHEMY_BINDS"] = {bind: text}
        self.db = SQLAlchemy(self.app)
        self.db.Table("note", self.db.Column("id", self.db.Integer, primary_key=True))
        build_tables(self.db.metadatas[bind])
        # Stricter than the default, which does not look at defaults.
        Migrate(
            self.app,
            self.db,
            directory=str(self.folder),
            compare_server_default=True,
            # Its own would outlive `migrate` on this app and leave `check` without an answer.
            process_revision_directives=lambda *_: None,
        )

    @property
    def engine(self) -> Engine:
        return self.db.engines[self.bind]

    def close(self) -> None:
        for engine in self.db.engines.values():
            engine.dispose()

    def has_difference(self) -> bool:
        """Ask `flask db check`, which ends the process when autogenerate would write something."""
        try:
            flask_migrate.check()
        except SystemExit:
            return True
        return False


@pytest.fixture
def make_host(make_url: MakeURL, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str | None], Host]:
    def make(bind: str | None) -> Host:
        host = Host(make_url(), bind, tmp_path)
        context = host.app.app_context()
        context.push()
        request.addfinalizer(context.pop)
        request.addfinalizer(host.close)
        flask_migrate.init(multidb=bind is not None)
        return host

    return make


@BINDS
def test_no_difference_after_our_upgrade(make_host: Callable[[str | None], Host], bind: str | None) -> None:
    """Tables of our own migrations need nothing from the application's."""
    host = make_host(bind)
    assert host.has_difference()

    upgrade(host.engine)
    host.db.create_all()

    assert not host.has_difference()


@BINDS
def test_no_difference_after_the_applications_migration(
    make_host: Callable[[str | None], Host], bind: str | None
) -> None:
    """The application's own migration makes tables that are right, that we adopt, and that stay right."""
    host = make_host(bind)

    flask_migrate.migrate(message="first")
    flask_migrate.upgrade()

    assert not host.has_difference()
    assert check(host.engine).problems == ()

    upgrade(host.engine)

    assert not host.has_difference()


@BINDS
def test_the_applications_migration_can_be_undone(make_host: Callable[[str | None], Host], bind: str | None) -> None:
    """What `flask db migrate` has written also runs backwards."""
    host = make_host(bind)
    if host.engine.dialect.name in ("mysql", "mariadb"):
        pytest.skip("Alembic drops indexes before their tables, which no foreign key there allows")
    flask_migrate.migrate(message="first")
    flask_migrate.upgrade()

    flask_migrate.downgrade()

    assert "solid_objects_instances" not in inspect(host.engine).get_table_names()


@BINDS
def test_create_all_makes_right_tables(make_host: Callable[[str | None], Host], bind: str | None) -> None:
    """Tables of `db.create_all()` are adopted too, and can be downgraded afterwards."""
    host = make_host(bind)
    host.db.create_all()

    upgrade(host.engine)

    assert check(host.engine).ok
    assert not host.has_difference()

    downgrade(host.engine)

    assert host.has_difference()
