"""The semantic tier inside the whole cache, with an embedder that the test writes."""

import asyncio
import threading
from collections.abc import AsyncIterator
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.unit.runtime.cache.conftest import Cache, Generator, build_request
from tests.unit.runtime.cache.embedders import WordBag

from ferry_api.runtime_config import CacheConfig, CacheScope, Verifier
from ferry_runtime.cache.identity import ServedModel
from ferry_runtime.cache.messages import Scope
from ferry_runtime.cache.semantic.verifier import Decision, shipped
from ferry_runtime.cache.setup import build_cache
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.errors import EmbedderUnavailable, Overloaded
from ferry_runtime.generation import CacheOutcome

EXACT, SEMANTIC, MISS = CacheOutcome.EXACT, CacheOutcome.SEMANTIC, CacheOutcome.MISS
HOW_DO, HOW_CAN = "How do I reset my password?", "How can I reset my password?"


@pytest.fixture
def embedder() -> WordBag:
    return WordBag()


@pytest.fixture
async def cache(embedder: WordBag) -> AsyncIterator[Cache]:
    settings = {"enabled": True, "similarity_threshold": 0.7}
    model: list[ServedModel | None] = [ServedModel(name="m", weights="w")]
    built = build_cache(
        namespace="svc",
        config=lambda: CacheConfig(**settings),
        model=lambda: model[0],
        queue_timeout=lambda: 60.0,
        embedder=embedder,
    )
    await built.layer.start()
    await built.layer.semantic.ready()
    yield Cache(built.layer, Generator(), built.layer.metrics, settings, model)
    await built.layer.stop()


async def outcome(cache: Cache, request) -> CacheOutcome:
    _, info = await cache.ask(request)
    await cache.layer.writer.drained()
    return info.outcome


async def test_a_rewording_is_answered_with_similarity_and_entry(cache, make_request) -> None:
    said, _ = await cache.ask(make_request(HOW_DO))
    await cache.layer.writer.drained()
    again, info = await cache.ask(make_request(HOW_CAN))
    assert (again, info.outcome) == (said, SEMANTIC)
    assert info.similarity is not None
    assert 0.7 <= info.similarity < 1
    assert info.entry_id is not None


async def test_a_question_is_on_its_way_to_the_embedder_before_the_store_is_asked(
    cache, make_request, embedder, monkeypatch
) -> None:
    """A miss waits for the slower of the two, not for both; with nothing to find nothing is embedded."""
    asked: list[list[str]] = []
    fetch = cache.layer.tiers.fetch

    async def recorded_fetch(entry_id, now):
        asked.append(list(embedder.calls))
        return await fetch(entry_id, now)

    monkeypatch.setattr(cache.layer.tiers, "fetch", recorded_fetch)
    await outcome(cache, make_request(HOW_DO))
    await outcome(cache, make_request("Where is the harbour?"))
    assert asked == [[], [HOW_DO, "Where is the harbour?"]]


async def test_what_is_not_identity_does_not_keep_a_rewording_from_its_answer(cache, make_request) -> None:
    await outcome(cache, make_request(HOW_DO))
    other = make_request(
        HOW_CAN, priority=3, timeout=9.0, route="/generate", sampling={"max_tokens": 999, "seed": 4}
    )
    assert await outcome(cache, other) is SEMANTIC


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": "b"},
        {"context": '{"system":"Rhyme."}'},
        {"n": 2},
        {"sampling": {"stop": ("x",)}},
        {"sampling": {"max_tokens": 1}},
        {"cache_threshold": 0.999},
        {"cache_control": frozenset({"no-cache"})},
    ],
    ids=["tenant", "context", "n", "stop", "fewer tokens", "raised threshold", "no-cache"],
)
async def test_other_requests_do_not_hit(cache, make_request, changes) -> None:
    await outcome(cache, make_request(HOW_DO))
    assert await outcome(cache, make_request(HOW_CAN, **changes)) is MISS


async def test_another_history_does_not_hit(cache, make_request) -> None:
    await outcome(cache, make_request("Please cancel it for me"))
    plain = make_request("Can you cancel it for me")
    talked = make_request("Can you cancel it for me", prompt_text="<user>My gym</user>" + plain.prompt_text)
    assert await outcome(cache, talked) is MISS


async def test_a_trap_is_a_miss_and_counted(cache, make_request) -> None:
    await outcome(cache, make_request("How do I enable the alarm?"))
    assert await outcome(cache, make_request("How do I disable the alarm?")) is MISS
    assert cache.metrics.by_labels(cache.metrics.rejections) == {"antonym": 1}
    assert cache.metrics.value(cache.metrics.near_misses) == 1


async def test_without_verifier_the_cosine_decides(cache, make_request) -> None:
    cache.settings["verifier"] = Verifier.NONE
    await outcome(cache, make_request("How do I enable the alarm?"))
    assert await outcome(cache, make_request("How do I disable the alarm?")) is SEMANTIC


