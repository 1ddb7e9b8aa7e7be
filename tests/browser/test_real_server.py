"""Pages of a real server, in a process of its own, over its real socket and its real relay."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Visitors, heard, hide, record_texts, text, wait_for_event, wait_for_text
from tests.browser.real_server import Cable, RealServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

NETWORK = (
    "WebSocket connection",
    "Failed to load resource",
    "Response Status Error",
    r"htmx:(error|afterRequest|sendError)",
)
MARKED = "() => document.documentElement.classList.contains('solid-stale')"
FRESH = "() => !document.querySelector('.solid-stale') && !document.documentElement.classList.contains('solid-stale')"


class Net:
    """What one page sends and hears."""

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self.sockets: list[Any] = []
        self.sent: list[Any] = []
        self.received: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", self._opened)

    def refetches(self) -> list[str]:
        return [url for url in self.requests if "/solid/c/" in url or "/solid/batch" in url]

    def streams(self, kind: str) -> list[str]:
        """The names of the streams that were asked for, or given up."""
        items = [item for frame in self.sent if frame["t"] == kind for item in frame["s"]]
        return [item["k"].rpartition("~")[0] if isinstance(item, dict) else item for item in items]

    def _opened(self, opened: Any) -> None:
        self.sockets.append(opened)
        opened.on("framesent", lambda data: self.sent.append(json.loads(data)))
        opened.on("framereceived", lambda data: self.received.append(str(data)))


class Real:
    """The server, the visitors of one test, and rooms that no other test uses."""

    def __init__(self, server: RealServer, visitors: Visitors) -> None:
        self.server, self.visitors = server, visitors
        self.rooms = [f"{letter}{secrets.token_hex(4)}" for letter in "abc"]

    def visit(self, user: str = "ann", rooms: int = 1, prefix: str = "") -> tuple[Page, Net]:
        """The page of some rooms, once it is subscribed to them and has been answered."""
        page = self.visitors.blank(user)
        net = Net(page)
        names = self.rooms[:rooms]
        page.goto(f"{self.visitors._url}{prefix}/enter/{user}/{','.join(names)}")
        self.say("hello")
        for name in names:
            wait_for_text(page, f"#at-{name} .last", "hello")
        net.requests.clear()
        return page, net

    def say(self, *texts: str, room: int | None = None) -> None:
        self.server.say(",".join(self.rooms) if room is None else self.rooms[room], *texts)

    def last(self, room: int = 0) -> str:
        return f"#at-{self.rooms[room]} .last"


@pytest.fixture(params=["htmx4", "htmx2"])
def htmx(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    started = RealServer(tmp_path_factory.mktemp("real") / "real.sqlite3").start()
    yield started
    started.kill()


@pytest.fixture
def real(browser: Browser, server: RealServer, htmx: str) -> Iterator[Real]:
    visitors = Visitors(browser, server.url, {"htmx": htmx})
    yield Real(server, visitors)
    visitors.close()
    assert visitors.unexpected() == []


def test_each_user_sees_their_own(real: Real) -> None:
    """The holder's page says so, others see another HTML, and nothing of either goes over the socket."""
    (ann, _), (ben, heard_by_ben) = real.visit("ann"), real.visit("ben")
    real.server.control(f"take/{real.rooms[0]}/ann")
    wait_for_text(ann, ".holder", "You hold this room")
    wait_for_text(ben, ".holder", "Somebody holds it")
    real.server.control(f"take/{real.rooms[0]}/ben")
    wait_for_text(ben, ".holder", "You hold this room")
    wait_for_text(ann, ".holder", "Somebody holds it")
    real.say("a personal line")
    wait_for_text(ben, real.last(), "a personal line")

    frames = "".join(heard_by_ben.received)
    assert '"holder"' in frames
    assert not any(word in frames for word in ("personal", "ann", "ben", "You hold"))


def test_one_socket_and_one_request(real: Real) -> None:
    """Three rooms and a board share one socket, and all that changed while nobody looked is one request."""
    page, net = real.visit(rooms=3)
    hide(page, True)
    real.say("first")
    real.say("second")
    real.server.control(f"name/{real.rooms[0]}/titled")
    for name in real.rooms:
        wait_for_text(page, f"#at-{name} > p", "3")  # a scalar is painted in a hidden tab too
    page.evaluate("started = performance.now()")
    page.wait_for_function(
        "() => performance.now() - started > 500"
    )  # the board has no scalar; the relay looks every 200
    while_hidden = net.refetches()
    hide(page, False)
    for room in range(3):
        wait_for_text(page, real.last(room), "second")
    wait_for_text(page, "b", "titled")

    assert while_hidden == []
    assert [url.partition("?")[0].rpartition("/")[2] for url in net.refetches()] == ["batch"]
    assert net.refetches()[0].count("c=") == 4
    assert len(net.sockets) == 1
    assert len(set(net.streams("sub"))) == 4


