"""When to start a failed child again: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential, and it gives up: a child that fails at once each time will not mend itself.

    A life that stayed healthy for ``stable_seconds`` clears the count of failures.
    """

    first_seconds: float = 0.25
    factor: float = 2.0
    longest_seconds: float = 30.0
    quick_failures: int = 6
    stable_seconds: float = 30.0

    def failures_after(self, failures: int, healthy_seconds: float) -> int:
        """Consecutive quick failures, this life's end included."""
        return 1 if healthy_seconds >= self.stable_seconds else failures + 1

    def delay(self, failures: int) -> float | None:
        """Seconds until the next life after that many quick failures; None: no further life."""
        if failures >= self.quick_failures:
            return None
        return float(min(self.longest_seconds, self.first_seconds * self.factor ** (failures - 1)))
