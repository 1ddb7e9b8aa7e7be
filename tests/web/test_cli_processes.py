"""``flask solid work`` and ``dev`` as real processes: signals, second signals, replaced children."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import URL

from flask_solid_objects.values import MessageStatus
from tests.actors import RuntimeUnderTest
from tests.processes import TERM, Child, wait_until


class Commands:
    """Starts commands of the small app on one database, and looks at that database."""

    def __init__(self, url: URL) -> None:
        self.url = url.render_as_string(hide_password=False)
        from flask_solid_objects import Actor, operation

        class Counter(Actor):
            value: int = 0

            @operation
            def increment(self) -> int: ...  # type: ignore[empty-body]

            @operation
            def hang(self) -> None: ...

        self.runtime = RuntimeUnderTest(url, actors=(Counter,))
        self.counter: Any = Counter.ref("a")
        self.other: Any = Counter.ref("b")

    def start(self, *arguments: str) -> Child:
        command = ("-m", "flask", "--app", "tests.web.small_app", "solid", *arguments)
        return Child(*command, env={"SMALL_APP_URL": self.url})


@pytest.fixture
def commands(database_url: URL) -> Iterator[Commands]:
    commands = Commands(database_url)
    yield commands
    commands.runtime.close()


def test_work_runs_messages_and_stops_on_term(commands: Commands) -> None:
    """A message that another process sends is run; TERM ends the command in order, with exit code 0."""
    with commands.start("work", "--workers", "2") as child:
        child.expect("Working: 2 workers")
        message = commands.counter.increment.send()
        child.expect("ran as")
        wait_until(lambda: message.status() is MessageStatus.COMPLETED, "the message to be committed")
        child.signal(TERM)

        assert child.wait() == 0
        assert "Stopped." in child.lines
    assert commands.runtime.runtime.operators.processes() == []


def test_second_term_ends_at_once(commands: Commands) -> None:
    """While a message hangs, the first TERM waits for it and the second ends the process at once."""
    message = commands.counter.hang.send()
    with commands.start("work") as child:
        child.expect("hangs")
        child.signal(TERM)
        child.expect("A second signal")
        child.signal(TERM)

        assert child.wait(4) == 128 + TERM
    assert message.status() is MessageStatus.CLAIMED


def test_processes_are_replaced(commands: Commands) -> None:
    """work --processes 2 keeps two children: one that is killed is replaced, and TERM ends all."""
    with commands.start("work", "--processes", "2") as child:
        child.expect("Working:")
        child.expect("Working:")
        commands.counter.increment.send()
        pid = int(re.search(r"ran as (\d+)", child.expect("ran as")).group(1))  # type: ignore[union-attr]
        assert pid != child.pid
        os.kill(pid, signal.SIGKILL)
        child.expect("Working:")
        # Another actor: the first may be held under the lease of the dead.
        message = commands.other.increment.send()
        wait_until(lambda: message.status() is MessageStatus.COMPLETED, "the others to go on")
        child.signal(TERM)

        assert child.wait() == 0


def test_dev_serves_and_works(commands: Commands) -> None:
    """dev prints its address, serves pages, runs messages, and stops on Ctrl-C."""
    with commands.start("dev", "--port", "0") as child:
        address = re.search(r"http://\S+", child.expect("Open http"))
        assert address is not None
        with urllib.request.urlopen(address.group(0), timeout=10) as response:
            assert response.read() == b"1"
        message = commands.counter.increment.send()
        wait_until(lambda: message.status() is MessageStatus.COMPLETED, "the role beside the server")
        child.signal(signal.SIGINT)

        assert child.wait() == 0


def test_lines_for_programs(commands: Commands) -> None:
    """With --json each line is an object: what runs, and that it has stopped."""
    with commands.start("work", "--json") as child:
        working = json.loads(child.expect('"event": "working"'))
        child.signal(TERM)

        assert (working["workers"], working["pid"]) == (1, child.pid)
        assert child.wait() == 0
        assert json.loads(child.lines[-1]) == {"event": "stopped", "pid": child.pid}


def test_work_without_tables_says_so(blank_database_url: URL) -> None:
    """Without tables nothing is started: one line and exit code 1."""
    url = blank_database_url.render_as_string(hide_password=False)
    command = ("-m", "flask", "--app", "tests.web.small_app", "solid", "work")
    with Child(*command, env={"SMALL_APP_URL": url}) as child:
        child.expect("flask solid upgrade")

        assert child.wait() == 1
