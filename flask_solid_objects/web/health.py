"""What a load balancer may ask: whether this process can work. It says three words, and nothing about what is in them.

The answer is kept for a second, so that asking often costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from flask import Blueprint, Response, json

from flask_solid_objects.errors import CommitUnknown, DatabaseDeadlineExceeded, SchemaMissing, SolidObjectsError
from flask_solid_objects.runtime.runtime import Runtime

_KEPT_SECONDS = 1.0
_READ_SECONDS = 2.0


class Health:
    """``<prefix>/health`` of one application.

    200 when the database answers and has the tables, otherwise 503. ``lag`` is "late" while a message has been due for
    longer than ``SOLID_OBJECTS_HEALTH_LAG``, which is for an alarm and takes no process out of service.
    """

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._answer: dict[str, str] = {}

    def register(self, blueprint: Blueprint) -> None:
        blueprint.add_url_rule("/health", "health", self.answer, methods=["GET"])

    def answer(self) -> Response:
        words = self._words()
        ok = words["database"] == "ok" and words["schema"] == "ok"
        status = {"status": "ok" if ok else "unavailable"} | words
        return Response(json.dumps(status), 200 if ok else 503, mimetype="application/json")

    def _words(self) -> dict[str, str]:
        now = self._runtime().core.seams.clock.monotonic()
        with self._lock:
            # One asks, the others get what it finds.
            if now - self._asked_at >= _KEPT_SECONDS:
                self._answer = self._look()
                self._asked_at = self._runtime().core.seams.clock.monotonic()
            return self._answer

    def _look(self) -> dict[str, str]:
        core = self._runtime().core
        limit = timedelta(seconds=core.settings.health_lag)
        try:
            oldest, now = core.database.read_within(_READ_SECONDS, core.store.overviews.oldest_due)
        except SchemaMissing:
            return {"database": "ok", "schema": "missing", "lag": "unknown"}
        except (DatabaseDeadlineExceeded, CommitUnknown):
            return {"database": "away", "schema": "unknown", "lag": "unknown"}
        except SolidObjectsError:
            return {"database": "unsupported", "schema": "unknown", "lag": "unknown"}
        late = oldest is not None and now - oldest > limit
        return {"database": "ok", "schema": "ok", "lag": "late" if late else "ok"}
