"""A slow or missing embedder delays no replica's exact hit; its vectors follow."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from tests.conftest import until
from tests.integration.runtime.cache.conftest import Generated, build_request
from tests.unit.runtime.cache.embedders import WordBag

from ferry_api.runtime_config import CacheConfig
from ferry_runtime.cache.control import Caller
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.setup import Cache, build_cache
from ferry_runtime.errors import EmbedderUnavailable
from ferry_runtime.generation import Answer, CacheInfo, CacheOutcome, GenerationRequest

EXACT, SEMANTIC, MISS = CacheOutcome.EXACT, CacheOutcome.SEMANTIC, CacheOutcome.MISS
HOW_DO, HOW_CAN = "How do I reset my password?", "How can I reset my password?"


@dataclass
class Pod:
    cache: Cache
    embedder: WordBag

    async def ask(self, text: str, **changes: object) -> CacheInfo:
        async def generate(request: GenerationRequest) -> Answer:
            return Generated(request, f"on {request.user_text}")

        answer = await self.cache.layer.answer(build_request(text, **changes), generate)
        async for _ in answer:
            pass
        return answer.cache

    @property
    def indexed(self) -> int:
        return len(self.cache.layer.semantic.index)


@pytest.fixture
async def pods(server) -> AsyncIterator[list[Pod]]:
    made = []
    for _ in range(2):
        embedder = WordBag()
        cache = build_cache(
            namespace="svc",
            config=lambda: CacheConfig(enabled=True, similarity_threshold=0.7),
            model=lambda: ServedModel(name="m", weights="digest"),
            queue_timeout=lambda: 60.0,
            store=server.address,
            embedder=embedder,
        )
        await cache.layer.start()
        made.append(Pod(cache, embedder))
        assert await cache.layer.semantic.ready()
        await until(cache.layer.tiers.feed.loaded.is_set)
    yield made
    for pod in made:
        pod.embedder.gate.set()
        await pod.cache.layer.stop()


async def test_while_the_embedder_hangs_answers_reach_other_replicas(pods: list[Pod]) -> None:
    one, two = pods
    one.embedder.gate.clear()
    assert (await one.ask(HOW_DO)).outcome is MISS
    await until(lambda: len(two.cache.layer.tiers.local) == 1)
    assert (await two.ask(HOW_DO)).outcome is EXACT
    assert two.indexed == 0
    one.embedder.gate.set()
    await until(lambda: two.indexed == 1)
    assert (await two.ask(HOW_CAN)).outcome is SEMANTIC


async def test_without_an_embedder_answers_are_published_all_the_same(pods: list[Pod]) -> None:
    one, two = pods
    one.embedder.fail = EmbedderUnavailable("gone")
    await one.ask(HOW_DO)
    await one.cache.layer.writer.drained()
    assert (await two.ask(HOW_DO)).outcome is EXACT


@pytest.mark.parametrize("order", ["clear", "wrong"])
async def test_a_vector_that_comes_late_brings_nothing_back(pods: list[Pod], order: str) -> None:
    one, two = pods
    one.embedder.gate.clear()
    await one.ask(HOW_DO)
    await until(lambda: len(two.cache.layer.tiers.local) == 1)
    (entry_id,) = two.cache.layer.tiers.local.ids()
    if order == "clear":
        await two.cache.control.clear(Caller("ops", admin=True))
    else:
        await two.cache.control.feedback(entry_id, "wrong", Caller("ops", admin=True))
    await until(lambda: len(one.cache.layer.tiers.local) == 0)
    one.embedder.gate.set()
    await one.cache.layer.writer.drained()
    assert await one.cache.layer.tiers.shared.store.ids("a", 0) == []
    assert two.indexed == 0


async def test_a_vector_that_comes_late_does_not_undo_a_newer_answer(pods: list[Pod]) -> None:
    one, _ = pods
    one.embedder.gate.clear()
    await one.ask(HOW_DO)
    await one.ask(HOW_DO, cache_control=frozenset({"no-cache"}))
    (entry_id,) = one.cache.layer.tiers.local.ids()
    newer = one.cache.layer.tiers.local.expiry(entry_id)
    one.embedder.gate.set()
    await one.cache.layer.writer.drained()
    assert await one.cache.layer.tiers.shared.store.register("a", 0) == {entry_id: pytest.approx(newer)}
    assert one.cache.layer.tiers.local.expiry(entry_id) == newer
    assert one.indexed == 1
