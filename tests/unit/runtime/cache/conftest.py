"""Requests, a scripted generation, and a cache without a shared store."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ferry_api.runtime_config import CacheConfig
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.layer import CacheLayer
from ferry_runtime.cache.local import LocalStore
from ferry_runtime.cache.metrics import CacheMetrics
from ferry_runtime.cache.tiers import Tiers
from ferry_runtime.engine.protocol import Delta, FinishReason, SamplingParams
from ferry_runtime.generation import Answer, CacheInfo, ChoiceDelta, GenerationRequest

_ids = itertools.count()


def build_request(text: str = "What is a ferry?", **changes: Any) -> GenerationRequest:
    """A greedy chat request; ``sampling`` may be a dict of changes."""
    sampling = SamplingParams(**({"max_tokens": 32, "temperature": 0.0} | changes.pop("sampling", {})))
    prompt = f"<user>{text}</user><assistant>"
    values: dict[str, Any] = {
        "id": f"request-{next(_ids)}",
        "arrival": time.monotonic(),
        "tenant": "a",
        "route": "/v1/chat/completions",
        "prompt_token_ids": tuple(prompt.encode("utf-8", "surrogatepass")),
        "prompt_text": prompt,
        "user_text": text,
        "context": '{"system":"Be brief."}',
    }
    return GenerationRequest(sampling=sampling, **(values | changes))


@dataclass
class Generation:
    """One generation that the cache asked for; the test decides when it goes on and how it ends."""

    request: GenerationRequest
    words: list[str]
    finish: FinishReason = FinishReason.STOP
    error: Exception | None = None
    hold: asyncio.Event = field(default_factory=asyncio.Event)  # awaited before the last word
    closed: bool = False
    finished: bool = False
    priority: int | None = None

    cache = CacheInfo()

    async def __aiter__(self) -> AsyncIterator[ChoiceDelta]:
        for position, word in enumerate(self.words):
            last = position == len(self.words) - 1
            if last:
                await self.hold.wait()
                if self.error is not None:
                    raise self.error
            await asyncio.sleep(0)
            for index in range(self.request.n):
                yield ChoiceDelta(
                    index,
                    Delta(
                        request_id=self.request.id,
                        text=word,
                        token_ids=(position,),
                        finish_reason=self.finish if last else None,
                    ),
                )
        self.finished = True

    async def aclose(self) -> None:
        self.closed = True

    def raise_priority(self, priority: int) -> None:
        self.priority = priority


class Generator:
    """Stands for everything behind the cache."""

    def __init__(self) -> None:
        self.made: list[Generation] = []
        self.words = ["A ", "ferry ", "is a boat."]
        self.finish = FinishReason.STOP
        self.errors: list[Exception | None] = []  # for the generations to come, in order
        self.refusals: list[Exception | None] = []
        self.held = False

    async def __call__(self, request: GenerationRequest) -> Answer:
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        error = self.errors.pop(0) if self.errors else None
        made = Generation(request, list(self.words), self.finish, error)
        if not self.held:
            made.hold.set()
        self.made.append(made)
        return made

    def release(self) -> None:
        self.held = False
        for made in self.made:
            made.hold.set()

    @property
    def running(self) -> int:
        return sum(not made.closed for made in self.made)


@dataclass
class Cache:
    layer: CacheLayer
    generator: Generator
    metrics: CacheMetrics
    settings: dict[str, Any]
    model: list[ServedModel | None]

    async def ask(self, request: GenerationRequest | None = None) -> tuple[str, CacheInfo]:
        text, info, _ = await self.ask_fully(request)
        return text, info

    async def ask_fully(
        self, request: GenerationRequest | None = None
    ) -> tuple[str, CacheInfo, list[ChoiceDelta]]:
        answer = await self.layer.answer(request or build_request(), self.generator)
        items = [item async for item in answer]
        await answer.aclose()
        return "".join(item.delta.text for item in items if item.index == 0), answer.cache, items


def build_cache(**settings: Any) -> Cache:
    settings = {"enabled": True, **settings}
    metrics, model = CacheMetrics(), [ServedModel(name="m", weights="digest")]
    tiers = Tiers(LocalStore(100, 1 << 20), metrics, "replica-1")
    layer = CacheLayer(
        tiers,
        metrics,
        config=lambda: CacheConfig(**settings),
        model=lambda: model[0],
        queue_timeout=lambda: 60.0,
    )
    return Cache(layer, Generator(), metrics, settings, model)


@pytest.fixture
def make_request() -> Callable[..., GenerationRequest]:
    return build_request


@pytest.fixture
async def cache() -> AsyncIterator[Cache]:
    made = build_cache()
    await made.layer.start()
    yield made
    await made.layer.stop()
