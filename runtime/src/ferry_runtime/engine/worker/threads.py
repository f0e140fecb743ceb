"""How many threads to compute with: the processors that this process may really use."""

from __future__ import annotations

import math
import os
from pathlib import Path


def compute_threads(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """OMP_NUM_THREADS where it is set, else the processors of the affinity mask, or the container's
    quota if that is less: threads beyond a quota only make the kernel stop all of them."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return processors if quota is None else max(1, min(processors, math.ceil(quota)))


def _quota(cgroup: Path) -> float | None:
    """Processors per the control group's limit (v2, then v1); None without one."""
    try:
        limit, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return int(limit) / int(period) if limit.isdecimal() else None  # "max" and "-1": no limit
