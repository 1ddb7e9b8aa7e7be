"""One process of the load campaign: issues its share of operations, and works, until it is stopped or killed.

``load_child.py URL SHARE SHARES OPERATIONS ACTORS``. Every operation has an idempotency key, so that a replacement of a
killed process can issue the whole share again.
"""

from __future__ import annotations

import sys
import threading
import traceback

import sqlalchemy

from flask_solid_objects.cli.work import stop_on_signals
from flask_solid_objects.runtime.runtime import RoleCounts
from tests.actors import RuntimeUnderTest

LEASE = 2.0


def main(url: str, share: int, shares: int, operations: int, actors: int) -> None:
    runtime = RuntimeUnderTest(
        sqlalchemy.make_url(url), lease_duration=LEASE, lease_renewal_interval=0.5, process_alive_threshold=20.0
    )
    supervisor = runtime.runtime.supervisor(RoleCounts(workers=1, effects=0, reminders=0, broadcasts=0))
    stop_on_signals(supervisor.stop)
    client = threading.Thread(target=issue, args=(runtime, share, shares, operations, actors))
    client.start()
    supervisor.run()
    client.join()
    runtime.close()
    print("stopped", flush=True)


def issue(runtime: RuntimeUnderTest, share: int, shares: int, operations: int, actors: int) -> None:
    """Send and call in turn; any error is printed, and is a failure of the campaign."""
    try:
        for number in range(share, operations, shares):
            add = runtime.journal(str(number % actors)).add
            if number % 3 == 0:
                add.using(idempotency_key=str(number), timeout=30)(entry=str(number))
            else:
                add.using(idempotency_key=str(number)).send(entry=str(number))
    except BaseException:
        print("ERROR " + traceback.format_exc().replace("\n", " | "), flush=True)
    else:
        print("issued", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *(int(argument) for argument in sys.argv[2:6]))
