"""How many replicas a load needs, and when to follow it. Pure.

The need is a count that follows from the load alone, not a step up or down from the present count: so pods
that take minutes to load their weights are asked for once, not once more with each look at the queue.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Load:
    """What one pod does at a moment: requests in its queue, and sequences in its batch."""

    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a resource's spec says about its replicas."""

    least: int
    most: int
    waiting: int
    """Requests per replica that may wait."""
    slots: int
    """Requests per replica that run together."""
    delay: float
    """Seconds for which the need must have been lower before a replica goes."""


def needed(loads: Sequence[Load], bounds: Bounds) -> int:
    """Replicas that run the load with no more than the target of requests waiting at each, evenly spread."""
    demand = sum(load.waiting + load.running for load in loads)
    return math.ceil(demand / (bounds.slots + bounds.waiting))


@dataclass
class History:
    """The needs of the last while, for one resource. Lost with the process, and safely so: it starts anew."""

    begun: float
    _highest: deque[tuple[float, int]] = field(default_factory=deque)
    """Falling needs with their times: each is the highest since the one before it."""

    def note(self, now: float, need: int) -> None:
        """Take in the need of this moment."""
        while self._highest and self._highest[-1][1] <= need:
            self._highest.pop()
        self._highest.append((now, need))

    def highest(self, now: float, delay: float) -> int | None:
        """The highest need of the last `delay` seconds; None if they have not all been watched."""
        if now - self.begun < delay:
            return None
        while len(self._highest) > 1 and self._highest[0][0] < now - delay:
            self._highest.popleft()
        return self._highest[0][1] if self._highest else None


def wanted(current: int, need: int, bounds: Bounds, highest: int | None) -> int:
    """Replicas to have now. More at once; fewer once the need has been lower throughout the delay.

    A count of 0 was somebody's wish, and is left alone.
    """
    if current == 0:
        return 0
    if need < current:
        need = current if highest is None else min(highest, current)
    return min(max(need, bounds.least), bounds.most)
