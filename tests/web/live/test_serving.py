"""How many sockets leave a worker room for requests."""

from __future__ import annotations

import pytest

from flask_solid_objects.web.gunicorn import most_sockets


@pytest.mark.parametrize(
    ("worker_class", "threads", "connections", "most"),
    [
        ("gthread", 120, 1000, 110),
        ("gthread", 8, 1000, 4),
        ("gthread", 2, 1000, 1),
        ("gthread", 1, 1000, 0),
        ("gthread", 2000, 1000, 900),
        ("sync", 1, 1000, 0),
        ("gevent", 1, 1000, 900),
        ("gunicorn.workers.ggevent.GeventPyWSGIWorker", 1, 50, 25),
    ],
)
def test_a_worker_keeps_threads_and_connections_free(
    worker_class: str, threads: int, connections: int, most: int
) -> None:
    """Ten threads and a hundred connections stay free, and half of them in a small worker."""
    assert most == most_sockets(worker_class, threads, connections)
