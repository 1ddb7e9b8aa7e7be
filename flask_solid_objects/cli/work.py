"""``flask solid work`` and ``flask solid dev``: run the background roles, alone or beside the web server."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from types import FrameType

import click
from flask import current_app
from flask.cli import with_appcontext
from werkzeug.serving import make_server

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.output import command_errors, json_option
from flask_solid_objects.runtime.process_group import ProcessGroup
from flask_solid_objects.runtime.runtime import RoleCounts


@click.command("work")
@click.option("--workers", type=click.IntRange(0, 256), default=None, help="Worker threads in each process.")
@click.option("--effects", type=click.IntRange(0, 256), default=None, help="Threads that run effects.")
@click.option("--reminders", type=click.IntRange(0, 64), default=None, help="Threads that ring reminders.")
@click.option("--broadcasts", type=click.IntRange(0, 64), default=None, help="Threads that deliver broadcasts.")
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Operating-system processes."
)
@json_option
@with_appcontext
@command_errors
def work_command(
    workers: int | None,
    effects: int | None,
    reminders: int | None,
    broadcasts: int | None,
    processes: int,
    as_json: bool,
) -> None:
    """Run the background roles until TERM or Ctrl-C; a second one ends at once."""
    show_log()
    runtime = current_runtime()
    given = {"workers": workers, "effects": effects, "reminders": reminders, "broadcasts": broadcasts}
    chosen = {name: count for name, count in given.items() if count is not None}
    counts = replace(RoleCounts.of(runtime.settings), **chosen)
    runtime.check_schema()
    if processes > 1:
        group = ProcessGroup(_command_line(counts, as_json=as_json), processes, runtime.core)
        stop_on_signals(group.stop)
        group.run()
        return
    supervisor = runtime.supervisor(counts)
    stop_on_signals(supervisor.stop)
    capability, roles = runtime.wake_ups.capability, asdict(counts)
    listed = ", ".join(f"{count} {role}" for role, count in roles.items())
    text = f"Working: {listed}; wake-ups by {capability.adapter} ({capability.reason})."
    _tell(as_json, "working", text, pid=os.getpid(), **roles, wake_up=capability.adapter)
    supervisor.run()
    runtime.close()
    _tell(as_json, "stopped", "Stopped.", pid=os.getpid())


@click.command("dev")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=5000, show_default=True, help="0 for any free port.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker threads.")
@json_option
@with_appcontext
@command_errors
def dev_command(host: str, port: int, workers: int, as_json: bool) -> None:
    """Run the web server and the roles in one process, for development; Ctrl-C stops both."""
    show_log()
    runtime = current_runtime()
    runtime.check_schema()
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    server = make_server(host, port, app, threaded=True)
    supervisor = runtime.supervisor(RoleCounts(workers=workers))
    serving = threading.Thread(target=server.serve_forever, name="solid-web", daemon=True)

    stop_on_signals(supervisor.stop)
    serving.start()
    address = f"http://{host}:{server.server_port}/"
    text = f"Open {address} (Ctrl-C to stop; {workers} {'worker runs' if workers == 1 else 'workers run'} beside it)"
    _tell(as_json, "serving", text, pid=os.getpid(), address=address, workers=workers)
    try:
        supervisor.run()
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
        runtime.close()
    _tell(as_json, "stopped", "Stopped.", pid=os.getpid())


def _tell(as_json: bool, event: str, text: str, **values: object) -> None:
    """One line: a sentence, or an object for programs."""
    click.echo(json.dumps({"event": event, **values}) if as_json else text)


def stop_on_signals(stop: Callable[[], None]) -> None:
    """The first INT or TERM stops in order, the second at once; only where signals can be handled."""
    if threading.current_thread() is not threading.main_thread():
        return
    received: list[int] = []
    reading, writing = os.pipe()

    def handle(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            # What runs now is recovered by its lease's expiry.
            os._exit(128 + number)
        # Only system calls here: the interrupted code may hold the very lock that stop() or a stream needs.
        os.write(2, b"Stopping; what runs may finish. A second signal ends at once.\n")
        os.write(writing, b"x")

    def wait() -> None:
        os.read(reading, 1)
        stop()

    threading.Thread(target=wait, name="solid-signals", daemon=True).start()
    for name in ("SIGINT", "SIGTERM"):
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, handle)


def show_log() -> None:
    """Print the package's own log when the application has not set up any."""
    log = logging.getLogger("flask_solid_objects")
    if not log.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def _command_line(counts: RoleCounts, *, as_json: bool) -> list[str]:
    """This command again, for one process; --app and everything before `solid` as it was given."""
    given = sys.argv[1:]
    before = given[: given.index("solid")] if "solid" in given else []
    roles = [f"--{name}={getattr(counts, name)}" for name in ("workers", "effects", "reminders", "broadcasts")]
    command = [sys.executable, "-m", "flask", *before, "solid", "work", *roles, "--processes", "1"]
    return [*command, "--json"] if as_json else command
