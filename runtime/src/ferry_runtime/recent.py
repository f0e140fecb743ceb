"""The latest requests, for /recent-requests and the dashboard's live feed: a bounded ring in memory.

It holds the beginnings of prompts and answers, so only admin routes may show it. Nothing of it
reaches logs or metrics.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# What a table row shows; longer texts are cut here so that the ring's memory is bounded too.
TEXT_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRequest:
    """Times in milliseconds, except ``finished_at``: seconds since the epoch."""

    id: str
    finished_at: float
    route: str
    tenant: str
    outcome: str  # metrics.Outcome
    cache: str  # generation.CacheOutcome
    finish_reason: str | None
    prompt: str
    generated_text: str
    input_tokens: int
    output_tokens: int
    latency_ms: float
    time_to_first_token_ms: float | None
    queue_ms: float | None


class RecentRequests:
    def __init__(self, capacity: int = 200) -> None:
        self._ring: deque[RecentRequest] = deque(maxlen=capacity)

    def add(self, request: RecentRequest) -> None:
        self._ring.append(request)

    def latest(self, count: int | None = None) -> list[RecentRequest]:
        """Newest first."""
        newest = list(reversed(self._ring))
        return newest if count is None else newest[:count]

    def clear(self) -> None:
        self._ring.clear()
