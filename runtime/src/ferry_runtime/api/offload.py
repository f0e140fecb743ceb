"""Work that grows with the body's size stays off the event loop: probes must stay quick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Bytes or tokens; above this, decoding takes longer than a thread's hop.
OFFLOAD_ABOVE = 16 * 1024

# One thread: each more would add its own turn at the interpreter's lock to what the event loop waits.
_EXECUTOR = ThreadPoolExecutor(1, thread_name_prefix="large-bodies")


async def off_loop(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs ``work`` here when ``size`` is small, in a thread otherwise."""
    if size <= OFFLOAD_ABOVE:
        return work(*args, **kwargs)
    call = partial(work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_EXECUTOR, call)
