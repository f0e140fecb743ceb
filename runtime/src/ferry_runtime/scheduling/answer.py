"""An admitted request: what its sequences generate on one side, whoever reads it on the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from ferry_runtime.engine.protocol import Delta
from ferry_runtime.engine.stream import merge
from ferry_runtime.errors import FerryError
from ferry_runtime.generation import CacheInfo, ChoiceDelta

# A reader this many deltas behind gets them as one.
_COALESCE_AT = 32


@dataclass(slots=True)
class Timeline:
    """Monotonic seconds; None until it happened."""

    arrival: float
    started: float | None = None
    first_token: float | None = None
    ended: float | None = None


class ScheduledAnswer:
    """Implements `generation.Answer` over n sequences.

    Writing never waits: what a slow reader has not fetched is merged, so its buffer holds at most
    `_COALESCE_AT` deltas per choice and never more than the answer itself.
    """

    def __init__(
        self,
        *,
        choices: int,
        timeline: Timeline,
        cancel: Callable[[], None],
        raise_priority: Callable[[int], None],
    ) -> None:
        self.timeline = timeline
        self._unfinished = choices
        self._pending: dict[int, list[Delta]] = {}
        self._error: FerryError | None = None
        self._closed = False
        self._reader: asyncio.Future[None] | None = None
        self._cancel = cancel
        self._raise_priority = raise_priority

    @property
    def cache(self) -> CacheInfo:
        return CacheInfo()

    @property
    def done(self) -> bool:
        """Nothing more will be generated."""
        return self._unfinished == 0 or self._error is not None or self._closed

    def raise_priority(self, priority: int) -> None:
        """A more urgent request has come to depend on this one; lower numbers are more urgent."""
        self._raise_priority(priority)

    # The engine's side.

    def push(self, index: int, delta: Delta) -> None:
        if self._error is not None or self._closed:
            return
        pending = self._pending.setdefault(index, [])
        pending.append(delta)
        if len(pending) > _COALESCE_AT:
            pending[:] = [merge(pending)]
        if delta.finish_reason is not None:
            self._unfinished -= 1
        self._wake()

    def fail(self, error: FerryError) -> None:
        """End with an error, after what was already generated."""
        if not self.done:
            self._error = error
            self._wake()

    # The reader's side.

    def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        return self

    async def __anext__(self) -> ChoiceDelta:
        while not self._pending:
            if self._error is not None:
                raise self._error
            if self._unfinished == 0 or self._closed:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        index = next(iter(self._pending))
        return ChoiceDelta(index, merge(self._pending.pop(index)))

    async def aclose(self) -> None:
        if not self.done:
            self._closed = True
            self._cancel()
            self._wake()
        self._closed = True
        self._pending.clear()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
