"""Ending background tasks for certain."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel until it is over. Once is not enough: a network client that is cancelled while it cleans
    up after a timeout may turn the cancellation into an error of its own (seen with redis-py)."""
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.2)
