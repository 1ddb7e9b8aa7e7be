"""No other site can press a button: the form token alone, and beside Flask-WTF's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask_wtf import CSRFProtect
from sqlalchemy import URL

from flask_solid_objects import SolidObjects
from tests.web.dashboard.html import Html
from tests.web.dashboard.routes import ACTS
from tests.web.dashboard.site import PREFIX, Browser, DashboardSite

_KEY = {"type": "Account", "id": "a"}


@pytest.fixture
def strict_site(database_url: URL) -> Iterator[DashboardSite]:
    """The app protects every POST with Flask-WTF, and mounts the dashboard twice."""
    made = DashboardSite(database_url, mount=False)
    CSRFProtect(made.app)
    made.app.register_blueprint(made.solid.dashboard("first", url_prefix="/ops/first"))
    made.app.register_blueprint(made.solid.dashboard("second", url_prefix="/ops/second"))
    with made.ready(made=True):
        yield made


def test_wrong_tokens(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Without a token, with garbage or with another session's, every act is 403 and changes nothing."""
    tokens = {
        "none": None,
        "empty": "",
        "garbage": "%%%",
        "not ASCII": "é" * 88,
        "short": "QUJD",
        "zero": "A" * 86 + "==",
        "another": Browser(site, "mallory").token(),
    }
    browser.token()
    before = site.everything()
    site.asked.clear()
    wrong = {
        (each.path, name): answer.status_code
        for each in (act.at(ids) for act in ACTS)
        for name, token in tokens.items()
        for answer in [
            browser.client.post(PREFIX + each.path, data=each.form | ({"solid_token": token} if token else {}))
        ]
        if answer.status_code != 403 or "reload" not in answer.text
    }

    assert wrong == {}
    assert (site.everything(), site.asked) == (before, [])


def test_no_session(site: DashboardSite, browser: Browser) -> None:
    """A token without its session is worth nothing, and neither is a session whose secret was tampered with."""
    token = browser.token()
    stranger = site.app.test_client()
    assert stranger.post(PREFIX + "/actor/pause", data={"solid_token": token, **_KEY}).status_code == 403
    for secret in ("", "AAAA", "é", 7, None):
        with browser.client.session_transaction() as session:
            session["_solid_dashboard"] = secret
        assert browser.client.post(PREFIX + "/actor/pause", data={"solid_token": token, **_KEY}).status_code == 403


def test_tokens(site: DashboardSite, browser: Browser) -> None:
    """A token is masked anew on each page, every one of a session stays good, and the query does not count."""
    site.Account.ref("a").pay(cents=1)
    tokens = [browser.token() for _ in range(3)]
    statuses = [
        browser.client.post(PREFIX + "/actor/pause", data={"solid_token": token, **_KEY}).status_code
        for token in tokens
    ]
    asked = browser.client.post(PREFIX + f"/actor/pause?solid_token={tokens[0]}", data=_KEY).status_code

    assert (len(set(tokens)), statuses, asked) == (3, [303, 303, 303], 403)


def test_beside_another_protection(strict_site: DashboardSite) -> None:
    """Under Flask-WTF's protection each mounted dashboard sends both tokens, and either alone is refused."""
    strict_site.Account.ref("a").pay(cents=1)
    for number, prefix in enumerate(("/ops/first", "/ops/second")):
        browser = Browser(strict_site, prefix=prefix)
        page = browser.open("/actor?type=Account&id=a")
        form = page.form_of("Pause" if number == 0 else "Resume")
        ours, theirs = form.fields["solid_token"], form.fields["csrf_token"]
        statuses = [
            browser.client.post(form.action, data=_KEY | tokens).status_code
            for tokens in ({"solid_token": ours}, {"csrf_token": theirs}, {"solid_token": ours, "csrf_token": theirs})
        ]

        assert statuses == [400, 403, 303]
        assert all(link.startswith(("#", prefix)) for link in page.links)
        assert all(each.action.startswith(prefix) for each in page.forms)
    assert [act[0] for act in strict_site.acts()] == ["actor.pause", "actor.resume"]


def test_under_a_mount_point(site: DashboardSite, browser: Browser) -> None:
    """Behind a prefix that a proxy or another app adds, links, forms, files and refetches carry it."""
    site.Account.ref("a").pay(cents=1)
    answer = browser.client.get(PREFIX + "/actor?type=Account&id=a", base_url="http://localhost/under/here/")

    page = Html(answer.text)
    addresses = [*page.links, *(form.action for form in page.forms)]
    addresses += [given[name] for _, given in page.elements for name in ("src", "hx-get") if name in given]
    addresses += [given["href"] for tag, given in page.elements if tag == "link"]

    assert [each for each in addresses if not each.startswith(("#", "/under/here/"))] == []


def test_without_a_key() -> None:
    """Without SECRET_KEY the registration fails and says what to set."""
    app = Flask(__name__)
    solid = SolidObjects(app)
    with pytest.raises(RuntimeError, match=r"set app\.config\['SECRET_KEY'\]"):
        app.register_blueprint(solid.dashboard())
