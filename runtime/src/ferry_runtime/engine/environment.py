"""What an engine process's libraries read from its environment while they are loaded.

Imports nothing heavy: it is used before torch is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

# libgomp's threads spin for milliseconds at the end of a parallel operation, and a decode step has
# hundreds of those. Where another process computes on the same cores, each then waits for the
# scheduler: measured on two cores, a step took 730 ms instead of 65. Sleeping at once costs a wake-up
# per operation. So many turns bridge the gaps within a step (62 to 66 ms), and cost 160 ms at worst.
_SPIN = {"GOMP_SPINCOUNT": "10000"}

# A step reads every weight once, from memory that small pages make slow to walk: measured, the
# products of a step of 8 rows take 35 ms instead of 42, of 64 rows 102 instead of 124. Only glibc
# reads it, from 2.35 on, and the kernel takes it as advice.
_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def engine_environment(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables to add for an engine process. What ``given`` says already stays."""
    added = {} if "OMP_WAIT_POLICY" in given else _SPIN
    return {name: value for name, value in (added | _LARGE_PAGES).items() if name not in given}
