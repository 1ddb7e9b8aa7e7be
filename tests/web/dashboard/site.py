"""An app with a dashboard, actors that fail in every way, and operators with browsers of their own."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import flask
from sqlalchemy import URL, Executable
from werkzeug.test import TestResponse

from flask_solid_objects import Access
from flask_solid_objects.seams import Seams
from tests.apps import AppUnderTest
from tests.web.dashboard.actors import Account, charge
from tests.web.dashboard.html import Form, Html

PREFIX = "/admin/solid"


class DashboardSite(AppUnderTest):
    """``asked`` holds every question to the administration policy; ``rights`` answers it: all, read or none."""

    def __init__(self, url: URL, *, seams: Seams | None = None, mount: bool = True, **config: Any) -> None:
        super().__init__(url, seams=seams, **{"TESTING": True, "SOLID_OBJECTS_MAX_ATTEMPTS": 1} | config)
        solid = self.solid
        self.asked: list[Access] = []
        self.rights = "all"

        effect = solid.effect(charge)
        self.Account: Any = type("Account", (Account,), {"__module__": __name__, "charge": effect})
        solid.actor(self.Account)
        solid.viewer(lambda: str(flask.session.get("user") or "nobody"))
        solid.authorize_administration(self._allows)

        @self.app.get("/login/<user>")
        def login(user: str) -> str:
            flask.session["user"] = user
            return "in"

        # As a server does it: no request sees the application context of the test, or its ``g``.
        serve = self.app.wsgi_app
        self.app.wsgi_app = lambda *given: contextvars.Context().run(serve, *given)  # type: ignore[method-assign]
        if mount:
            self.app.register_blueprint(solid.dashboard())

    def _allows(self, access: Access) -> bool:
        self.asked.append(access)
        return self.rights == "all" or (self.rights == "read" and access.is_read)

    def remove_policy(self) -> None:
        del self.solid._policies["administration"]

    # -- the database -------------------------------------------------------------------------

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        with self.db.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(self.db.text(statement), values)]

    def execute(self, statement: str, **values: Any) -> None:
        with self.db.engine.begin() as connection:
            connection.execute(self.db.text(statement), values)

    def change(self, statement: Executable) -> None:
        """Run a statement of SQLAlchemy, which writes times and truth values as each database has them."""
        with self.db.engine.begin() as connection:
            connection.execute(statement)

    def acts(self) -> list[tuple[str, str, str, str]]:
        """Action, kind, subject and operator of each event."""
        statement = "SELECT action, kind, subject_id, actor FROM solid_objects_administration_events ORDER BY id"
        return [(row[0], row[1], row[2], row[3]) for row in self.rows(statement)]

    def everything(self) -> dict[str, int]:
        """How many rows each table has, and what operators did."""
        names = [table.name for table in self.solid.runtime.core.store.administration._tables.all]
        return {name: self.rows(f"SELECT count(*) FROM {name}")[0][0] for name in names}

    def drain(self) -> None:
        """Run what waits, errors of the actors left alone."""
        runtime = self.solid.runtime
        roles = [runtime.worker(), runtime.effect_worker()]
        while sum(bool(role.run_once()) for role in roles):
            pass
        for role in roles:
            role._leave()


def fill(site: DashboardSite) -> dict[str, Any]:
    """One row of each kind that a page shows; ids by name."""
    account = site.Account.ref("a")
    account.pay(cents=3)
    account.charge_card()
    account.tell(other="b")
    dead = account.fail.send(text="broken").id
    account.arm()
    account.arm(key="often", every=3600.0)
    site.drain()
    broadcast = "SELECT broadcast_id FROM solid_objects_broadcasts"
    if not site.rows(broadcast):
        raise AssertionError("a change of an observable broadcasts it")
    site.execute("UPDATE solid_objects_broadcasts SET status = 'dead'")
    site.Account.ref("stuck").pay.send(cents=1)
    return {
        "dead_message": dead,
        "dead_letter": site.rows("SELECT id FROM solid_objects_dead_letters WHERE message_id = :id", id=dead)[0][0],
        "effect": site.rows("SELECT effect_id FROM solid_objects_effects WHERE status = 'dead'")[0][0],
        "broadcast": site.rows(broadcast)[0][0],
        "reminder": site.rows("SELECT id FROM solid_objects_reminders ORDER BY id")[0][0],
    }


class Browser:
    """One operator's browser: it keeps its session, follows no redirect by itself, and sends forms as they are."""

    def __init__(self, site: DashboardSite, user: str = "olga", prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self.client = site.app.test_client()
        self.client.get(f"/login/{user}")

    def open(self, path: str, status: int = 200, **headers: str) -> Html:
        answer = self.get(path, **headers)
        assert answer.status_code == status, f"{answer.status_code} {path}: {Html(answer.text).text[:400]}"
        return Html(answer.text)

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.client.get(path if path.startswith(self._prefix) else self._prefix + path, headers=headers)

    def walk(self, path: str) -> list[str]:
        """Every page of a list, as somebody sees it who follows its links."""
        found, address = list[str](), path
        while True:
            answer = self.get(address)
            assert answer.status_code == 200, f"{address}: {answer.status_code}"
            found.append(answer.text)
            following = [given["href"] for _, given in Html(answer.text).elements if given.get("rel") == "next"]
            if not following:
                return found
            address = following[0]
            assert len(found) < 20, f"{path} does not end"

    def client_page(self, page: str, **query: str) -> Html:
        """A page by what its address says, whatever characters that has."""
        answer = self.client.get(f"{self._prefix}/{page}", query_string=query)
        assert answer.status_code == 200, f"{answer.status_code} {query}"
        return Html(answer.text)

    def press(self, page: Html, button: str, **values: str) -> TestResponse:
        return self.send(page.form_of(button), **values)

    def send(self, form: Form, **values: str) -> TestResponse:
        data = {name: text.replace("\r\n", "\n").replace("\n", "\r\n") for name, text in (form.fields | values).items()}
        return self.client.post(form.action, data=data)

    def token(self) -> str:
        """The token of this session, from a page with a form."""
        return self.open("/redrives").form_of("Start").fields["solid_token"]

    def after(self, answer: TestResponse) -> Html:
        """The page to which a form leads."""
        assert answer.status_code == 303, f"{answer.status_code}: {Html(answer.text).text[:400]}"
        return self.open(answer.headers["Location"])


MakeSite = Callable[..., DashboardSite]
