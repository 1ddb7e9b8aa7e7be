"""Another process for the wake-up tests: ``wakeup_child.py URL REDIS_URL|- listen|send``."""

from __future__ import annotations

import sys
import time

import sqlalchemy

from tests.actors import RuntimeUnderTest


def listen(runtime: RuntimeUnderTest) -> None:
    """Print the time of every wake-up, by the clock that all processes of a machine share, until killed."""
    wake_ups = runtime.runtime.wake_ups
    with wake_ups.watch_work() as watch:
        wake_ups.start()
        wake_ups.wait_probed(10)
        while watch.wait(0.3):
            # The start of the transport wakes once.
            pass
        print("ready", flush=True)
        while True:
            if watch.wait(60):
                print(f"woken {time.time()}", flush=True)


def main(url: str, redis_url: str, role: str) -> None:
    runtime = RuntimeUnderTest(sqlalchemy.make_url(url), redis_url=None if redis_url == "-" else redis_url)
    if role == "listen":
        listen(runtime)
    # And ends at once, as a short script does, without closing anything.
    runtime.journal("a").add.send(entry="x")


if __name__ == "__main__":
    main(*sys.argv[1:4])
