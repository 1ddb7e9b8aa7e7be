"""``flask solid work`` and ``flask solid dev``: run the background roles, alone or beside the web server."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

import click
from flask import current_app
from flask.cli import with_appcontext
from werkzeug.serving import make_server

from flask_solid_objects.cli.current import current_runtime
from flask_solid_objects.cli.output import command_errors
from flask_solid_objects.runtime.process_group import ProcessGroup


@click.command("work")
@click.option("--workers", type=click.IntRange(1, 256), default=None, help="Worker threads in each process.")
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Operating-system processes."
)
@with_appcontext
@command_errors
def work_command(workers: int | None, processes: int) -> None:
    """Run workers and maintenance until TERM or Ctrl-C; a second one ends at once."""
    show_log()
    runtime = current_runtime()
    count = workers if workers is not None else runtime.settings.worker_count
    runtime.check_schema()
    if processes > 1:
        group = ProcessGroup(_command_line(count), processes, runtime.core)
        stop_on_signals(group.stop)
        group.run()
        return
    supervisor = runtime.supervisor(workers=count)
    stop_on_signals(supervisor.stop)
    capability = runtime.wake_ups.capability
    click.echo(f"Working: {count} workers, 1 maintenance; wake-ups by {capability.adapter} ({capability.reason}).")
    supervisor.run()
    runtime.close()
    click.echo("Stopped.")


@click.command("dev")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=5000, show_default=True, help="0 for any free port.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker threads.")
@with_appcontext
@command_errors
def dev_command(host: str, port: int, workers: int) -> None:
    """Run the web server and the roles in one process, for development; Ctrl-C stops both."""
    show_log()
    runtime = current_runtime()
    runtime.check_schema()
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    server = make_server(host, port, app, threaded=True)
    supervisor = runtime.supervisor(workers=workers)
    serving = threading.Thread(target=server.serve_forever, name="solid-web", daemon=True)

    stop_on_signals(supervisor.stop)
    serving.start()
    click.echo(f"Open http://{host}:{server.server_port}/ (Ctrl-C to stop; {workers} workers run beside it)")
    try:
        supervisor.run()
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
        runtime.close()
    click.echo("Stopped.")


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


def _command_line(workers: int) -> list[str]:
    """This command again, for one process; --app and everything before `solid` as it was given."""
    given = sys.argv[1:]
    before = given[: given.index("solid")] if "solid" in given else []
    return [sys.executable, "-m", "flask", *before, "solid", "work", "--workers", str(workers), "--processes", "1"]
