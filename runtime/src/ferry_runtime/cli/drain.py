"""`ferry drain`: a pod's preStop hook."""

from __future__ import annotations

import sys
import time

from ferry_runtime.cli.control import ask_to_leave
from ferry_runtime.cli.exits import CommandFailed, Exit


def drain(port: int, delay: float) -> int:
    """Make the server not ready, then wait ``delay`` seconds: it still serves meanwhile.

    Kubernetes sends SIGTERM when this returns; by then no new connections should come.
    """
    if not ask_to_leave(port):
        raise CommandFailed(Exit.NO_SERVER, f"No ferry server answers here for port {port}.")
    sys.stdout.write(f"The server is leaving; waiting {delay:g} s for load balancers.\n")
    sys.stdout.flush()
    time.sleep(delay)
    return Exit.OK
