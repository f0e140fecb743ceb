"""Writes that nobody waits for: two bounded queues with a task behind each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.tasks import end
from ferry_runtime.errors import FerryError

log = logging.getLogger(__name__)

Item = tuple[Entry, int]


class Steps(Protocol):
    """Implemented by `publishing.Publisher`. Both take an entry and the number of purges that had
    happened when it was submitted."""

    async def publish(self, entry: Entry, purges: int) -> bool:
        """True when `complete` has something to add."""
        ...

    async def complete(self, entry: Entry, purges: int) -> bool:
        """False when there was nothing to add after all."""
        ...


class Writer:
    """Keeps at most ``capacity`` finished answers waiting for each step; past that a write is given up
    and counted, never the answer. The second step may take long and holds no first step up."""

    def __init__(self, steps: Steps, metrics: CacheMetrics, capacity: int = 1000) -> None:
        self._steps = steps
        self._metrics = metrics
        self._new: asyncio.Queue[Item] = asyncio.Queue(capacity)
        self._incomplete: asyncio.Queue[Item] = asyncio.Queue(capacity)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._run(self._new, self._publish)),
            asyncio.create_task(self._run(self._incomplete, self._complete)),
        ]

    def submit(self, entry: Entry, purges: int) -> None:
        try:
            self._new.put_nowait((entry, purges))
        except asyncio.QueueFull:
            self._metrics.writes.labels("dropped").inc()

    async def drained(self) -> None:
        """Until everything submitted so far has been written or given up."""
        await self._new.join()
        await self._incomplete.join()

    async def stop(self, patience: float = 1.0) -> None:
        if not self._tasks:
            return
        try:
            async with asyncio.timeout(patience):
                await self.drained()
        except TimeoutError:
            self._metrics.writes.labels("dropped").inc(self._new.qsize())
            self._metrics.writes.labels("vector_dropped").inc(self._incomplete.qsize())
        for task in self._tasks:
            await end(task)
        self._tasks = []

    async def _publish(self, entry: Entry, purges: int) -> str:
        if await self._steps.publish(entry, purges):
            try:
                self._incomplete.put_nowait((entry, purges))
            except asyncio.QueueFull:
                self._metrics.writes.labels("vector_dropped").inc()
        return "stored"

    async def _complete(self, entry: Entry, purges: int) -> str:
        return "vector_stored" if await self._steps.complete(entry, purges) else "vector_missing"

    async def _run(self, queue: asyncio.Queue[Item], step: Callable[[Entry, int], Awaitable[str]]) -> None:
        failed = "failed" if queue is self._new else "vector_failed"
        while True:
            entry, purges = await queue.get()
            try:
                self._metrics.writes.labels(await step(entry, purges)).inc()
            except FerryError:
                self._metrics.writes.labels(failed).inc()
            except Exception as error:  # noqa: BLE001 - one bad entry must not end all writing
                self._metrics.writes.labels(failed).inc()
                # Its kind only: a message may quote the entry.
                log.error("cache: a write failed: %s", type(error).__name__, extra={"entry": entry.id})
            finally:
                queue.task_done()