def test_an_old_answer_never_wins(real: Real) -> None:
    """An answer that was under way while the visitor's own action brought newer HTML is not shown."""
    page, net = real.visit()
    held: list[tuple[Route, Any]] = []

    def hold(route: Route) -> None:
        held.append((route, route.fetch()))

    page.route("**/solid/c/**", hold, times=1)
    with page.expect_request("**/solid/c/**"):
        real.say("old")
    while not held:
        page.wait_for_function("() => new Promise(requestAnimationFrame)")
    page.click("button")
    wait_for_text(page, real.last(), "pressed")
    record_texts(page, real.last())
    route, answer = held[0]
    route.fulfill(response=answer)
    wait_for_event(page, "rejected")
    real.say("new")
    wait_for_text(page, real.last(), "new")

    assert page.evaluate("shown") == ["pressed", "new"]
    assert len(net.refetches()) >= 2


def test_typing_goes_on(real: Real) -> None:
    """Focus, caret and what is typed stay while others talk."""
    page, _ = real.visit()
    page.fill(".draft", "half a sentence")
    page.evaluate("draft = document.activeElement; draft.setSelectionRange(4, 4)")
    for line in ("one", "two"):
        real.say(line)
        wait_for_text(page, real.last(), line)
    page.keyboard.type(" of")

    assert page.evaluate("[draft === document.activeElement, draft.value]") == [True, "half of a sentence"]


def test_fifty_changes_behind_a_pulled_cable(real: Real) -> None:
    """Offline the page says that it is stale; back online each view is fetched once, for all that happened."""
    real.visitors.allow(*NETWORK)
    with Cable(real.server.port) as cable:
        real.visitors._url = cable.url
        real.visitors.context().add_cookies(
            [{"name": "htmx", "value": real.visitors._cookies["htmx"], "url": cable.url}]
        )
        page, net = real.visit(rooms=2)
        real.visitors.context().set_offline(True)
        cable.pull()
        real.say(*[f"line {n}" for n in range(1, 51)])
        page.wait_for_function(MARKED)
        while_offline = text(page, real.last())
        net.requests.clear()
        cable.plug_in()
        real.visitors.context().set_offline(False)
        for room in range(2):
            wait_for_text(page, real.last(room), "line 50")
        page.wait_for_function(FRESH)

    assert while_offline == "hello"
    parts = [part for url in net.refetches() for part in (url.split("c=")[1:] or [url])]
    assert len(parts) == 2
    assert len({part.rstrip("&") for part in parts}) == 2


def test_back_shows_the_present(real: Real) -> None:
    """After the back button the page shows what is true now, and follows on."""
    page, net = real.visit()
    page.click("a")
    page.wait_for_selector("h1")
    real.say("meanwhile")
    page.go_back()
    wait_for_text(page, real.last(), "meanwhile")
    real.say("and on")
    wait_for_text(page, real.last(), "and on")

    assert len(net.sockets) == 1


def test_what_comes_and_goes(real: Real) -> None:
    """A removed element ends its subscription and is never fetched; one that was added is live."""
    page, net = real.visit(rooms=2)
    page.evaluate("id => document.getElementById(id).remove()", f"at-{real.rooms[1]}")
    real.say("soon", room=0)
    wait_for_text(page, real.last(), "soon")
    before = len(net.received)
    real.say("unseen", room=1)
    real.say("seen", room=0)
    wait_for_text(page, real.last(), "seen")
    unsubscribed, refetched, since = net.streams("unsub"), len(net.refetches()), "".join(net.received[before:])
    page.evaluate(
        """async name => {
          const box = document.createElement('section');
          box.id = `at-${name}`;
          box.innerHTML = await (await fetch(`/part/${name}`)).text();
          document.body.append(box);
        }""",
        real.rooms[2],
    )
    real.say("added", room=2)
    wait_for_text(page, real.last(2), "added")

    assert unsubscribed == [f"Room:{real.rooms[1]}"]
    assert refetched == 2
    assert f"Room:{real.rooms[0]}" in since
    assert f"Room:{real.rooms[1]}" not in since


@pytest.mark.parametrize("prevented", [False, True])
def test_an_expired_session(real: Real, prevented: bool) -> None:
    """The page goes to the login that the answer names, unless its own code prevents that; nothing is swapped in."""
    real.visitors.allow(*NETWORK)
    page, _ = real.visit()
    if prevented:
        page.evaluate("document.addEventListener('solid:failed', event => event.preventDefault())")
    real.visitors.context().clear_cookies(name="session")
    real.say("for members")
    if not prevented:
        page.wait_for_url("**/login")
        return
    failed = wait_for_event(page, "failed")
    page.wait_for_selector("[data-solid-c].solid-stale")

    assert (failed[0]["status"], failed[0]["login"]) == (401, f"{real.server.url}/login")
    assert text(page, real.last()) == "hello"


