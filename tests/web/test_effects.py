"""Effects of an app: their functions run in an app context, and may write to the app's database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import current_app, g, has_request_context
from sqlalchemy import URL, select

from flask_solid_objects import Actor, operation
from flask_solid_objects.values import EffectContext
from tests.apps import AppUnderTest


@pytest.fixture
def app(database_url: URL) -> Iterator[AppUnderTest]:
    with AppUnderTest(database_url).ready(made=True) as ready:
        yield ready


@pytest.fixture
def notes(app: AppUnderTest) -> Any:
    """An actor whose effect writes a row of the app, and hears what the effect saw."""

    @app.solid.effect
    def write_note(context: EffectContext, *, body: str) -> list[Any]:
        app.db.session.add(app.Note(body=body))
        app.db.session.commit()
        seen = [current_app.name, has_request_context(), "mark" in g]
        g.mark = True
        return seen

    @app.solid.actor
    class Notes(Actor):
        heard: list[Any] = []

        @operation
        def write(self, body: str) -> None:
            write_note.using(on_success=self.written).emit(body=body)

        @operation
        def written(self, result: list[Any]) -> None:
            self.heard.append(result)

    return Notes


def _settle(app: AppUnderTest) -> None:
    worker, effects = app.solid.runtime.worker(), app.solid.runtime.effect_worker()
    while worker.run_once() or effects.run_once():
        pass


def test_effect_writes_by_the_apps_session(app: AppUnderTest, notes: Any) -> None:
    """The function of an effect writes to the app's database through db.session."""
    notes.ref("a").write(body="x")
    _settle(app)

    assert list(app.db.session.execute(select(app.Note.body)).scalars()) == ["x"]


def test_effect_has_an_app_context_of_its_own(app: AppUnderTest, notes: Any) -> None:
    """Each run has a fresh app context, without any request or what an earlier run left in g."""
    for body in ("x", "y"):
        notes.ref("a").write(body=body)
    with app.app.test_request_context():
        _settle(app)

    assert notes.ref("a").snapshot().heard == [["app_under_test", False, False]] * 2
