"""The latest requests, for /recent-requests: a ring, so that nothing grows for ever."""

from __future__ import annotations

from collections import deque

import msgspec

PREVIEW_CHARACTERS = 200


class RecentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``timestamp`` is in seconds since the epoch; ``prompt`` is cut to a preview."""

    request_id: str
    timestamp: float
    route: str
    tenant: str
    prompt: str
    outcome: str  # ok, cancelled, or an error's code
    cache: str
    cached: bool
    input_tokens: int
    output_tokens: int
    latency_ms: float
    stream: bool = False
    entry: str | None = None  # of the cache: the one that answered, or that keeps this answer
    similarity: float | None = None


class RecentRequestList(msgspec.Struct, frozen=True):
    requests: list[RecentRequest]


class RecentRequests:
    """Newest first. Only admins read it: it shows prompts."""

    def __init__(self, capacity: int = 100) -> None:
        self._ring: deque[RecentRequest] = deque(maxlen=capacity)

    def add(self, request: RecentRequest) -> None:
        self._ring.appendleft(request)

    def latest(self, limit: int) -> list[RecentRequest]:
        return [request for request, _ in zip(self._ring, range(limit), strict=False)]


def preview(text: str) -> str:
    return text if len(text) <= PREVIEW_CHARACTERS else text[: PREVIEW_CHARACTERS - 1] + "…"
