"""Who may see and do what: nothing without a policy, reading apart from acting, one question for each."""

from __future__ import annotations

from typing import Any

from flask_solid_objects import Access
from tests.web.dashboard.routes import ACTS, FORMS, PAGES, Route
from tests.web.dashboard.site import PREFIX, Browser, DashboardSite

_BUILT_IN = {"static"}
_LETTERS = Access(action="inspect", resource="dead_letters", context="olga")


def post(browser: Browser, route: Route, token: str) -> Any:
    return browser.client.post(PREFIX + route.path, data={"solid_token": token, **route.form})


def test_the_table_is_whole(site: DashboardSite) -> None:
    """Every route of the blueprint is in the tables of these tests, so that a new one cannot be forgotten."""
    rules = [rule for rule in site.app.url_map.iter_rules() if rule.endpoint.startswith("solid_dashboard.")]
    found = {(rule.endpoint.partition(".")[2], "POST" in (rule.methods or ())) for rule in rules}
    listed = {(each.endpoint, False) for each in PAGES + FORMS} | {(each.endpoint, True) for each in ACTS}

    assert {each for each in found if each[0] not in _BUILT_IN} == listed


def test_nothing_without_a_policy(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Every page and act is 403 until the policy is registered, and the answer names the decorator."""
    token = browser.token()
    site.remove_policy()
    before = site.everything()
    looked = {each.path: browser.get(each.at(ids).path) for each in PAGES + FORMS}
    acted = {each.path: post(browser, each.at(ids), token) for each in ACTS}
    wrong = {
        path: (answer.status_code, answer.text)
        for path, answer in (looked | acted).items()
        if answer.status_code != 403 or "@solid.authorize_administration" not in answer.text
    }

    assert wrong == {}
    assert site.everything() == before


def test_readers(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Who may only read gets every page without any button, and every act is 403 and changes nothing."""
    token = browser.token()
    site.rights = "read"
    before = site.everything()
    buttons = {each.path: browser.open(each.at(ids).path).buttons for each in PAGES if each.endpoint != "metrics"}
    wrong = {
        each.path: answer.text for each in ACTS if (answer := post(browser, each.at(ids), token)).status_code != 403
    }
    wrong |= {each.path: answer.text for each in FORMS if (answer := browser.get(each.at(ids).path)).status_code != 403}

    assert {path: found for path, found in buttons.items() if found} == {}
    assert wrong == {}
    assert (browser.get("/metrics").status_code, site.everything()) == (200, before)


def test_nobody(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Who may nothing gets 403 everywhere, without a word about policies."""
    token = browser.token()
    site.rights = "none"
    answers = [browser.get(each.at(ids).path) for each in PAGES + FORMS]
    answers += [post(browser, each.at(ids), token) for each in ACTS]

    assert {(answer.status_code, "@solid" in answer.text) for answer in answers} == {(403, False)}


def test_questions(site: DashboardSite, browser: Browser, ids: dict[str, Any]) -> None:
    """Each page and act asks for one thing only, with actor, row and operator; pages also ask for what they offer."""
    token, wrong = browser.token(), {}
    for each in (*PAGES, *FORMS, *ACTS):
        route = each.at(ids)
        site.asked.clear()
        post(browser, route, token) if each in ACTS else browser.get(route.path)
        actor = (
            route.resource_id.partition("/")[::2] if route.resource == "actors" and route.resource_id else (None, None)
        )
        wanted = Access(
            action=route.action,
            actor_type=actor[0],
            actor_id=actor[1],
            resource=route.resource,
            resource_id=route.resource_id,
            context="olga",
        )
        # The first decides; a page asks then for each act whether it offers it.
        # The form of a dead letter looks at it as well, and a list of dead letters offers a preview.
        looks = {asked for asked in site.asked if each in ACTS or (asked.is_read and asked.action != "preview")}
        others = looks - {wanted, _LETTERS}
        if site.asked[:1] != [wanted] or others:
            wrong[route.path] = site.asked
    assert wrong == {}


def test_identity(site: DashboardSite, ids: dict[str, Any]) -> None:
    """``identity`` says who acts, to the policy and in the audit log; without it, it is the viewer."""
    site.app._got_first_request = False
    site.app.register_blueprint(site.solid.dashboard("other", url_prefix="/other", identity=lambda: "Olga <o@x>"))
    for prefix in (PREFIX, "/other"):
        browser = Browser(site, prefix=prefix)
        page = browser.open("/actor?type=Account&id=a")
        browser.press(page, "Pause" if "Pause" in page.buttons else "Resume")
        assert browser.open("/audit").text.count("Olga <o@x>") == (1 if prefix == "/other" else 0)

    assert [(act[0], act[3]) for act in site.acts()] == [("actor.pause", "olga"), ("actor.resume", "Olga <o@x>")]
    assert {access.context for access in site.asked} == {"olga", "Olga <o@x>"}
