"""A share of semantic hits is generated after all, in quiet moments, and bounds the wrong ones."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from tests.conftest import until
from tests.unit.runtime.cache.conftest import Cache, Generator
from tests.unit.runtime.cache.embedders import WordBag

from ferry_api.runtime_config import CacheConfig
from ferry_runtime.cache import leisure
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.setup import build_cache
from ferry_runtime.cache.shadow import wilson
from ferry_runtime.errors import EmbedderUnavailable, EngineDied
from ferry_runtime.generation import CacheOutcome

HOW_DO, HOW_CAN = "How do I reset my password?", "How can I reset my password?"
WORDS = ["You can ", "do it ", "in the settings."]


@dataclass
class Service:
    """Idle as the test says."""

    cache: Cache
    embedder: WordBag
    idle: bool = True

    @property
    def verdicts(self) -> dict[str, int]:
        return self.cache.metrics.by_labels(self.cache.metrics.shadow)

    @property
    def shadows(self) -> list[str]:
        return [made.request.id for made in self.cache.generator.made if made.request.id.endswith("-shadow")]

    async def hit(self, make_request) -> None:
        await self.cache.ask(make_request(HOW_DO))
        await self.cache.layer.writer.drained()
        _, info = await self.cache.ask(make_request(HOW_CAN))
        assert info.outcome is CacheOutcome.SEMANTIC

    async def judged(self, count: int = 1) -> None:
        await until(lambda: sum(self.verdicts.values()) >= count)


@pytest.fixture
async def service(monkeypatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(leisure, "_LOOK_EVERY", 0.001)
    embedder, settings = WordBag(), {"enabled": True, "similarity_threshold": 0.7}
    model = [ServedModel(name="m", weights="w")]
    built = build_cache(
        namespace="svc",
        config=lambda: CacheConfig(**settings),
        model=lambda: model[0],
        queue_timeout=lambda: 60.0,
        idle=lambda: made.idle,
        embedder=embedder,
    )
    generator = Generator()
    generator.words = list(WORDS)
    made = Service(Cache(built.layer, generator, built.layer.metrics, settings, model), embedder)
    built.layer.shadow._share = 1.0
    await built.layer.start()
    await built.layer.semantic.ready()
    yield made
    await built.layer.stop()


@pytest.mark.parametrize(
    ("fresh", "verdict"),
    [
        (WORDS, "same"),
        (["You can  do it in the", " settings."], "same"),
        (["Now you can do it in the settings."], "same"),
        (["You can not do it in the settings."], "unclear"),
        (["Bananas are yellow and the sea is blue."], "different"),
        (["Das geht nicht mit einem Klick."], "unclear"),
    ],
    ids=["the same", "other blanks", "nearly the same", "a rule between them", "far", "not to be embedded"],
)
async def test_a_fresh_answer_is_compared_with_the_served_one(service, make_request, fresh, verdict) -> None:
    await service.hit(make_request)
    service.cache.generator.words = fresh
    await service.judged()
    assert service.verdicts == {verdict: 1}


async def test_without_an_embedder_other_words_are_unclear(service, make_request) -> None:
    await service.hit(make_request)
    service.embedder.fail = EmbedderUnavailable("gone")
    service.cache.generator.words = ["You can do it in the settings now."]
    await service.judged()
    assert service.verdicts == {"unclear": 1}


async def test_only_semantic_hits_are_generated_again(service, make_request) -> None:
    service.idle = False
    await service.cache.ask(make_request(HOW_DO))
    await service.cache.ask(make_request(HOW_DO))
    assert not service.cache.layer.shadow._served._items
    await service.hit(make_request)
    assert len(service.cache.layer.shadow._served._items) == 1


async def test_the_share_is_a_sample(service, make_request) -> None:
    service.cache.layer.shadow._share = 0.0
    await service.hit(make_request)
    assert not service.cache.layer.shadow._served._items


async def test_nothing_is_generated_while_a_client_is_there(service, make_request) -> None:
    service.idle = False
    await service.hit(make_request)
    await asyncio.sleep(0.1)
    assert service.shadows == []
    service.idle = True
    await service.judged()
    assert len(service.shadows) == 1


async def test_a_client_that_comes_ends_the_generation_which_is_tried_again(service, make_request) -> None:
    await service.hit(make_request)
    service.cache.generator.held = True
    await until(lambda: bool(service.shadows))
    service.idle = False
    service.cache.generator.release()
    await until(lambda: not service.cache.generator.running)
    assert service.verdicts == {}
    service.idle = True
    await service.judged()
    assert len(service.shadows) == 2


async def test_a_generation_that_fails_says_nothing_and_ends_nothing(service, make_request) -> None:
    service.idle = False
    await service.hit(make_request)
    await service.cache.ask(make_request(HOW_CAN, sampling={"max_tokens": 99}))
    assert len(service.cache.layer.shadow._served._items) == 2
    service.cache.generator.errors = [EngineDied("gone")]
    service.idle = True
    await service.judged()
    assert service.verdicts == {"same": 1}


async def test_hits_that_wait_are_bounded_and_the_newest_are_kept(service, make_request) -> None:
    service.idle = False
    await service.hit(make_request)
    for number in range(30):
        await service.cache.ask(make_request(HOW_CAN, sampling={"max_tokens": 40 + number}))
    waiting = service.cache.layer.shadow._served._items
    assert len(waiting) == 20
    assert waiting[-1].request.sampling.max_tokens == 69


async def test_the_rate_spans_from_the_certainly_wrong_to_the_possibly_wrong(service, make_request) -> None:
    shadow, counts = service.cache.layer.shadow, service.cache.metrics.shadow
    assert shadow.wrong_rate() == {"low": 0.0, "high": 1.0}
    for verdict, count in [("same", 90), ("unclear", 5), ("different", 5)]:
        counts.labels(verdict).inc(count)
    assert shadow.wrong_rate() == {"low": wilson(5, 100)[0], "high": wilson(10, 100)[1]}
    sample = service.cache.metrics.registry.get_sample_value
    for bound, value in shadow.wrong_rate().items():
        assert sample("ferry_cache_shadow_wrong_rate", {"bound": bound}) == value


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634)],
)
def test_the_score_interval(hits: int, total: int, low: float, high: float) -> None:
    assert wilson(hits, total) == pytest.approx((low, high), abs=1e-3)
