from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from ferry_api.runtime_config import BatchingConfig, BatchingMode, HotConfig, QueueConfig
from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.generation import GenerationRequest
from ferry_runtime.metrics import Metrics
from ferry_runtime.pipeline import ServingPipeline

_ids = itertools.count()


@pytest.fixture
def request_of() -> Callable[..., GenerationRequest]:
    """Builds requests; sampling fields and request fields are told apart by name."""

    def build(*, prompt: tuple[int, ...] = (1, 2, 3), **fields: Any) -> GenerationRequest:
        sampling = {
            name: fields.pop(name) for name in list(fields) if name in SamplingParams.__struct_fields__
        }
        fields.setdefault("arrival", time.monotonic())
        return GenerationRequest(
            id=f"req-{next(_ids)}",
            tenant=fields.pop("tenant", "anonymous"),
            route="/v1/completions",
            prompt_token_ids=prompt,
            prompt_text="a prompt",
            sampling=SamplingParams(**{"max_tokens": 8, "ignore_eos": True, **sampling}),
            **fields,
        )

    return build


class Service:
    """A pipeline over a fake engine, with its metrics."""

    def __init__(self, backend: FakeBackend, pipeline: ServingPipeline, metrics: Metrics):
        self.backend = backend
        self.pipeline = pipeline
        self.metrics = metrics

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"ferry_{name}", labels) or 0.0


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Any]]:
    """``await serve(slots=…, queue={…}, …)`` starts a service that ends with the test."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Service:
            return await stack.enter_async_context(_service(**options))

        yield start


@asynccontextmanager
async def _service(
    *,
    slots: int = 4,
    max_wait: float = 0.0,
    mode: BatchingMode = BatchingMode.FIXED,
    queue: dict[str, Any] | None = None,
    backend: FakeBackend | None = None,
    **options: Any,
) -> AsyncIterator[Service]:
    backend = backend or FakeBackend(slots=slots)
    metrics = Metrics()
    pipeline = ServingPipeline(
        backend=backend,
        batching=BatchingConfig(max_batch_size=slots, max_wait_seconds=max_wait, mode=mode),
        hot=HotConfig(queue=QueueConfig(**(queue or {}))),
        metrics=metrics,
        **options,
    )
    await backend.start()
    try:
        yield Service(backend, pipeline, metrics)
    finally:
        await pipeline.stop()
        await backend.stop()
