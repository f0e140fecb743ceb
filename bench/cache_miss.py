"""What looking in vain costs: from the cache's call to the start of the generation, embedding apart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from bench.report import Report
from bench.stats import quantile, spread
from ferry_api.runtime_config import CacheConfig
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.setup import Cache, build_cache
from ferry_runtime.embedding.client import EmbeddingClient
from ferry_runtime.engine.protocol import Delta, FinishReason, SamplingParams
from ferry_runtime.generation import Answer, CacheInfo, ChoiceDelta, GenerationRequest
from ferry_runtime.store.embedded import EmbeddedStore

ROUNDS, STORED, ASKED = 5, 300, 300
_PLACES = (
    "harbour",
    "station",
    "airport",
    "library",
    "museum",
    "market",
    "office",
    "hotel",
    "school",
    "shop",
)
_THINGS = ("ticket", "receipt", "parcel", "invoice", "voucher", "permit", "refund", "booking", "key", "pass")
_VERBS = ("renew", "return", "collect", "cancel", "extend", "replace", "upgrade", "inspect", "transfer")


class _Once:
    cache = CacheInfo()

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        yield ChoiceDelta(
            0, Delta(request_id="r", text="Yes.", token_ids=(1,), finish_reason=FinishReason.STOP)
        )

    async def aclose(self) -> None:
        """Nothing runs."""


def measure(report: Report) -> None:
    rounds = [asyncio.run(_round()) for _ in range(ROUNDS)]
    for place, name in enumerate(("embedding", "everything else before the generation")):
        p50 = spread([quantile([cost[place] for cost in costs], 0.5) * 1000 for costs in rounds])
        p99 = spread([quantile([cost[place] for cost in costs], 0.99) * 1000 for costs in rounds])
        misses = f"{sum(map(len, rounds))} misses of {ROUNDS * ASKED} questions"
        report.fact(f"a miss: {name}, ms", f"p50 {p50}, p99 {p99} ({misses})")


async def _round() -> list[tuple[float, float]]:
    """A store, the real embedder and 300 stored entries in the partition of every question. Seconds of each
    miss: of its embedding, of everything else."""
    store = await EmbeddedStore.start()
    embedder = EmbeddingClient()
    cache = build_cache(
        namespace="bench", config=lambda: CacheConfig(enabled=True), queue_timeout=lambda: 60.0,
        model=lambda: ServedModel(name="m", weights="w"), store=store.address, embedder=embedder,
    )  # fmt: skip
    await cache.layer.start()
    try:
        if cache.layer.semantic is None or not await cache.layer.semantic.ready():
            raise SystemExit("The embedder did not load.")
        for number in range(STORED):
            await _ask(cache, number)
        await cache.layer.writer.drained()
        asked = []
        for number in range(ASKED):
            asked.append(await _ask(cache, STORED + number))
            await cache.layer.writer.drained()  # what is written behind an answer is no part of the next miss
            await asyncio.sleep(0.02)
    finally:
        await cache.layer.stop()
        await embedder.stop()
        await store.stop()
    return [(embedding, total - embedding) for total, embedding in (cost for cost in asked if cost)]


async def _ask(cache: Cache, number: int) -> tuple[float, float] | None:
    """Seconds until the generation began, and how many of them the embedding took; None for a hit."""
    began: float | None = None

    async def generate(_: GenerationRequest) -> Answer:
        nonlocal began
        began = time.perf_counter()
        return _Once()

    metrics = cache.layer.metrics
    before = metrics.embed_seconds._sum.get()
    request = _request(number)
    started = time.perf_counter()
    answer = await cache.layer.answer(request, generate)
    async for _ in answer:
        pass
    return None if began is None else (began - started, metrics.embed_seconds._sum.get() - before)


def _request(number: int) -> GenerationRequest:
    verb, thing = _VERBS[number % 9], _THINGS[number // 9 % 10]
    text = f"How do I {verb} a {thing} at the {_PLACES[number // 90 % 10]}?"
    return GenerationRequest(
        id=str(number), arrival=time.monotonic(), tenant="t", route="", user_text=text,
        prompt_token_ids=tuple(text.encode()), prompt_text=f"<{text}>",
        sampling=SamplingParams(max_tokens=99, temperature=0.0),
    )  # fmt: skip
