"""Gives memory back to the system after large bodies.

glibc keeps what was freed among what is still in use: after one prompt of four megabytes the process
would stay half a gigabyte larger.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

# Bytes of a body; smaller ones leave little behind.
LARGE_BODY = 256 * 1024
# Between a large body's end and the trim: several of them are paid for once.
_DELAY_SECONDS = 1.0


class Trimmer:
    """Belongs to one event loop; the work itself is done in a thread."""

    def __init__(self, delay_seconds: float = _DELAY_SECONDS) -> None:
        self._delay = delay_seconds
        self._trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        self._planned = False

    def soon(self) -> None:
        """Trim in a moment, unless that is planned already."""
        if self._trim is not None and not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_later(self._delay, self._start)

    def _start(self) -> None:
        self._planned = False
        if self._trim is not None:  # ctypes lets go of the interpreter's lock meanwhile
            asyncio.get_running_loop().run_in_executor(None, self._trim, 0)
