"""What gunicorn's workers need for sockets; for a ``gunicorn.conf.py``::

    def post_worker_init(worker):
        from flask_solid_objects.web.gunicorn import tell_application

        tell_application(worker)

With it a worker that ends closes its sockets with "restart" at once, instead of waiting for them until the graceful
timeout, and refuses sockets that would leave no thread, or no connection, for ordinary requests. The import belongs
into the function: there gevent has patched what this package and the database's driver use, and before it has not.
"""

from __future__ import annotations

from typing import Any

from flask_solid_objects.web.serving import Serving, Told

# Enough for the ordinary requests of the pages that hold the sockets.
_FREE_THREADS, _FREE_CONNECTIONS = 10, 100


def tell_application(worker: Any) -> None:
    """Tell the application about its worker, of which it is then told in every request."""
    worker.wsgi = Told(
        worker.wsgi,
        Serving(
            is_alive=lambda: bool(worker.alive),
            most_sockets=most_sockets(worker.cfg.worker_class_str, worker.cfg.threads, worker.cfg.worker_connections),
        ),
    )


def most_sockets(worker_class: str, threads: int, connections: int) -> int:
    """How many sockets leave a worker room for ordinary requests; half of it when it is small."""
    places = connections - min(_FREE_CONNECTIONS, connections // 2)
    if "gevent" in worker_class or "eventlet" in worker_class:
        return places
    # Each socket holds a thread; a worker with one serves no sockets at all.
    return min(places, threads - min(_FREE_THREADS, (threads + 1) // 2))
