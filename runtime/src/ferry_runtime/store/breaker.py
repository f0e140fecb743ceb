"""When to stop asking a store that does not answer, and when to ask again. Pure: time is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    failures: int = 3  # in a row
    first_pause: float = 0.5  # seconds until the first probe
    longest_pause: float = 5.0


class Breaker:
    """Consecutive failures open it; one probe at a time closes it again, at growing pauses.

    Only what the store did counts. A wait for our own connection pool is not reported here, and a
    failure counts even where the caller swallows it and carries on.
    """

    def __init__(self, settings: BreakerSettings | None = None) -> None:
        self._settings = settings or BreakerSettings()
        self._failures = 0
        self._pause = self._settings.first_pause
        self._retry_at = 0.0
        self.state = BreakerState.CLOSED

    def allows(self) -> bool:
        return self.state is BreakerState.CLOSED

    def probe_due(self, now: float) -> bool:
        """True once per pause; the caller must report the probe's success or failure."""
        if self.state is not BreakerState.OPEN or now < self._retry_at:
            return False
        self.state = BreakerState.PROBING
        return True

    def succeeded(self) -> bool:
        """True when this closed the breaker (the moment for the one log line)."""
        closed = self.state is not BreakerState.CLOSED
        self.state = BreakerState.CLOSED
        self._failures = 0
        self._pause = self._settings.first_pause
        return closed

    def failed(self, now: float) -> bool:
        """True when this opened the breaker (the moment for the one log line)."""
        self._failures += 1
        if self.state is BreakerState.PROBING:
            self._pause = min(self._pause * 2, self._settings.longest_pause)
        elif self.state is BreakerState.OPEN or self._failures < self._settings.failures:
            return False
        opened = self.state is BreakerState.CLOSED
        self.state = BreakerState.OPEN
        self._retry_at = now + self._pause
        return opened
