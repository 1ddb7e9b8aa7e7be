"""App factories: extensions at module level, initialised in any order, for one app after the other."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import sqlalchemy
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from flask_solid_objects import Actor, SolidObjects, operation
from flask_solid_objects.errors import CallInsideTransaction, MessageFailed
from flask_solid_objects.store.schema import upgrade


def test_flask_sqlalchemy_may_come_later(tmp_path: Path) -> None:
    """A db that is initialised after the extension is found: its metadata joined, session watched, engine guarded."""
    app, db, solid = Flask("later", instance_path=str(tmp_path)), SQLAlchemy(), SolidObjects()
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite:///later.sqlite3"
    note = db.Table("note", sqlalchemy.Column("id", sqlalchemy.Integer))

    @solid.actor
    class Writer(Actor):
        @operation
        def write(self) -> None:
            db.session.execute(note.insert().values(id=1))

    solid.init_app(app)
    db.init_app(app)
    with app.app_context():
        assert "solid_objects_instances" in db.metadata.tables
        db.create_all()
        db.session.execute(note.insert().values(id=1))
        with pytest.raises(CallInsideTransaction):
            Writer.ref("a").write()
        db.session.rollback()
        with pytest.raises(MessageFailed, match="ApplicationWriteForbidden"):
            Writer.ref("a").write()
        solid.runtime.close()
        db.engine.dispose()


def test_db_of_the_constructor_serves_init_app(tmp_path: Path) -> None:
    """SolidObjects(db=db) remembers it, with the connect options that db itself was made with."""
    db = SQLAlchemy(engine_options={"connect_args": {"timeout": 3}})
    app, solid = Flask("given", instance_path=str(tmp_path)), SolidObjects(db=db)
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite:///given.sqlite3"
    solid.init_app(app)

    assert "solid_objects_instances" in db.metadata.tables
    db.init_app(app)
    with app.app_context():
        assert solid.runtime.core.database.connect_args == {"timeout": 3}
        solid.runtime.close()


def test_app_factory_runs_once_per_test(tmp_path: Path) -> None:
    """One db and one extension at module level serve an app after the other, and keep none of them alive."""
    db, solid = SQLAlchemy(), SolidObjects()
    apps = []
    for number in range(2):
        app = Flask("made", instance_path=str(tmp_path))
        app.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{number}.sqlite3"
        solid.init_app(app)
        if number:
            db.init_app(app)
            with app.app_context():
                upgrade(solid.runtime.core.database.engine, "solid_objects_")
                assert solid.instances.active("Counter") == []
                solid.runtime.close()
                db.engine.dispose()
        apps.append(weakref.ref(app))
    del app
    gc.collect()

    assert [reference() for reference in apps] == [None, None]
