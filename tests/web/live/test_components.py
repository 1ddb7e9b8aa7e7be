"""Components, scalars and attributes: what they show, what they refuse, and their refetch over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from flask import render_template_string

from flask_solid_objects import InvalidComponent, Unauthorized
from tests.web.live.site import Page, Site


def rendered(site: Site, template: str, **values: Any) -> str:
    with site.app.test_request_context():
        return render_template_string(template, ref=site.Room.ref("lobby"), ledger=site.Ledger.ref("x"), **values)


def test_a_page_shows_what_is_committed(site: Site) -> None:
    """The first rendering has the HTML, escaped, and the pair that it belongs to."""
    site.Room.ref("lobby").say(text="<b>hi")
    page = Page(site, "ann")

    assert "<li>&lt;b&gt;hi</li>" in page.text
    assert "<i>ann</i>" in page.text
    assert {1} == {revision for _, _, revision, _ in page.pairs}


def test_an_actor_that_was_never_used_has_its_defaults(site: Site) -> None:
    """Looking makes nothing: the pair is zero, and no row exists."""
    page = Page(site, "ann")

    assert {("0", 0)} == {(incarnation, revision) for _, incarnation, revision, _ in page.pairs}
    assert site.solid.runtime.operators.actors() == []


def test_a_refetch_gives_one_root_with_the_same_id(site: Site) -> None:
    """The component alone comes back, at its new revision, uncached, at the same address."""
    page = Page(site, "ann")
    site.Room.ref("lobby").say(text="new")
    answer = page.client.get(page.url)

    assert answer.status_code == 200
    assert "<li>new</li>" in answer.text
    assert page.text[: page.text.index("data-solid=")] == answer.text[: answer.text.index("data-solid=")]
    assert page.url in answer.text.replace("&amp;", "&")
    assert answer.headers["Cache-Control"] == "private, no-store"
    assert "Location" not in answer.headers


def test_two_users_get_different_html(site: Site) -> None:
    """The same address is bound to its viewer; each sees a rendering of its own."""
    ann, bob = Page(site, "ann"), Page(site, "bob")

    assert "<i>ann</i>" in ann.client.get(ann.url).text
    assert "<i>bob</i>" in bob.client.get(bob.url).text
    assert (bob.client.get(ann.url).status_code, bob.client.get(ann.url).data) == (403, b"")


@pytest.mark.parametrize("operation", ["messages"])
def test_rights_are_asked_again(site: Site, operation: str) -> None:
    """Whoever has lost the right to a component or to one of its observables gets an empty refusal."""
    page = Page(site, "ann")
    site.denied.add(("ann", operation))
    answer = page.client.get(page.url)

    assert (answer.status_code, answer.data) == (403, b"")


@pytest.mark.parametrize("config", [{"SOLID_OBJECTS_LOGIN_URL": "/login/ann"}])
def test_an_expired_login_says_where_to_go(site: Site) -> None:
    """Without a session the refetch is 401 with the place to log in, and never a redirect into the page."""
    page = Page(site, "ann")
    answer = site.app.test_client().get(page.url)

    assert (answer.status_code, answer.data, answer.headers["Solid-Login"]) == (401, b"", "/login/ann")


@pytest.mark.parametrize("url", ["/solid/c/forged", "/solid/c/W10~abc", "/solid/c/~"])
def test_a_forged_address_is_refused(site: Site, url: str) -> None:
    """What was never signed is 403 with nothing in it."""
    answer = Page(site, "ann").client.get(url)

    assert (answer.status_code, answer.data) == (403, b"")


def test_a_batch_is_one_answer(site: Site) -> None:
    """Several components come in one answer, each to be swapped out of band; a refused one is left out."""
    page = Page(site, "ann")
    token = page.url.rpartition("/")[2]
    answer = page.client.get("/solid/batch", query_string={"c": [token, "forged", token]})

    assert answer.status_code == 200
    assert answer.text.count('hx-swap-oob="outerMorph"') == 2
    assert page.client.get("/solid/batch").status_code == 400


def test_a_component_reads_what_it_declares(site: Site) -> None:
    """Anything else of the actor is an error that says what to add, not an empty place on the page."""
    with pytest.raises(InvalidComponent, match="add it to observes="):
        rendered(site, '{{ solid_component(ref, "greedy", observes=["messages"]) }}')


def test_a_component_reads_several_actors(site: Site) -> None:
    """Further actors come under names of their own, each with its pair; locals are signed into the page."""
    site.Room.ref("lobby").say(text="x")
    template = (
        '{{ solid_component(ref, "both", observes=["messages"], also={"ledger": (ledger, ["total"])}, who="<me>") }}'
    )
    text = rendered(site, template)

    assert "<b>1 of 0 for &lt;me&gt;</b>" in text
    assert "Ledger:x~" in text


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ('solid_component(ref, "messages", observes=["secret"])', "no observable 'secret'"),
        ('solid_component(ref, "messages", observes="messages")', "list of names"),
        ('solid_component(ref, "../x", observes=["messages"])', "letters, digits"),
        ('solid_component(ref, "messages", observes=[], refresh="other")', "morph or replace"),
        ('solid_component(ref, "messages", observes=[], tag="a b")', "tag"),
        ('solid_component(ref, "messages", observes=[], payloads=["other"])', "no payload"),
        ('solid_component(ref, "messages", observes=[], key="k" * 600)', "512 bytes"),
        ('solid_scalar(ref, "messages")', "does not share"),
        ('solid_watch(ref, "nothing")', "no observable"),
    ],
)
def test_what_cannot_be_is_refused(site: Site, call: str, problem: str) -> None:
    """A mistake in a template is one clear error."""
    with pytest.raises(InvalidComponent, match=problem):
        rendered(site, "{{ " + call + " }}")


def test_without_a_policy_nothing_is_shown(site: Site) -> None:
    """A view that a browser can refetch is denied until the application says who may, and says how."""
    site.solid._policies.clear()

    with pytest.raises(Unauthorized, match="@solid.authorize_query"):
        rendered(site, '{{ solid_scalar(ref, "count") }}')


def test_keys_tell_components_apart(site: Site) -> None:
    """Two components of one name have different ids when their keys or locals differ, and stable ones otherwise."""
    calls = ["key=1", "key=2", 'who="a"', "key=1"]
    ids = [
        rendered(site, '{{ solid_component(ref, "messages", observes=["messages"], ' + call + ") }}").split('"')[1]
        for call in calls
    ]

    assert len(set(ids)) == 3
    assert ids[0] == ids[3]


def test_scripts_carry_their_version(site: Site) -> None:
    """The script tags name our files with a hash; they are served to be kept for ever, and have no inline code."""
    text = rendered(site, "{{ solid_scripts() }}")
    source = text.split('src="')[2].split('"')[0]
    answer = site.app.test_client().get(source)
    answer.close()

    assert 'data-base="/solid"' in text
    assert "></script>" in text
    assert answer.status_code == 200
    assert "immutable" in answer.headers["Cache-Control"]


def test_scripts_take_settings(site: Site) -> None:
    """Settings become attributes of our own script tag, escaped, and of no other."""
    htmx, ours = rendered(site, "{{ solid_scripts(poll=2000, url_max='\">') }}").split("\n")

    assert "data-" not in htmx
    assert 'data-base="/solid" data-poll="2000" data-url-max="&#34;&gt;"></script>' in ours


def test_polling_gets_what_a_socket_would(site: Site) -> None:
    """Pages without a socket ask for the same answer by an ordinary request."""
    page = Page(site, "ann")
    handle, incarnation, revision, _ = page.pairs[0]
    site.Room.ref("lobby").say(text="x")
    site.Room.ref("lobby").say(text="y")
    query = site.app.json.dumps([{"k": handle, "i": incarnation, "r": revision}, {"k": "forged~x", "i": "0", "r": 0}])
    answer = page.client.get("/solid/sync", query_string={"s": query})

    sub, gone = answer.json
    assert (sub["s"][0]["r"], sub["s"][0]["n"], sub["s"][0]["v"]) == (2, None, {"count": 2})
    assert gone == {"t": "gone", "s": "forged", "why": "denied"}
    assert page.client.get("/solid/sync", query_string={"s": "{"}).status_code == 400
