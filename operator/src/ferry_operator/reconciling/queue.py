"""InferenceServices that wait for a reconcile: each at most once, never two reconciles of one at a time."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable

from ferry_operator.metrics import Metrics
from ferry_operator.observing.store import Key

_FIRST_DELAY = 0.25  # seconds after a first failure, doubled with each further one
_LONGEST_DELAY = 60.0


class KeyedQueue:
    """Work by key. A key that is asked for while it is worked on is worked on once more afterwards.

    `jitter` spreads repeated attempts, so that what failed together does not come back together.
    """

    def __init__(
        self,
        metrics: Metrics,
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2),  # noqa: S311  (not a secret)
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._jitter = jitter
        self._waiting: dict[Key, float] = {}  # in order of arrival
        self._running: dict[Key, bool] = {}  # whether it was asked for again
        self._failures: dict[Key, int] = {}
        self._timers: list[tuple[float, Key]] = []
        self._due: dict[Key, float] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key) -> None:
        """Ask for a reconcile now; forgets any later one that was asked for."""
        self._due.pop(key, None)
        if key in self._running:
            self._running[key] = True
        elif key not in self._waiting:
            self._waiting[key] = self._clock()
            self._report()

    def add_after(self, key: Key, delay: float) -> None:
        """Ask for a reconcile in `delay` seconds, or at the earlier time already asked for."""
        at = self._clock() + delay
        if key in self._waiting or at >= self._due.get(key, float("inf")):
            return
        self._due[key] = at
        heapq.heappush(self._timers, (at, key))
        self._changed.set()

    async def get(self) -> Key:
        """The next key. The caller ends with `done` or `failed`."""
        while True:
            self._ring()
            if self._waiting:
                key = next(iter(self._waiting))
                self._metrics.queue_seconds.observe(self._clock() - self._waiting.pop(key))
                self._running[key] = False
                self._report()
                return key
            self._changed.clear()
            delay = self._timers[0][0] - self._clock() if self._timers else None
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: Key) -> None:
        """The reconcile came to its end."""
        self._failures.pop(key, None)
        self._finish(key)

    def failed(self, key: Key) -> float:
        """The reconcile is to be repeated, later each time. Returns the delay in seconds.

        News about the key does not wait for the delay, so a fix is never held back by the failures before it.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(_FIRST_DELAY * 2.0 ** min(failures, 16), _LONGEST_DELAY) * self._jitter()
        self._finish(key)
        self.add_after(key, delay)
        return delay

    def forget(self, key: Key) -> None:
        """Nothing is to be done for this key any more."""
        self._failures.pop(key, None)
        self._due.pop(key, None)
        self._waiting.pop(key, None)
        self._report()

    def _finish(self, key: Key) -> None:
        if self._running.pop(key, False):
            self.add(key)

    def _ring(self) -> None:
        now = self._clock()
        while self._timers and self._timers[0][0] <= now:
            at, key = heapq.heappop(self._timers)
            if self._due.get(key) == at:
                self.add(key)

    def _report(self) -> None:
        self._metrics.queue_depth.set(len(self._waiting))
        self._changed.set()
