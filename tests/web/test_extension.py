"""The extension in Flask apps: factories, several apps, binds, contexts, and nothing opened too early."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flask
import pytest
from flask import Flask
from sqlalchemy import URL, event
from sqlalchemy.engine import Engine

from flask_solid_objects import SolidObjects
from flask_solid_objects.errors import InvalidSettings, NotInitialized, SchemaMissing, Unauthorized
from flask_solid_objects.runtime.runtime import RoleCounts
from flask_solid_objects.store.schema import upgrade
from flask_solid_objects.values import Access
from tests.apps import AppUnderTest


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    with AppUnderTest(database_url).ready(made=True) as ready:
        yield ready


def test_app_calls_its_actors(app: AppUnderTest) -> None:
    """An app calls, sends, and runs a worker pass, all on its own database."""
    counter = app.Counter.ref("a")
    message = counter.increment.send(amount=5)

    assert app.solid.runtime.worker().run_once() is True
    assert message.result() == 5
    assert counter.increment() == 6
    assert app.solid.messages.find(request_id=message.request_id).id == message.id


def test_creating_an_app_opens_nothing(tmp_path: Path) -> None:
    """No connection is opened and no thread started by making an app, or references."""
    opened: list[Any] = []
    listen = lambda connection, _record: opened.append(connection)  # noqa: E731
    event.listen(Engine, "connect", listen)
    before = threading.active_count()
    try:
        under_test = AppUnderTest(URL.create("sqlite", database=str(tmp_path / "x.sqlite3")))
        with under_test.app.app_context():
            under_test.Counter.ref("a")
    finally:
        event.remove(Engine, "connect", listen)

    assert opened == []
    assert threading.active_count() == before


def test_actor_code_sees_no_request(app: AppUnderTest) -> None:
    """A turn sees neither the request nor g of its caller, so that it is the same in a worker."""
    with app.app.test_request_context():
        flask.g.mark = True
        seen = app.Counter.ref("a").sees()

    assert seen == {"request": False, "g": False}


def test_two_apps_have_two_runtimes(tmp_path: Path) -> None:
    """Two apps in one process, each with its own database, do not see each other's actors."""
    urls = [URL.create("sqlite", database=str(tmp_path / f"{number}.sqlite3")) for number in range(2)]
    with AppUnderTest(urls[0]).ready() as one:
        assert one.Counter.ref("a").increment(amount=7) == 7
        with AppUnderTest(urls[1]).ready() as two:
            assert two.Counter.ref("a").increment() == 1
            with pytest.raises(NotInitialized, match="another one"):
                one.Counter.ref("a").increment()
        assert one.Counter.ref("a").value == 7


def test_one_extension_serves_several_apps(tmp_path: Path) -> None:
    """One SolidObjects, initialised on two apps, uses the database of the current one."""
    solid = SolidObjects()
    first = AppUnderTest(URL.create("sqlite", database=str(tmp_path / "a.sqlite3")))
    solid = first.solid
    second = Flask("second")
    second.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{tmp_path / 'b.sqlite3'}"
    solid.init_app(second)
    with first.ready():
        first.Counter.ref("a").increment(amount=3)
        with second.app_context():
            upgrade(solid.runtime.core.database.engine, "solid_objects_")
            assert first.Counter.ref("a").increment() == 1
            solid.runtime.close()
        assert first.Counter.ref("a").value == 3


def test_app_without_flask_sqlalchemy_uses_the_instance_folder(tmp_path: Path) -> None:
    """Without Flask-SQLAlchemy and without a URI, a SQLite file in the instance folder holds the actors."""
    app = Flask("plain", instance_path=str(tmp_path))
    solid = SolidObjects(app)
    with app.app_context():
        upgrade(solid.runtime.core.database.engine, "solid_objects_")
        solid.runtime.close()

    assert (tmp_path / "solid_objects.sqlite3").exists()


def test_tables_in_another_bind_and_under_another_prefix(tmp_path: Path, blank_database_url: URL) -> None:
    """SOLID_OBJECTS_BIND_KEY and SOLID_OBJECTS_TABLE_PREFIX choose the place of the tables."""
    under_test = AppUnderTest(
        URL.create("sqlite", database=str(tmp_path / "app.sqlite3")),
        SQLALCHEMY_BINDS={"actors": blank_database_url.render_as_string(hide_password=False)},
        SOLID_OBJECTS_BIND_KEY="actors",
        SOLID_OBJECTS_TABLE_PREFIX="mine_",
    )
    with under_test.ready():
        assert under_test.Counter.ref("a").increment() == 1
        assert under_test.solid.runtime.core.database.url.database == blank_database_url.database
        assert "mine_instances" in under_test.db.metadatas["actors"].tables
        assert "mine_instances" not in under_test.db.metadatas[None].tables