async def test_an_answer_cut_off_by_its_limit_is_not_served_to_others(cache, make_request) -> None:
    cache.generator.finish = FinishReason.LENGTH
    await outcome(cache, make_request(HOW_DO))
    assert await outcome(cache, make_request(HOW_CAN)) is MISS


@pytest.mark.parametrize(
    ("text", "other", "reason"),
    [
        ("Wie setze ich das zurück?", "Wie setze ich es zurück?", "not_english"),
        ("What does foo(1) do?", "What does foo(2) do?", "code"),
        ("how is it " * 60, "how was it " * 60, "too_long"),
    ],
)
async def test_what_the_embedder_cannot_judge_is_left_to_the_exact_tier(
    cache, make_request, text, other, reason
) -> None:
    await outcome(cache, make_request(text))
    assert await outcome(cache, make_request(other)) is MISS
    assert await outcome(cache, make_request(text)) is EXACT
    assert reason in cache.metrics.by_labels(cache.metrics.skips)


async def test_a_question_is_embedded_once(cache, make_request, embedder) -> None:
    await outcome(cache, make_request(HOW_DO))
    await asyncio.gather(*(cache.ask(make_request(HOW_CAN, sampling={"stop": (str(i),)})) for i in range(5)))
    await cache.layer.writer.drained()
    assert sorted(embedder.calls) == sorted([HOW_DO, HOW_CAN])


async def test_a_request_that_is_refused_costs_the_embedder_nothing(cache, make_request, embedder) -> None:
    cache.generator.refusals = [Overloaded("full", 1.0)]
    with pytest.raises(Overloaded):
        await cache.ask(make_request(HOW_DO))
    assert embedder.calls == []
    await outcome(cache, make_request(HOW_DO))
    assert embedder.calls == [HOW_DO]


async def test_nothing_is_embedded_that_may_not_be_stored(cache, make_request, embedder) -> None:
    await outcome(cache, make_request(HOW_DO, cache_control=frozenset({"no-store"})))
    assert embedder.calls == []


async def test_a_slow_embedder_costs_a_bounded_wait_and_no_answer(cache, make_request, embedder) -> None:
    await outcome(cache, make_request(HOW_DO))
    embedder.gate.clear()
    _, info = await cache.ask(make_request(HOW_CAN))
    assert info.outcome is MISS
    embedder.gate.set()
    await cache.layer.writer.drained()