def test_a_session_that_ends_in_a_redirect(real: Real) -> None:
    """An application that redirects everything to its login page gets nothing of that page swapped in."""
    real.visitors.allow(*NETWORK)
    page, _ = real.visit()
    record_texts(page, "body")
    real.visitors.context().add_cookies([{"name": "redirected", "value": "1", "url": real.server.url}])
    real.say("for members")
    page.wait_for_selector("[data-solid-c].solid-stale")
    while_out = page.evaluate("shown.join()")
    real.visitors.context().clear_cookies(name="redirected")
    wait_for_text(page, real.last(), "for members")

    assert "Away" not in while_out
    assert "for members" not in while_out


def test_rights_that_are_taken_away(real: Real) -> None:
    """Within the recheck interval the page is told, marks what it shows, and hears nothing more."""
    user = f"eve{secrets.token_hex(4)}"
    page, net = real.visit(user)
    real.server.control(f"deny/{user}")
    gone = wait_for_event(page, "gone", 2)
    before = len(net.received)
    real.say("secret")
    page.evaluate("started = performance.now()")
    page.wait_for_function("() => performance.now() - started > 800")

    assert {event["why"] for event in gone} == {"denied"}
    assert page.evaluate("document.querySelectorAll('[data-solid-c].solid-stale').length") == 2
    assert text(page, real.last()) == "hello"
    assert [frame for frame in net.received[before:] if '"inv"' in frame] == []
    assert net.refetches() == []


@pytest.mark.parametrize("refused", ["", "503"], ids=["socket", "polling"])
def test_a_room_that_is_destroyed_and_used_anew(real: Real, refused: str) -> None:
    """The page says that what it shows has gone, and follows the room again from its next use on."""
    real.visitors.allow(*NETWORK)
    if refused:
        real.visitors.context().add_cookies([{"name": "refused", "value": refused, "url": real.server.url}])
    page, _ = real.visit()
    real.server.control(f"destroy/{real.rooms[0]}")
    gone = wait_for_event(page, "gone")
    page.wait_for_selector("[data-solid-c].solid-stale")
    real.say("anew", room=0)
    wait_for_text(page, real.last(), "anew")
    wait_for_text(page, f"#at-{real.rooms[0]} > p", "1")
    page.wait_for_function(FRESH)

    assert [event["why"] for event in gone] == ["deleted"]


@pytest.mark.parametrize("status", ["403", "503"])
def test_refused_sockets(real: Real, status: str) -> None:
    """Where every socket is refused the page polls and stays true."""
    real.visitors.allow(*NETWORK)
    context = real.visitors.context()
    context.add_cookies([{"name": "refused", "value": status, "url": real.server.url}])
    page, net = real.visit()
    real.say("polled")
    wait_for_text(page, real.last(), "polled")
    page.wait_for_function(FRESH)

    assert any("/solid/sync" in url for url in net.requests)
    assert heard(page, "open") == []


def test_under_a_prefix(real: Real) -> None:
    """An application that is mounted somewhere has its socket, its files and its refetches there."""
    page, net = real.visit(rooms=2, prefix="/mounted")
    hide(page, True)
    real.say("deep")
    wait_for_text(page, f"#at-{real.rooms[1]} > p", "2")
    hide(page, False)
    for room in range(2):
        wait_for_text(page, real.last(room), "deep")

    assert [socket.url for socket in net.sockets] == [f"{real.server.url}/mounted/solid/ws".replace("http", "ws")]
    assert all(f"{real.server.url}/mounted/solid/" in url for url in net.refetches())
    assert len(net.refetches()) == 1


def test_a_server_that_is_killed(browser: Browser, htmx: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page says that it is stale while the server is down, and catches up by itself with what others did."""
    database = tmp_path_factory.mktemp("killed") / "real.sqlite3"
    server, other = RealServer(database).start(), RealServer(database)
    visitors = Visitors(browser, server.url, {"htmx": htmx})
    visitors.allow(*NETWORK)
    try:
        real = Real(server, visitors)
        page, net = real.visit(rooms=2)
        other.start()  # before the end of the first, whose port must stay free
        server.kill()
        other.say(real.rooms[0], "meanwhile")
        page.wait_for_function(MARKED)
        while_down = text(page, real.last())
        net.requests.clear()
        server.start()
        wait_for_text(page, real.last(), "meanwhile")
        page.wait_for_function(FRESH)
        parts = [url for url in net.refetches() if url.startswith(server.url)]
        real.say("and on")
        wait_for_text(page, real.last(), "and on")
        other.say(real.rooms[1], "from another process")
        wait_for_text(page, real.last(1), "from another process")
    finally:
        visitors.close()
        server.kill()
        other.kill()

    assert while_down == "hello"
    assert len(parts) == 1
    assert visitors.unexpected() == []
