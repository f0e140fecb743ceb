"""How a model's compute threads wait for each other. Imports no torch: it must come before."""

from __future__ import annotations

import os
from collections.abc import MutableMapping


def let_threads_sleep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Make libgomp's threads spin only briefly at the end of a parallel operation.

    By its own choice they spin for milliseconds, and a decode step has hundreds of such operations.
    Where another process runs on the same cores, each operation then waits for the scheduler:
    measured on two cores with other work, a step took 2.5 s instead of 0.3 s. Must be called before
    torch is imported (libgomp reads it when it is loaded). What the environment says already stays.
    """
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", "1000")