@pytest.mark.parametrize(("words", "aside"), [(0, False), (60, True)], ids=["short", "long"])
async def test_long_texts_are_compared_aside_from_the_event_loop(cache, make_request, words, aside) -> None:
    threads: list[int] = []

    class Watched:
        def decide(self, cosine: float, cached: str, asked: str) -> Decision:
            threads.append(threading.get_ident())
            return shipped().decide(cosine, cached, asked)

    cache.layer.semantic._verifier = Watched()
    tail = " It is about my account" * (words // 5)
    await outcome(cache, make_request(HOW_DO + tail))
    assert await outcome(cache, make_request(HOW_CAN + tail)) is SEMANTIC
    assert [thread != threading.get_ident() for thread in threads] == [aside]


async def test_a_failing_embedder_costs_no_answer(cache, make_request, embedder) -> None:
    await outcome(cache, make_request(HOW_DO))
    embedder.fail = EmbedderUnavailable("gone")
    assert await outcome(cache, make_request(HOW_CAN)) is MISS
    assert await outcome(cache, make_request(HOW_CAN)) is EXACT


async def test_an_embedder_that_fails_after_it_was_loaded_is_seen_and_so_is_its_return(
    cache, make_request, embedder
) -> None:
    ready = cache.metrics.embedder_ready
    await outcome(cache, make_request(HOW_DO))
    assert cache.metrics.value(ready) == 1
    embedder.fail = EmbedderUnavailable("gone")
    await outcome(cache, make_request("Where is the harbour?"))
    assert cache.metrics.value(ready) == 0
    embedder.fail = None
    await outcome(cache, make_request("When does the ferry leave?"))
    assert cache.metrics.value(ready) == 1


async def test_a_threshold_of_one_leaves_the_exact_tier_alone(cache, make_request, embedder) -> None:
    """It is what alerts advise: no embedding is waited for, and no lookup counts as one without a hit."""
    await outcome(cache, make_request(HOW_DO))
    asked = len(embedder.calls)
    cache.settings["similarity_threshold"] = 1.0
    assert await outcome(cache, make_request(HOW_CAN, sampling={"max_tokens": 31})) is MISS
    assert await outcome(cache, make_request(HOW_DO)) is EXACT
    metrics = cache.metrics
    assert metrics.by_labels(metrics.skips) == {"threshold": 1}
    assert metrics.value(metrics.without_hit) == 1
    assert embedder.calls[asked:] == [HOW_CAN]  # once it is kept, for when the threshold is lowered again


async def test_lookups_without_a_semantic_hit_are_counted_until_there_is_one(cache, make_request) -> None:
    gauge = cache.metrics.without_hit
    for number, text in enumerate([HOW_DO, "Where is my parcel?", "When do you open?"], start=1):
        await outcome(cache, make_request(text))
        assert cache.metrics.value(gauge) == number
    assert await outcome(cache, make_request(HOW_DO)) is EXACT
    assert cache.metrics.value(gauge) == 3
    assert await outcome(cache, make_request(HOW_CAN)) is SEMANTIC
    assert cache.metrics.value(gauge) == 0
    await outcome(cache, make_request("Token ids", user_text=None))
    assert cache.metrics.value(gauge) == 0


@pytest.mark.parametrize("gone", [False, True])
async def test_an_embedder_that_never_loads_is_seen_in_the_metrics(embedder, make_request, gone) -> None:
    if gone:
        embedder.fail = EmbedderUnavailable("There is no model.")
    built = build_cache(
        namespace="svc",
        config=lambda: CacheConfig(enabled=True),
        model=lambda: ServedModel(name="m", weights="w"),
        queue_timeout=lambda: 60.0,
        embedder=embedder,
    )
    await built.layer.start()
    await built.layer.semantic.ready()
    made = Cache(built.layer, Generator(), built.layer.metrics, {}, [])
    await made.ask(make_request(HOW_DO))
    await made.ask(make_request(HOW_CAN))
    await built.layer.stop()
    assert made.metrics.value(made.metrics.embedder_ready) == (0 if gone else 1)
    assert ("no_embedder" in made.metrics.by_labels(made.metrics.skips)) is gone
    assert not gone or made.metrics.value(made.metrics.without_hit) == 2


async def test_a_purged_entry_is_gone_from_the_index_too(cache, make_request) -> None:
    await outcome(cache, make_request(HOW_DO))
    cache.layer.tiers.forget(Scope(tenant="a"))
    assert await outcome(cache, make_request(HOW_CAN)) is MISS


async def test_a_shared_scope_is_shared_semantically(cache, make_request) -> None:
    cache.settings["scope"] = CacheScope.SHARED
    await outcome(cache, make_request(HOW_DO, tenant="a"))
    assert await outcome(cache, make_request(HOW_CAN, tenant="b")) is SEMANTIC


class SemanticTenants(RuleBasedStateMachine):
    """Near questions, exact repeats, orders and time, in any sequence: a tenant reads its own text
    only, and nothing older than its time to live."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.now = 1_000_000.0
        self.clock = mock.patch("time.time", self._time)
        self.clock.start()
        self.generator = Generator()
        self.born: dict[str, float] = {}
        self.loop.run_until_complete(self._start())

    def _time(self) -> float:
        return self.now

    async def _start(self) -> None:
        config = CacheConfig(enabled=True, similarity_threshold=0.7, ttl_seconds=20.0)
        built = build_cache(
            namespace="svc",
            config=lambda: config,
            model=lambda: ServedModel(name="m", weights="w"),
            queue_timeout=lambda: 60.0,
            embedder=WordBag(),
        )
        self.layer = built.layer
        await self.layer.start()
        assert await built.layer.semantic.ready()

    def teardown(self) -> None:
        self.clock.stop()
        self.loop.run_until_complete(self.layer.stop())
        self.loop.close()

    @rule(tenant=st.sampled_from("ab"), text=st.sampled_from([HOW_DO, HOW_CAN, "Can I reset my password?"]))
    def ask(self, tenant: str, text: str) -> None:
        self.loop.run_until_complete(self._ask(tenant, text))

    async def _ask(self, tenant: str, text: str) -> None:
        mark = f"{tenant}:{len(self.generator.made)}"
        self.generator.words = [mark]
        answer = await self.layer.answer(build_request(text, tenant=tenant), self.generator)
        said = "".join([item.delta.text async for item in answer])
        assert said.startswith(f"{tenant}:")
        self.born.setdefault(said, self.now)
        assert self.now - self.born[said] < 20.0 * 1.1
        await self.layer.writer.drained()

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(tenant=st.sampled_from("ab"))
    def purge(self, tenant: str) -> None:
        self.layer.tiers.forget(Scope(tenant=tenant))


TestSemanticTenants = SemanticTenants.TestCase
TestSemanticTenants.settings = settings(max_examples=25, deadline=None, stateful_step_count=25)


async def test_the_latest_comparisons_say_what_was_decided_and_why(cache, make_request) -> None:
    await outcome(cache, make_request("How do I enable the alarm?"))
    await outcome(cache, make_request("How do I disable the alarm?"))
    await outcome(cache, make_request(HOW_DO))
    await outcome(cache, make_request(HOW_CAN))
    accepted, refused = cache.layer.semantic.compared()
    assert (accepted.asked, accepted.stored, accepted.accepted) == (HOW_CAN, HOW_DO, True)
    assert (refused.stored, refused.accepted) == ("How do I enable the alarm?", False)
    assert refused.reason == "antonym"
    assert refused.entry


async def test_the_comparisons_are_bounded_and_shortened(cache, make_request) -> None:
    for number in range(60):
        await outcome(cache, make_request(f"What is the weight of item {number}? " + "really " * 60))
    compared = cache.layer.semantic.compared()
    assert 0 < len(compared) <= 50
    assert max(len(item.asked) for item in compared) <= 200
