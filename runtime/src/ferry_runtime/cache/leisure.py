"""Work for the moments in which nobody waits for an answer."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ferry_runtime.cache.tasks import end
from ferry_runtime.errors import FerryError

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_EVERY = 0.25  # seconds
_QUIET_LOOKS = 8  # in a row, before anything is done for ourselves


class Leisure(Generic[T]):
    """Hands the newest ``limit`` items to ``handle``, one at a time and only after a quiet while.

    ``idle`` tells whether no client's request is open. ``handle`` returns False of an item that it gave
    up because somebody came: that one is tried again, unless newer ones have taken its place. An item
    that cannot be handled is dropped; what is done here is never owed to anybody.
    """

    def __init__(
        self, handle: Callable[[T], Awaitable[bool]], idle: Callable[[], bool], *, limit: int, what: str
    ) -> None:
        self._handle = handle
        self._idle = idle
        self._what = what
        self._items: deque[T] = deque(maxlen=limit)
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        await end(self._task)

    def add(self, item: T) -> None:
        self._items.append(item)
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            await self._quiet()
            item = self._items.popleft()
            if not await self._handled(item) and len(self._items) != self._items.maxlen:
                self._items.appendleft(item)
            if not self._items:
                self._wanted.clear()

    async def _handled(self, item: T) -> bool:
        try:
            return await self._handle(item)
        except FerryError:
            return True  # it cannot be done now, and need not be
        except Exception as error:  # noqa: BLE001 - one bad item must not end all
            # Its kind only: a message may quote an answer.
            log.error("cache: %s failed: %s", self._what, type(error).__name__)
            return True

    async def _quiet(self) -> None:
        """Until nobody has been waiting for a while."""
        looks = 0
        while looks < _QUIET_LOOKS:
            await asyncio.sleep(_LOOK_EVERY)
            looks = looks + 1 if self._idle() else 0
