"""InferenceServices that wait for a reconcile: each at most once, never two reconciles of one at a time."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable
from enum import IntEnum

from ferry_operator.metrics import Metrics
from ferry_operator.observing.store import Key

_FIRST_DELAY = 0.25  # seconds after a first failure, doubled with each further one
_LONGEST_DELAY = 60.0
_REST = 0.5  # seconds after a reconcile; what Kubernetes makes of it comes as dozens of small changes


class _Again(IntEnum):
    """Whether a key was asked for while it was worked on, and by whom."""

    NO = 0
    YES = 1
    FIRST = 2


class KeyedQueue:
    """Work by key. A key that is asked for while it is worked on is worked on once more afterwards.

    News that follows a reconcile of its key within `rest` seconds waits for their end, so that a burst of it
    is one more reconcile. What a user asks for goes first and does not wait. `jitter` spreads repeated
    attempts, so that what failed together does not come back together.
    """

    def __init__(
        self,
        metrics: Metrics,
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.2),  # noqa: S311  (not a secret)
        rest: float = _REST,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._jitter = jitter
        self._rest = rest
        self._waiting: dict[Key, float] = {}  # in order of arrival
        self._first: dict[Key, None] = {}  # those of them that go first, in order
        self._running: dict[Key, _Again] = {}
        self._rested: dict[Key, float] = {}  # when a key's rest ends
        self._failures: dict[Key, int] = {}
        self._timers: list[tuple[float, Key]] = []
        self._due: dict[Key, float] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key, *, first: bool = False) -> None:
        """Ask for a reconcile, at once or after the key's rest; forgets any later one that was asked for.

        `first`: a user asks.
        """
        if key in self._running:
            self._running[key] = max(self._running[key], _Again.FIRST if first else _Again.YES)
            return
        if first:
            self._first[key] = None
        elif key not in self._waiting and (left := self._rested.get(key, 0.0) - self._clock()) > 0:
            self.add_after(key, left)
            return
        self._due.pop(key, None)
        self._rested.pop(key, None)
        if key not in self._waiting:
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
                key = next(iter(self._first or self._waiting))
                self._first.pop(key, None)
                self._metrics.queue_seconds.observe(self._clock() - self._waiting.pop(key))
                self._running[key] = _Again.NO
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
        self._rested[key] = self._clock() + self._rest
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
        self._first.pop(key, None)
        self._rested.pop(key, None)
        self._report()

    def _finish(self, key: Key) -> None:
        again = self._running.pop(key, _Again.NO)
        if again:
            self.add(key, first=again == _Again.FIRST)

    def _ring(self) -> None:
        now = self._clock()
        while self._timers and self._timers[0][0] <= now:
            at, key = heapq.heappop(self._timers)
            if self._due.get(key) == at:
                self._rested.pop(key, None)
                self.add(key)

    def _report(self) -> None:
        self._metrics.queue_depth.set(len(self._waiting))
        self._changed.set()
