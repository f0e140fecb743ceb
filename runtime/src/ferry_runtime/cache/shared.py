"""The tier that all replicas share, behind deadlines and breakers.

Reads and writes have a breaker each: a full or read-only store still answers lookups. Nobody's
request pays for finding out that the store is back; a background task asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.tasks import end
from ferry_runtime.errors import StoreBusy, StoreError, StoreRefused, StoreUnavailable
from ferry_runtime.store.breaker import Breaker, BreakerState
from ferry_runtime.store.redis_store import Record, RedisStore

T = TypeVar("T")
log = logging.getLogger(__name__)


class SharedTier:
    """Raises StoreError where the caller must tell absent from unreachable."""

    def __init__(self, store: RedisStore, metrics: CacheMetrics) -> None:
        self.store = store
        self._metrics = metrics
        self._reads = Breaker()
        self._writes = Breaker()
        self._prober: asyncio.Task[None] | None = None

    @property
    def reachable(self) -> bool:
        return self._reads.allows()

    @property
    def writable(self) -> bool:
        return self._writes.allows()

    async def start(self) -> None:
        self._prober = asyncio.create_task(self._probe())

    async def stop(self) -> None:
        await end(self._prober)
        with contextlib.suppress(Exception):
            await self.store.close()

    async def get(self, entry_id: str) -> bytes | None:
        """None: the store has no such entry. Raises StoreError when it cannot say."""
        if not self._reads.allows():
            raise StoreUnavailable("the store is not being asked until it answers again")
        started = time.perf_counter()
        try:
            return await self._guard("read", self._reads, lambda: self.store.get(entry_id))
        finally:
            self._metrics.store_seconds.observe(time.perf_counter() - started)

    async def put(self, record: Record, *, now: float, quota: int) -> list[str]:
        """Ids beyond the tenant's quota. Raises StoreError: the answer itself is never affected."""
        if not self._writes.allows() and not self._writes.probe_due(time.monotonic()):
            raise StoreUnavailable("the store is not being written to until it accepts again")
        return await self._guard("write", self._writes, lambda: self.store.put(record, now=now, quota=quota))

    async def _guard(self, path: str, breaker: Breaker, call: Callable[[], Awaitable[T]]) -> T:
        try:
            result = await call()
        except StoreBusy:
            self._metrics.pool_waits.inc()
            if breaker.state is BreakerState.PROBING:
                breaker.failed(time.monotonic())
            raise
        except StoreError as error:
            kind = "refused" if isinstance(error, StoreRefused) else "unavailable"
            self._metrics.store_errors.labels(path, kind).inc()
            if path == "write" or kind == "unavailable":
                self._note_failure(path, breaker, error)
            raise
        except asyncio.CancelledError:
            if breaker.state is BreakerState.PROBING:
                breaker.failed(time.monotonic())
            raise
        if breaker.succeeded():
            self._note_success(path)
        return result

    def _note_failure(self, path: str, breaker: Breaker, error: StoreError) -> None:
        if breaker.failed(time.monotonic()):
            self._metrics.breaker.labels(path).set(1)
            log.warning("cache: %ss at store %s stopped: %s", path, self.store.address.label, error)

    def _note_success(self, path: str) -> None:
        self._metrics.breaker.labels(path).set(0)
        log.info("cache: %ss at store %s work again", path, self.store.address.label)

    async def _probe(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            if self._reads.probe_due(time.monotonic()):
                with contextlib.suppress(StoreError):
                    await self._guard("read", self._reads, self.store.ping)
