"""Who runs out of time next."""

from __future__ import annotations

import heapq
from collections.abc import Container


class Deadlines:
    """(time, job id) in order. Entries of jobs that ended meanwhile are dropped when they are due,
    or when most entries are such."""

    def __init__(self, open_jobs: Container[str]) -> None:
        self._open = open_jobs
        self._heap: list[tuple[float, str]] = []
        self._keep = 64

    def watch(self, time: float, job_id: str) -> None:
        """O(log n) on average."""
        if len(self._heap) >= self._keep:
            self._heap = [entry for entry in self._heap if entry[1] in self._open]
            heapq.heapify(self._heap)
            self._keep = 64 + 2 * len(self._heap)
        heapq.heappush(self._heap, (time, job_id))

    def due(self, now: float) -> list[tuple[float, str]]:
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap))
        return due

    @property
    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)
