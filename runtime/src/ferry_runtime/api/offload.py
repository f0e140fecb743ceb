"""Work that grows with the body's size stays off the event loop: probes must stay quick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Bytes or tokens; above this, decoding takes longer than a thread's hop.
OFFLOAD_ABOVE = 16 * 1024


async def off_loop(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs ``work`` here when ``size`` is small, in a thread otherwise."""
    if size <= OFFLOAD_ABOVE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
