"""What the cache costs and saves: search and verification by size, memory per entry, an exact hit
through the cache's own call and end to end (`cache_hits`), and what a miss adds (`cache_miss`)."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import psutil

from bench import cache_hits, cache_miss
from bench.environment import read_environment
from bench.report import Report
from bench.stats import quantile
from ferry_api.runtime_config import CacheConfig
from ferry_runtime.cache.entry import CachedChoice, Entry
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.semantic.index import SemanticIndex
from ferry_runtime.cache.semantic.verifier import shipped
from ferry_runtime.cache.setup import build_cache
from ferry_runtime.engine.protocol import Delta, FinishReason, SamplingParams
from ferry_runtime.generation import Answer, CacheInfo, ChoiceDelta, GenerationRequest

ASKED = 200
_QUESTION = "How do I get my money back for order {}?"


def run(results: Path) -> None:
    report = Report("cache_speed", read_environment())
    asyncio.run(_hits(report))
    cache_miss.measure(report)
    cache_hits.measure(report)
    for name, partitions, size in (
        ("one partition of 1e5", 1, 100_000),
        ("1e5 partitions of 10", 100_000, 10),
        ("one partition of 1e6", 1, 1_000_000),
    ):
        _search(report, name, partitions, size)
        gc.collect()
    report.write(results)


def _search(report: Report, name: str, partitions: int, size: int) -> None:
    """Search and verification of a near question among random vectors; embedding apart."""
    before = psutil.Process().memory_info().rss
    index = SemanticIndex(partitions * size, 1 << 40, lambda: "minilm")
    draw = np.random.default_rng(1)
    for number in range(partitions * size):
        vector = draw.standard_normal(384, dtype=np.float32)
        vector /= np.linalg.norm(vector)
        index.add(_entry(number, number % partitions, vector))
    used = psutil.Process().memory_info().rss - before
    report.fact(f"{name}: memory per entry, bytes", round(used / (partitions * size)))
    verifier, seconds, found = shipped(), [], 0
    for number in range(ASKED):
        target = int(draw.integers(partitions * size))
        near = _near(index, target, target % partitions, draw)
        started = time.perf_counter()
        for candidate in index.nearest(_key(target % partitions), near, 0.8, 0.0):
            verifier.decide(candidate.cosine, candidate.row.question, _QUESTION.format(number))
            found += candidate.row.id == str(target)
        seconds.append(time.perf_counter() - started)
    report.fact(f"{name}: search and verification, ms", _milliseconds(seconds))
    report.fact(f"{name}: near question found", f"{found} of {ASKED}")


def _near(index: SemanticIndex, target: int, partition: int, draw: np.random.Generator) -> np.ndarray:
    """A vector at cosine 0.9 from the stored one."""
    stored = index.vector_of(str(target), _key(partition))
    other = draw.standard_normal(384, dtype=np.float32)
    other -= (other @ stored) * stored
    return (0.9 * stored + np.sqrt(1 - 0.81) * other / np.linalg.norm(other)).astype(np.float32)


def _key(partition: int) -> bytes:
    return partition.to_bytes(32, "little")


def _entry(number: int, partition: int, vector: np.ndarray) -> Entry:
    return Entry(
        id=str(number), exact=b"", owner="t", model="m", created=0.0, expires=1.0, partition=_key(partition),
        question=_QUESTION.format(number), embedder="minilm", vector=vector.astype("<f2").tobytes(),
        choices=(CachedChoice("", (), FinishReason.STOP),),
    )  # fmt: skip


class _Once:
    cache = CacheInfo()

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        yield ChoiceDelta(0, Delta(request_id="r", text="a" * 400, token_ids=tuple(range(100)),
                                   finish_reason=FinishReason.STOP))  # fmt: skip

    async def aclose(self) -> None:
        """Nothing runs."""


async def _hits(report: Report) -> None:
    cache = build_cache(
        namespace="bench", config=lambda: CacheConfig(enabled=True), queue_timeout=lambda: 60.0,
        model=lambda: ServedModel(name="m", weights="w"),
    )  # fmt: skip

    async def generate(_: GenerationRequest) -> Answer:
        return _Once()

    async def ask(text: str) -> float:
        request = GenerationRequest(
            id="r", arrival=time.monotonic(), tenant="t", route="", prompt_token_ids=tuple(range(100)),
            prompt_text=f"<{text}>", user_text=text, sampling=SamplingParams(max_tokens=99, temperature=0.0),
        )  # fmt: skip
        started = time.perf_counter()
        answer = await cache.layer.answer(request, generate)
        async for _ in answer:
            pass
        return time.perf_counter() - started

    await cache.layer.start()
    await ask("question")
    took = [await ask("question") for _ in range(2000)]
    report.fact("exact hit through the cache's call, ms", _milliseconds(took))
    await cache.layer.stop()


def _milliseconds(seconds: list[float]) -> str:
    figures: list[tuple[str, Callable[[], float]]] = [
        ("p50", lambda: quantile(seconds, 0.5)),
        ("p99", lambda: quantile(seconds, 0.99)),
        ("least", lambda: min(seconds)),
    ]
    return ", ".join(f"{name} {figure() * 1000:.3f}" for name, figure in figures)
