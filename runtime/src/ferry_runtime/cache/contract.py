"""How the pipeline uses the cache: one call that stands between a request and its generation.

The cache decides alone whether a request is answered from a tier, follows another request's
generation, or generates; whoever calls it sees an `Answer` in every case.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from ferry_runtime.generation import Answer, GenerationRequest

# Admits one request and returns its live answer, without waiting for a slot. Raises what
# `Pipeline.submit` raises. The cache calls it at most once per generation that really runs.
Generate = Callable[[GenerationRequest], Awaitable[Answer]]


@runtime_checkable
class Reprioritised(Protocol):
    """An answer whose place in the queue can still be improved: a follower more urgent than its
    leader lends the leader its priority."""

    def raise_priority(self, priority: int) -> None: ...


class AnswerCache(Protocol):
    """Implemented by `ferry_runtime.cache.layer.CacheLayer`."""

    async def start(self) -> None:
        """Connect and load in the background. Never fails because a store is unreachable."""
        ...

    async def answer(self, request: GenerationRequest, generate: Generate) -> Answer:
        """Answer from a tier, by following, or through ``generate``.

        Raises what ``generate`` raises, and NotCached when the request says only-if-cached.
        A failing cache is never a reason to fail: it falls back to ``generate``.
        """
        ...

    async def stop(self) -> None:
        """Write what is still queued (bounded by a second), then close. Idempotent."""
        ...
