"""The four spans of a request, and its W3C trace context on the way in and out.

``POST /v1/chat/completions`` (server) holds ``cache``, ``queue`` and ``engine``. The last two are written
when the generation has ended, from the times that the scheduler notes anyway: nothing is measured twice.
Attribute names: https://opentelemetry.io/docs/specs/semconv/ (http, gen_ai), and ``ferry.…`` for the rest.
Trace context: https://www.w3.org/TR/trace-context/; the response header is that of its level 2 draft.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from ferry_runtime.cache.contract import Reprioritised
from ferry_runtime.generation import Answer, CacheInfo, ChoiceDelta, GenerationRequest
from ferry_runtime.scheduling.answer import ScheduledAnswer

_FLUSH_SECONDS = 5.0


class Tracing:
    """One per server. Spans of requests that nobody samples cost next to nothing and go nowhere."""

    def __init__(self, provider: TracerProvider, version: str = "") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("ferry", version)
        self.resource: Mapping[str, object] = provider.resource.attributes

    @contextmanager
    def serving(self, method: str, route: str, headers: Iterable[tuple[bytes, bytes]]) -> Iterator[Served]:
        """The server's span, current inside; a child of the caller's if the headers name one."""
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        # No exception is recorded by itself: its text may hold a prompt.
        with self._tracer.start_as_current_span(
            f"{method} {route}",
            context=propagate.extract(carrier),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "http.route": route},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield Served(span)

    @contextmanager
    def cache(self) -> Iterator[CacheLookup]:
        """What the cache takes until it has an answer, or a place in the queue for one. Not current inside:
        what generates is the request's part, not the lookup's."""
        span = self._tracer.start_span("cache")
        try:
            yield CacheLookup(span)
        except BaseException as error:
            _failed(span, error)
            raise
        finally:
            span.end()

    def generation(self, answer: ScheduledAnswer, request: GenerationRequest) -> Answer:
        """The same answer, which leaves its spans behind when it has ended."""
        if not trace.get_current_span().is_recording():
            return answer
        return TracedAnswer(self._tracer, answer, request)

    async def stop(self) -> None:
        """Send what is still to be sent, for a bounded time."""

        def flush() -> None:
            self._provider.force_flush(int(_FLUSH_SECONDS * 1000))
            self._provider.shutdown()

        await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(flush))], timeout=2 * _FLUSH_SECONDS)


class Served:
    """The server's span of one request. ``header`` tells it to the client, ``outgoing`` are headers that
    make a server further on a part of the trace."""

    def __init__(self, span: Span) -> None:
        self._span = span
        context = span.get_span_context()
        self.trace_id = trace.format_trace_id(context.trace_id)
        span_id = trace.format_span_id(context.span_id)
        self.header = f"00-{self.trace_id}-{span_id}-{context.trace_flags:02x}".encode()
        self.outgoing: dict[str, str] = {}
        propagate.inject(self.outgoing)

    def ended(self, request_id: str, status: int, outcome: str | None) -> None:
        """``status`` 0: the client left before it was answered."""
        self._span.set_attribute("ferry.request.id", request_id)
        if status:
            self._span.set_attribute("http.response.status_code", status)
        if outcome:
            self._span.set_attribute("ferry.outcome", outcome)
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))
            self._span.set_attribute("error.type", outcome or str(status))


class CacheLookup:
    """The cache's span of one request."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def found(self, info: CacheInfo) -> None:
        self._span.set_attribute("ferry.cache.outcome", info.outcome.value)
        if info.similarity is not None:
            self._span.set_attribute("ferry.cache.similarity", round(info.similarity, 4))


class TracedAnswer:
    """Implements `generation.Answer` around one that the scheduler fills."""

    def __init__(self, tracer: trace.Tracer, answer: ScheduledAnswer, request: GenerationRequest) -> None:
        self._tracer = tracer
        self._answer = answer
        self._request = request
        self._parent: Context = trace.set_span_in_context(trace.get_current_span())
        # Spans are dated by the wall clock, the scheduler's times by a steady one.
        self._offset = time.time_ns() - time.monotonic_ns()
        self._queued = time.monotonic()
        self._tokens = 0
        self._reasons: dict[int, str] = {}
        self._written = False

    @property
    def cache(self) -> CacheInfo:
        return self._answer.cache

    def raise_priority(self, priority: int) -> None:
        inner: Reprioritised = self._answer
        inner.raise_priority(priority)

    def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        return self

    async def __anext__(self) -> ChoiceDelta:
        try:
            item = await anext(self._answer)
        except StopAsyncIteration:
            self._write(None)
            raise
        except Exception as error:
            self._write(error)
            raise
        self._tokens += len(item.delta.token_ids)
        if item.delta.finish_reason is not None:
            self._reasons[item.index] = item.delta.finish_reason.value
        return item

    async def aclose(self) -> None:
        complete = len(self._reasons) == self._request.n
        self._write(None if complete else asyncio.CancelledError())
        await self._answer.aclose()

    def _write(self, error: BaseException | None) -> None:
        if self._written:
            return
        self._written = True
        timeline, now = self._answer.timeline, time.monotonic()
        # On an idle server it has started before it was wrapped.
        queued = min(self._queued, timeline.started or now)
        queue = self._span("queue", queued)
        queue.set_attribute("ferry.priority", self._request.priority)
        if timeline.started is None:
            _failed(queue, error)
            queue.end(self._at(now))
            return
        queue.end(self._at(timeline.started))
        engine = self._span("engine", timeline.started)
        engine.set_attribute("ferry.tenant", self._request.tenant)
        engine.set_attribute("gen_ai.usage.input_tokens", len(self._request.prompt_token_ids))
        engine.set_attribute("gen_ai.usage.output_tokens", self._tokens)
        reasons = [self._reasons[index] for index in sorted(self._reasons)]
        engine.set_attribute("gen_ai.response.finish_reasons", reasons)
        if timeline.first_token is not None:
            engine.add_event("first_token", timestamp=self._at(timeline.first_token))
        _failed(engine, error)
        engine.end(self._at(now))

    def _span(self, name: str, began: float) -> Span:
        return self._tracer.start_span(name, context=self._parent, start_time=self._at(began))

    def _at(self, moment: float) -> int:
        return int(moment * 1e9) + self._offset


def _failed(span: Span, error: BaseException | None) -> None:
    """The error's kind only: its text may hold a prompt."""
    if error is not None:
        span.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", type(error).__name__)
