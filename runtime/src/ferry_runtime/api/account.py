"""What is remembered of a generating request once it has ended: totals, recent requests, log fields."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ferry_runtime.api.context import RequestContext
from ferry_runtime.api.errors import ClientDisconnected, error_answer
from ferry_runtime.api.recent import RecentRequest, preview
from ferry_runtime.api.services import Services
from ferry_runtime.generation import HITS, CacheInfo, GenerationRequest


def is_cached(cache: CacheInfo) -> bool:
    return cache.outcome in HITS


class Account:
    """Closed exactly once; closing it again changes nothing."""

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        requests: Sequence[GenerationRequest],
        *,
        stream: bool,
    ) -> None:
        self._services = services
        self._context = context
        self._requests = requests
        self._stream = stream
        self._closed = False

    def succeeded(self, cache: CacheInfo, output_tokens: int) -> None:
        latency_ms = self.latency_ms
        if self._close("ok", cache, output_tokens, latency_ms):
            self._services.summary.answered(latency_ms, cache.outcome)

    def ended_by(self, error: BaseException, cache: CacheInfo, output_tokens: int) -> None:
        if isinstance(error, ClientDisconnected | asyncio.CancelledError | GeneratorExit):
            if self._close("cancelled", cache, output_tokens, self.latency_ms):
                self._services.summary.cancelled()
        elif self._close(_code(error), cache, output_tokens, self.latency_ms):
            self._services.summary.failed()

    @property
    def latency_ms(self) -> float:
        return (time.monotonic() - self._context.started) * 1000

    def _close(self, outcome: str, cache: CacheInfo, output_tokens: int, latency_ms: float) -> bool:
        if self._closed:
            return False
        self._closed = True
        input_tokens = sum(len(request.prompt_token_ids) for request in self._requests)
        self._context.extra.update(
            outcome=outcome,
            cache=cache.outcome.value,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            tenant=self._context.principal.tenant,
        )
        first = self._requests[0]
        self._services.recent.add(
            RecentRequest(
                request_id=self._context.id,
                timestamp=time.time(),
                route=self._context.route,
                tenant=self._context.principal.tenant,
                prompt=preview(first.user_text if first.user_text is not None else first.prompt_text),
                outcome=outcome,
                cache=cache.outcome.value,
                cached=is_cached(cache),
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                latency_ms=round(latency_ms, 3),
                stream=self._stream,
                entry=cache.entry_id,
                similarity=cache.similarity,
            )
        )
        return True


def _code(error: BaseException) -> str:
    detail = error_answer(error).detail if isinstance(error, Exception) else None
    return (detail.code or detail.type) if detail else "internal_error"
