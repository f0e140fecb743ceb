"""Pausing for memory, with the real engine: nobody's tokens change."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from ferry_api.runtime_config import (
    BatchingConfig,
    ColdConfig,
    EngineConfig,
    HotConfig,
    ModelConfig,
    Numerics,
    QueueConfig,
)
from ferry_runtime.engine.backend import ProcessBackend
from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.generation import GenerationRequest
from ferry_runtime.metrics import Metrics
from ferry_runtime.pipeline import ServingPipeline

CONTEXT = 512
_ids = itertools.count()


@pytest.fixture
async def pipeline(tiny_model):
    """Four slots, and memory for one sequence that uses the whole context."""
    token_bytes = 2 * 2 * 64 * 4  # keys and values, layers, width, bytes of a float
    cold = ColdConfig(
        model=ModelConfig(source="file://tiny", served_name="tiny", context_length=CONTEXT),
        engine=EngineConfig(numerics=Numerics.DETERMINISTIC, kv_cache_bytes=int(1.5 * CONTEXT * token_bytes)),
        batching=BatchingConfig(max_batch_size=4, max_wait_seconds=0.0),
    )
    backend = ProcessBackend(tiny_model, cold, env={"OMP_NUM_THREADS": "1"})
    serving = ServingPipeline(
        backend=backend,
        batching=cold.batching,
        hot=HotConfig(queue=QueueConfig(timeout_seconds=120)),
        metrics=Metrics(),
    )
    await backend.start()
    serving.backend = backend
    yield serving
    await serving.stop()
    await backend.stop()


def request(**fields):
    sampling = SamplingParams(max_tokens=fields.pop("max_tokens"), temperature=0.8, seed=5, ignore_eos=True)
    return GenerationRequest(
        id=f"req-{next(_ids)}",
        arrival=time.monotonic(),
        tenant="anonymous",
        route="/v1/completions",
        prompt_token_ids=tuple(range(3, 40)),
        prompt_text="",
        sampling=sampling,
        **fields,
    )


async def tokens(answer):
    return [token async for item in answer for token in item.delta.token_ids]


async def test_a_paused_request_says_what_it_would_have_said(pipeline):
    alone = await tokens(await pipeline.submit(request(max_tokens=450)))
    patient = await pipeline.submit(request(max_tokens=450, priority=3))
    first = await anext(aiter(patient))
    urgent = await pipeline.submit(request(max_tokens=450, priority=-3))
    hurried, rest = await asyncio.gather(tokens(urgent), tokens(patient))
    assert pipeline.backend.stats.preemptions == 1
    assert hurried == alone
    assert [*first.delta.token_ids, *rest] == alone
