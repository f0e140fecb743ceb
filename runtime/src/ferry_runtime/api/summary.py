"""Totals for people: the JSON form of /metrics."""

from __future__ import annotations

import time

import msgspec

from ferry_runtime.generation import HITS, CacheOutcome
from ferry_runtime.windows import Window


class MetricsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies are milliseconds over the latest ``window`` answers. ``cache_hit_rate`` is hits over
    hits and misses, 0 before the first; requests that bypass the cache are neither."""

    total_requests: int
    failed_requests: int
    cancelled_requests: int
    cache_hits: int
    cache_misses: int
    cache_hit_rate: float
    avg_latency_ms: float
    p50_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    avg_batch_size: float
    uptime_seconds: float
    window: int


class Summary:
    """Counts for ever, latencies for a window."""

    def __init__(self, window: int = 1024) -> None:
        self.started = time.monotonic()
        self.latencies = Window(window)
        self._answered = self._hits = self._misses = self._failed = self._cancelled = 0

    def answered(self, latency_ms: float, cache: CacheOutcome) -> None:
        self.latencies.add(latency_ms)
        self._answered += 1
        self._hits += cache in HITS
        self._misses += cache is CacheOutcome.MISS

    def failed(self) -> None:
        self._failed += 1

    def cancelled(self) -> None:
        self._cancelled += 1

    def snapshot(self, batch_size: float) -> MetricsSummary:
        lookups = self._hits + self._misses
        latency = self.latencies.spread()
        return MetricsSummary(
            total_requests=self._answered + self._failed + self._cancelled,
            failed_requests=self._failed,
            cancelled_requests=self._cancelled,
            cache_hits=self._hits,
            cache_misses=self._misses,
            cache_hit_rate=self._hits / lookups if lookups else 0.0,
            avg_latency_ms=latency.mean,
            p50_latency_ms=latency.p50,
            p95_latency_ms=latency.p95,
            p99_latency_ms=latency.p99,
            avg_batch_size=batch_size,
            uptime_seconds=time.monotonic() - self.started,
            window=latency.count,
        )
