"""What every answer carries, what is in no page, and that all of it can be replaced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jinja2 import DictLoader
from sqlalchemy import URL

from flask_solid_objects.assets import TEMPLATES
from tests.web.dashboard.html import Html
from tests.web.dashboard.routes import ACTS, FORMS, PAGES
from tests.web.dashboard.site import PREFIX, Browser, DashboardSite

_HTML = [each for each in PAGES + FORMS if each.endpoint != "metrics"]
_SECURED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@pytest.fixture
def template_names() -> list[str]:
    return sorted(path.name for path in (TEMPLATES / "solid_objects" / "dashboard").iterdir())


def test_headers(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Pages, parts, forms, refusals and errors all forbid framing, sniffing, keeping, and scripts from elsewhere."""
    token = browser.token()
    answers = [browser.get(each.at(ids).path) for each in PAGES + FORMS]
    answers += [browser.get("/", **{"HX-Request": "true"}), browser.get("/messages/999"), browser.get("/actor")]
    answers += [browser.client.post(PREFIX + each.at(ids).path, data={"solid_token": token}) for each in ACTS]
    answers += [browser.client.post(PREFIX + "/actor/pause")]
    site.rights = "none"
    answers += [browser.get("/")]
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]

        assert {name: answer.headers[name] for name in _SECURED} == _SECURED
        assert policy.startswith("default-src 'none'; ") and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert {"Cookie", "HX-Request"} <= set(answer.vary)


def test_files(site: DashboardSite, browser: Browser) -> None:
    """Files may be kept, and are what they say."""
    page = browser.open("/")
    files = [given.get("src") or given["href"] for tag, given in page.elements if tag in ("script", "link")]
    ours = [each for each in files if each.startswith(PREFIX)]
    for answer in map(browser.client.get, ours):
        assert answer.status_code == 200
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "no-store" not in answer.headers["Cache-Control"]
        answer.close()
    assert len(ours) == 3


def test_markup(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """No page has a script, style or handler in it, every tag is closed, and every id is one."""
    pages = {each.path: browser.open(each.at(ids).path) for each in _HTML}
    for path, page in pages.items():
        names = [given["id"] for _, given in page.elements if "id" in given]
        tags = [tag for tag, _ in page.elements]

        assert (path, page.inline, page.problems) == (path, [], [])
        assert (path, len(names), tags.count("h1"), tags.count("main")) == (path, len(set(names)), 1, 1)
        assert [given for tag, given in page.elements if tag == "html"] == [{"lang": "en"}]


def test_parts(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """A refetch gets what stands in the page's main element, and nothing around it."""
    for each in (each for each in PAGES if each.endpoint != "metrics"):
        whole = browser.get(each.at(ids).path).text
        part = browser.get(each.at(ids).path, **{"HX-Request": "true"}).text
        html = Html(part)

        assert "<html" in whole and "<html" not in part
        assert html.problems == [] and [tag for tag, _ in html.elements].count("h1") == 1
        assert Html(part).text.split()[:3] == Html(whole[whole.index("<main") :]).text.split()[:3]


def test_no_page_for_an_error_twice(site: DashboardSite, browser: Browser) -> None:
    """An error on a refetch is a part as well."""
    assert "<html" not in browser.get("/messages/999", **{"HX-Request": "true"}).text


def test_templates(site: DashboardSite, browser: Browser, ids: dict[str, Any], template_names: list[str]) -> None:
    """Every template can be one of the application's own."""
    texts = {
        name: (TEMPLATES / "solid_objects" / "dashboard" / name)
        .read_text()
        .replace("{% block page %}", "{% block page %}mine: " + name)
        for name in template_names
        if name not in ("_macros.html", "_layout.html", "_part.html")
    }
    texts = {f"solid_objects/dashboard/{name}": text for name, text in texts.items()}
    site.app.jinja_loader = DictLoader(texts)
    seen = {each.path: browser.open(each.at(ids).path).text for each in _HTML}
    shown = {name for name in texts for text in seen.values() if f"mine: {Path(name).name}" in text}
    shown |= {"solid_objects/dashboard/error.html"} if "mine: error.html" in browser.get("/messages/9").text else set()

    assert shown == set(texts)


def test_layout(site: DashboardSite, browser: Browser) -> None:
    """So can the parts that the pages are made of."""
    for name, text in (
        ("_layout.html", "MINE {% block page %}{% endblock %}"),
        ("_part.html", "PART {% block page %}{% endblock %}"),
    ):
        site.app.jinja_loader = DictLoader({f"solid_objects/dashboard/{name}": text})
        site.app.jinja_env.cache.clear()  # type: ignore[union-attr]
        headers = {"HX-Request": "true"} if name == "_part.html" else {}

        assert text[:5] in browser.get("/actors", **headers).text


@pytest.fixture
def failing_site(database_url: URL) -> Iterator[DashboardSite]:
    made = DashboardSite(database_url)
    made.app.config["PROPAGATE_EXCEPTIONS"] = False
    with made.ready(made=True):
        yield made


def test_a_failing_policy(failing_site: DashboardSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the application's own functions is a 500 with the same headers, and shows nothing."""
    browser = Browser(failing_site)
    monkeypatch.setattr(type(failing_site), "_allows", lambda *_: 1 / 0)
    failing_site.solid.authorize_administration(lambda access: 1 / 0)
    answer = browser.get("/")

    assert (answer.status_code, answer.headers["Cache-Control"]) == (500, "no-store")
    assert "ZeroDivision" not in answer.text
