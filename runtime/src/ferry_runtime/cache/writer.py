"""Writes that nobody waits for: a bounded queue and one task behind it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ferry_runtime.cache.entry import Entry
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.tasks import end
from ferry_runtime.errors import FerryError

log = logging.getLogger(__name__)

# Takes an entry and the number of purges that had happened when it was submitted.
Write = Callable[[Entry, int], Awaitable[None]]


class Writer:
    """Keeps at most ``capacity`` finished answers waiting; past that a write is given up and
    counted, never the answer."""

    def __init__(self, write: Write, metrics: CacheMetrics, capacity: int = 1000) -> None:
        self._write = write
        self._metrics = metrics
        self._queue: asyncio.Queue[tuple[Entry, int]] = asyncio.Queue(capacity)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def submit(self, entry: Entry, purges: int) -> None:
        try:
            self._queue.put_nowait((entry, purges))
        except asyncio.QueueFull:
            self._metrics.writes.labels("dropped").inc()

    async def drained(self) -> None:
        """Until everything submitted so far has been written or given up."""
        await self._queue.join()

    async def stop(self, patience: float = 1.0) -> None:
        if self._task is None:
            return
        try:
            async with asyncio.timeout(patience):
                await self._queue.join()
        except TimeoutError:
            self._metrics.writes.labels("dropped").inc(self._queue.qsize())
        await end(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            entry, purges = await self._queue.get()
            try:
                await self._write(entry, purges)
                self._metrics.writes.labels("stored").inc()
            except FerryError:
                self._metrics.writes.labels("failed").inc()
            except Exception as error:  # noqa: BLE001 - one bad entry must not end all writing
                self._metrics.writes.labels("failed").inc()
                # Its kind only: a message may quote the entry.
                log.error("cache: a write failed: %s", type(error).__name__, extra={"entry": entry.id})
            finally:
                self._queue.task_done()
