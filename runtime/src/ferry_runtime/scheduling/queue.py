"""The waiting requests in the order of their score."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from ferry_runtime.scheduling.job import Job
from ferry_runtime.scheduling.score import handicap

# (job, pressure, ageing seconds) -> seconds behind its arrival.
Handicap = Callable[[Job, float, float], float]

# The order is computed anew when the load has changed by this factor: seldom enough that a push
# stays O(log n) on average, often enough that the order follows the load.
_DRIFT = 1.5


def by_score(job: Job, pressure: float, ageing: float) -> float:
    return handicap(job.priority, job.cost, pressure, ageing)


def first_come_first_served(job: Job, pressure: float, ageing: float) -> float:  # noqa: ARG001
    """The yardstick that the score is measured against."""
    return 0.0


class WaitingQueue:
    """Push, pop and remove in O(log n) on average (a removed job's key is dropped when it
    surfaces, or when half of the heap is such keys)."""

    def __init__(self, policy: Handicap = by_score) -> None:
        self._policy = policy
        self._jobs: dict[str, Job] = {}  # in order of admission
        self._orders: dict[str, int] = {}
        self._heap: list[tuple[float, int, int, str]] = []
        self._order = 0
        self._pressure = 0.0
        self._ageing = 0.0

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs

    def __iter__(self) -> Iterator[Job]:
        """In order of admission."""
        return iter(self._jobs.values())

    def push(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._orders[job.id] = self._order
        self._order += 1
        heapq.heappush(self._heap, self._key(job))

    def remove(self, job_id: str) -> None:
        del self._jobs[job_id]
        del self._orders[job_id]
        if len(self._heap) > 2 * len(self._jobs) + 8:
            self._rebuild()

    def replace(self, job: Job) -> None:
        """The same request with another priority; it keeps its arrival."""
        self._jobs[job.id] = job
        self._rebuild()

    def follow(self, pressure: float, ageing: float) -> None:
        """Let the order follow the load."""
        steady = self._pressure / _DRIFT <= pressure <= self._pressure * _DRIFT
        if not steady or ageing != self._ageing:
            self._pressure, self._ageing = pressure, ageing
            self._rebuild()

    def peek(self) -> Job | None:
        while self._heap:
            _, _, order, job_id = self._heap[0]
            if self._orders.get(job_id) == order:
                return self._jobs[job_id]
            heapq.heappop(self._heap)
        return None

    def best(self, count: int) -> list[Job]:
        """The first ``count`` in order; O(n)."""
        keys = heapq.nsmallest(count, (self._key(job) for job in self))
        return [self._jobs[job_id] for *_, job_id in keys]

    def rank(self, job: Job) -> tuple[float, int]:
        """Where a job stands in the order, waiting or not: lower goes first."""
        return (job.arrival + self._policy(job, self._pressure, self._ageing), job.priority)

    def _key(self, job: Job) -> tuple[float, int, int, str]:
        return (*self.rank(job), self._orders[job.id], job.id)

    def _rebuild(self) -> None:
        self._heap = [self._key(job) for job in self]
        heapq.heapify(self._heap)
