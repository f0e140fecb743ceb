from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.integration.runtime.http.support import Served, serving

from ferry_runtime.tracing.spans import Tracing


class Traced:
    """A served stack whose spans are kept in memory."""

    def __init__(self, served: Served, client: httpx.AsyncClient, exporter: InMemorySpanExporter) -> None:
        self.served = served
        self.client = client
        self._exporter = exporter

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """In the order in which they ended."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def memory() -> Iterator[tuple[Tracing, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Tracing(provider), exporter
    provider.shutdown()


@pytest.fixture
async def traced(memory: tuple[Tracing, InMemorySpanExporter]) -> AsyncIterator[Callable[..., Any]]:
    """``await traced(…)``: a server on a socket with the options of `build_stack`."""
    tracing, exporter = memory
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Traced:
            served = await stack.enter_async_context(serving(tracing=tracing, **options))
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=served.url, timeout=30))
            return Traced(served, client, exporter)

        yield start