def test_in_memory_database_serves_callers_only() -> None:
    """An in-memory SQLite database is the app's own connection; roles refuse it with the remedy."""
    with AppUnderTest(URL.create("sqlite", database=":memory:")).ready() as app:
        assert app.Counter.ref("a").increment() == 1
        threads = [threading.Thread(target=_increment, args=(app,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert app.Counter.ref("a").value == 5
        assert app.Counter.ref("a").destroy() is True
        with pytest.raises(InvalidSettings, match="in memory"):
            app.solid.runtime.supervisor(RoleCounts(workers=1, effects=0, reminders=0, broadcasts=0))


def _increment(app: AppUnderTest) -> None:
    with app.app.app_context():
        app.Counter.ref("a").increment()


def test_outside_a_context_the_error_says_what_to_do() -> None:
    """A verb outside an application context names the remedy."""
    under_test = AppUnderTest(URL.create("sqlite", database=":memory:"))
    with pytest.raises(NotInitialized, match="app_context"):
        under_test.Counter.ref("a").increment()


def test_second_registration_is_refused() -> None:
    """An app takes one SolidObjects."""
    under_test = AppUnderTest(URL.create("sqlite", database=":memory:"))
    with pytest.raises(RuntimeError, match="already"):
        SolidObjects(under_test.app)


def test_missing_tables_name_both_commands(blank_database_url: URL) -> None:
    """Without tables, the first use says how to make them."""
    under_test = AppUnderTest(blank_database_url)
    with under_test.app.app_context():
        with pytest.raises(SchemaMissing, match=r"flask solid upgrade.*flask db upgrade"):
            under_test.Counter.ref("a").increment()
        under_test.solid.runtime.close()


def test_tables_are_made_from_code(blank_database_url: URL) -> None:
    """A command of the app's own makes the tables by solid.upgrade(), which may run again."""
    under_test = AppUnderTest(blank_database_url)
    with under_test.app.app_context():
        under_test.solid.upgrade()
        under_test.solid.upgrade()
        value = under_test.Counter.ref("a").increment(amount=3)
        under_test.solid.runtime.close()

    assert value == 3


def test_policies_are_asked_with_the_stored_arguments(app: AppUnderTest) -> None:
    """A registered policy sees one Access per act, with the arguments as they would be stored, and may deny."""
    asked: list[Access] = []

    @app.solid.authorize_message
    def only_small(access: Access) -> bool:
        asked.append(access)
        return access.arguments is not None and access.arguments.get("amount", 1) < 10

    counter = app.Counter.ref("a")
    message = counter.increment.using(context="me").send(amount=2)
    with pytest.raises(Unauthorized):
        counter.increment(amount=10)

    assert counter.value == 2 or message.wait() == 2
    assert (asked[0].action, asked[0].operation, asked[0].arguments, asked[0].context) == (
        "call",
        "increment",
        {"amount": 2},
        "me",
    )
    app.solid.authorize_message(lambda access: access.context == "me")
    with pytest.raises(Unauthorized):
        message.status()
    assert message.outcome(context="me").attempts in (0, 1)


def test_strict_policies_deny_server_code(tmp_path: Path) -> None:
    """With strict policies an act without a policy is denied, naming the decorator; nothing is written."""
    url = URL.create("sqlite", database=str(tmp_path / "strict.sqlite3"))
    with AppUnderTest(url, SOLID_OBJECTS_STRICT_POLICIES=True).ready() as app:
        for act in (
            lambda: app.Counter.ref("a").increment(),
            app.Counter.ref("a").increment.send,
            lambda: app.Counter.ref("a").value,
            lambda: app.Counter.ref("a").snapshot(),
            lambda: app.Counter.ref("a").destroy(),
            app.solid.runtime.operators.actors,
        ):
            with pytest.raises(Unauthorized, match="@solid.authorize_"):
                act()
        app.solid.authorize_administration(lambda access: True)

        assert app.solid.runtime.operators.actors() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_child_has_its_own_runtime(app: AppUnderTest) -> None:
    """A child that was forked from a used app calls with connections and an identity of its own."""
    counter = app.Counter.ref("a")
    counter.increment()
    child = os.fork()
    if child == 0:
        try:
            ok = counter.increment() == 2
            app.solid.runtime.close()
            os._exit(0 if ok else 1)
        except BaseException:
            os._exit(2)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert counter.increment() == 3
