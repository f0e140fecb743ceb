"""The semantic tier across replicas, with the real embedder in its process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.conftest import until
from tests.integration.runtime.cache.conftest import Generated, build_request

from ferry_api.runtime_config import CacheConfig
from ferry_runtime.cache.control import Caller
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.setup import Cache, build_cache
from ferry_runtime.embedding.client import EmbeddingClient
from ferry_runtime.generation import Answer, CacheInfo, CacheOutcome, GenerationRequest

pytestmark = pytest.mark.timeout(240)  # loading an embedder on a busy machine takes its time

Ask = Callable[..., Awaitable[tuple[str, CacheInfo]]]
ADMIN = Caller("ops", admin=True)


class Pod:
    """A replica with a semantic tier."""

    def __init__(self, cache: Cache, name: str) -> None:
        self.cache = cache
        self.name = name

    async def ask(self, text: str, **changes: Any) -> tuple[str, CacheInfo]:
        async def generate(request: GenerationRequest) -> Answer:
            return Generated(request, f"{self.name} on: {request.user_text}")

        answer = await self.cache.layer.answer(build_request(text, **changes), generate)
        said = "".join([item.delta.text async for item in answer])
        return said, answer.cache

    @property
    def indexed(self) -> int:
        return len(self.cache.layer.semantic.index)


@pytest.fixture
async def pods(server) -> AsyncIterator[list[Pod]]:
    embedder = EmbeddingClient()
    made = []
    for name in ("one", "two"):
        cache = build_cache(
            namespace="svc",
            config=lambda: CacheConfig(enabled=True, similarity_threshold=0.8),
            model=lambda: ServedModel(name="m", weights="digest"),
            queue_timeout=lambda: 60.0,
            store=server.address,
            embedder=embedder,
        )
        cache.layer.semantic._patience = 30.0  # this machine may be busy
        await cache.layer.start()
        made.append(Pod(cache, name))
    for pod in made:
        assert await pod.cache.layer.semantic.ready()
        await asyncio.wait_for(pod.cache.layer.tiers.feed.loaded.wait(), 30)
    yield made
    for pod in made:
        await pod.cache.layer.stop()
    await embedder.stop()


async def test_rewordings_hit_traps_do_not_and_orders_reach_every_replica(pods: list[Pod]) -> None:
    one, two = pods
    said, _ = await one.ask("How do I reset my password?")
    await until(lambda: two.indexed == 1, 60)

    again, info = await two.ask("How can I reset my password?")
    assert (again, info.outcome) == (said, CacheOutcome.SEMANTIC)
    assert info.similarity is not None
    assert info.similarity > 0.9

    for trap in ("How do I not reset my password?", "How do I reset my 2 passwords?"):
        assert (await two.ask(trap))[1].outcome is CacheOutcome.MISS
    assert (await two.ask("How can I reset my password?", tenant="b"))[1].outcome is CacheOutcome.MISS

    assert info.entry_id is not None
    await two.cache.control.feedback(info.entry_id, "wrong", Caller("a"))
    await until(lambda: info.entry_id not in one.cache.layer.semantic.index)
    assert (await two.ask("How could I reset my password?"))[0] != said

    assert await one.cache.control.clear(ADMIN) >= 3
    await until(lambda: two.indexed == 0)
