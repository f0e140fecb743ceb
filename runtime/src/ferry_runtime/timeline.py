"""The last minutes in buckets, as the dashboard draws them. A ring: nothing grows while serving.

Pure but for the clock that it is given; one event loop feeds it.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from ferry_runtime.generation import CacheOutcome
from ferry_runtime.windows import Sketch

BUCKET_SECONDS = 2
BUCKETS = 150  # five minutes


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Whole buckets, oldest first, ``step_seconds`` apart; the newest one ended at ``end`` (Unix
    seconds). Counts are per bucket, latencies are milliseconds and None where nothing ended;
    ``running`` and ``waiting`` are the peaks of a bucket, ``rows`` is the mean of its decode steps."""

    step_seconds: int
    end: float
    answers: dict[str, list[int]]  # by where they came from, in CacheOutcome's order
    unanswered: list[int]  # failed, timed out or cancelled
    refused: list[int]
    tokens: list[int]
    latency_p50: list[float | None]
    latency_p95: list[float | None]
    latency_p99: list[float | None]
    first_token_p50: list[float | None]
    first_token_p95: list[float | None]
    rows: list[float]
    running: list[int]
    waiting: list[int]


@dataclass(slots=True)
class _Bucket:
    number: int
    answers: Counter[CacheOutcome] = field(default_factory=Counter)
    unanswered: int = 0
    refused: int = 0
    tokens: int = 0
    steps: int = 0
    rows: int = 0
    running: int = 0
    waiting: int = 0
    latency: Sketch = field(default_factory=Sketch)
    first_token: Sketch = field(default_factory=Sketch)


class Timeline:
    """``clock`` gives Unix seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._ring: deque[_Bucket] = deque(maxlen=BUCKETS + 1)
        self._running = self._waiting = 0

    def answered(self, cache: CacheOutcome, seconds: float) -> None:
        bucket = self._now()
        bucket.answers[cache] += 1
        bucket.latency.add(seconds * 1000)

    def unanswered(self) -> None:
        self._now().unanswered += 1

    def refused(self) -> None:
        self._now().refused += 1

    def first_token(self, seconds: float) -> None:
        self._now().first_token.add(seconds * 1000)

    def generated(self, tokens: int) -> None:
        self._now().tokens += tokens

    def stepped(self, rows: int) -> None:
        bucket = self._now()
        bucket.steps += 1
        bucket.rows += rows

    def level(self, running: int, waiting: int) -> None:
        """Sequences in the engine's slots and requests in the queue from now on."""
        bucket = self._now()  # the buckets until now had the former level
        self._running, self._waiting = running, waiting
        bucket.running = max(bucket.running, running)
        bucket.waiting = max(bucket.waiting, waiting)

    def columns(self) -> Columns:
        self._now()
        newest = self._number()
        held = {bucket.number: bucket for bucket in self._ring}
        buckets = [held.get(n) or _Bucket(n) for n in range(newest - BUCKETS, newest)]
        sketches = [(bucket.latency, bucket.first_token) for bucket in buckets]
        return Columns(
            step_seconds=BUCKET_SECONDS,
            end=float(newest * BUCKET_SECONDS),
            answers={kind.value: [bucket.answers[kind] for bucket in buckets] for kind in CacheOutcome},
            unanswered=[bucket.unanswered for bucket in buckets],
            refused=[bucket.refused for bucket in buckets],
            tokens=[bucket.tokens for bucket in buckets],
            latency_p50=[_rounded(latency.quantile(0.50)) for latency, _ in sketches],
            latency_p95=[_rounded(latency.quantile(0.95)) for latency, _ in sketches],
            latency_p99=[_rounded(latency.quantile(0.99)) for latency, _ in sketches],
            first_token_p50=[_rounded(first.quantile(0.50)) for _, first in sketches],
            first_token_p95=[_rounded(first.quantile(0.95)) for _, first in sketches],
            rows=[round(bucket.rows / bucket.steps, 2) if bucket.steps else 0.0 for bucket in buckets],
            running=[bucket.running for bucket in buckets],
            waiting=[bucket.waiting for bucket in buckets],
        )

    def _number(self) -> int:
        return int(self._clock() // BUCKET_SECONDS)

    def _now(self) -> _Bucket:
        """The current bucket. Those that passed without an event begin at the last known level."""
        number = self._number()
        last = self._ring[-1].number if self._ring else number - 1
        # A clock that was set back keeps writing into the newest bucket.
        for missing in range(max(last + 1, number - BUCKETS), number + 1):
            self._ring.append(_Bucket(missing, running=self._running, waiting=self._waiting))
        return self._ring[-1]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
