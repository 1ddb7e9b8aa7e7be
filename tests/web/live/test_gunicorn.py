"""Sockets under a real gunicorn: they work, leave room for requests, and do not hold up its end."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from simple_websocket import ConnectionClosed
from sqlalchemy import URL

from tests.processes import TERM, Child, wait_until
from tests.web.live.site import Page, Site

# As docs/live.md shows it.
CONFIG = """
def post_worker_init(worker):
    from flask_solid_objects.web.gunicorn import tell_application

    tell_application(worker)
"""
WORKERS = pytest.mark.parametrize(
    "worker",
    [("--worker-class", "gthread", "--threads", "4"), ("--worker-class", "gevent", "--worker-connections", "4")],
    ids=["gthread", "gevent"],
)
Serve = Callable[..., tuple[Child, int]]


@pytest.fixture
def serve(database_url: URL, tmp_path: Path) -> Iterator[Serve]:
    """Starts a gunicorn with one worker on the site's database; the process and its port."""
    config = tmp_path / "gunicorn.conf.py"
    config.write_text(CONFIG)
    env = {"SITE_URL": database_url.render_as_string(hide_password=False)}
    with ExitStack() as running:

        def start(*options: str) -> tuple[Child, int]:
            command = ("-m", "gunicorn", "--config", str(config), "--bind", "127.0.0.1:0", "--graceful-timeout", "30")
            child = running.enter_context(Child(*command, *options, "tests.web.live.served:make()", env=env))
            port = re.search(r"127.0.0.1:(\d+)", child.expect("Listening at"))
            assert port is not None
            child.expect("Booting worker")
            return child, int(port.group(1))

        yield start


@contextmanager
def pages(site: Site, port: int, count: int) -> Iterator[list[Page]]:
    """Pages with open sockets."""
    made = [Page(site, f"user{number}", port) for number in range(count)]
    try:
        for page in made:
            page.open()
        yield made
    finally:
        for page in made:
            page.close()


def answer(port: int, method: str, path: str, cookie: str = "") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers={"Cookie": cookie})
        return connection.getresponse().status
    finally:
        connection.close()


@WORKERS
def test_pages_hear_of_changes_and_of_the_end(site: Site, serve: Serve, worker: tuple[str, ...]) -> None:
    """A commit of the server reaches every page; at its end all are told to come back, and it ends at once."""
    child, port = serve(*worker)
    with pages(site, port, 2) as watching:
        for page in watching:
            page.subscribe()
        said = answer(port, "POST", "/say/hello")
        told = [page.receive("inv")["v"] for page in watching]
        began = time.monotonic()
        child.signal(TERM)
        codes = [closing_code(page) for page in watching]
        code = child.wait()
        took = time.monotonic() - began

    assert said == 200
    assert told == [{"count": 1}] * 2
    assert (codes, code) == ([1012, 1012], 0)
    # 0.5 to 2 s on an idle machine; without the hook it is the graceful timeout of 30.
    assert took < 10


@WORKERS
def test_sockets_leave_room_for_requests(site: Site, serve: Serve, worker: tuple[str, ...]) -> None:
    """Half of a small worker serves sockets; beyond them pages are told to poll, and polling is answered."""
    _, port = serve(*worker)
    with pages(site, port, 2) as watching:
        late = Page(site, "late", port)
        refused = late.refused()
        polled = answer(port, "GET", "/solid/sync?s=[]")
        watching[0].close()
        wait_until(lambda: late.refused() == 101, "the closed socket to make room")

    assert (refused, polled) == (503, 200)


def closing_code(page: Page) -> int:
    """Read until the socket is closed."""
    try:
        while page.socket.receive(timeout=20) is not None:
            pass
    except ConnectionClosed as closed:
        return int(closed.reason)
    raise AssertionError("it stays open")
