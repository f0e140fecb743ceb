"""Work that ends when its client leaves.

Starlette's BaseHTTPMiddleware and a plain ``await`` both hide a disconnect until the next write;
here the connection is watched all the time, queued or generating, streamed or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from ferry_runtime.api.errors import ClientDisconnected

T = TypeVar("T")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Runs ``work``, cancelling it as soon as the client disconnects (ClientDisconnected).

    The request's body must have been read. When it returns or raises, ``work`` has ended.
    """
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnected
    finally:
        watcher.cancel()
        if not task.done():
            task.cancel()
        # Cleaning up may take a moment; a second cancellation must not skip it.
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
