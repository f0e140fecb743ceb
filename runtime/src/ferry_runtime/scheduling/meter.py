"""How fast the server gets work done, measured; and when a refused client may come back."""

from __future__ import annotations

from math import exp

# Work of the last half minute or so decides.
_MEMORY_SECONDS = 30.0


class RateMeter:
    """Amount per second of busy time: idle time says nothing about what the server can do."""

    def __init__(self, prior: float, memory: float = _MEMORY_SECONDS) -> None:
        """``prior`` is the rate assumed before anything was measured; it weighs one second."""
        self._memory = memory
        self._amount = prior
        self._seconds = 1.0
        self.seconds_measured = 0.0

    def busy(self, seconds: float) -> None:
        """Let busy time pass."""
        if seconds <= 0:
            return
        self.seconds_measured += seconds
        keep = exp(-seconds / self._memory)
        self._amount *= keep
        self._seconds = self._seconds * keep + seconds

    def add(self, amount: float) -> None:
        self._amount += amount

    @property
    def rate(self) -> float:
        """Per second; never zero, so that it can divide."""
        return max(self._amount / self._seconds, 1e-3)


class ReturnLine:
    """Spreads refused clients over time instead of calling all of them back at once.

    Refused clients stand in an imaginary line outside that moves at the queue's own drain rate;
    each is told when its turn would come.
    """

    def __init__(self) -> None:
        self._length = 0.0
        self._seen = 0.0

    def retry_after(self, now: float, drained_per_second: float, at_most: float) -> float:
        """Seconds, at least one (the header's unit) and at most ``at_most``."""
        self._length = max(0.0, self._length - (now - self._seen) * drained_per_second) + 1.0
        self._seen = now
        return max(1.0, min(self._length / drained_per_second, at_most))
