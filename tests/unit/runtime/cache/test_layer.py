"""What is served from the cache, what is kept out, and what never gets in."""

import asyncio
import dataclasses

import pytest

from ferry_api.runtime_config import CacheScope, SampledRequests
from ferry_runtime.cache import policy
from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.errors import EngineDied, NotCached, Overloaded
from ferry_runtime.generation import CacheOutcome

ANSWER = "A ferry is a boat."
EXACT, MISS, BYPASS = CacheOutcome.EXACT, CacheOutcome.MISS, CacheOutcome.BYPASS


async def outcomes(cache, *requests) -> list[CacheOutcome]:
    return [(await cache.ask(request))[1].outcome for request in requests]


async def test_the_second_identical_request_is_a_hit(cache, make_request) -> None:
    assert await outcomes(cache, make_request(), make_request()) == [MISS, EXACT]
    assert len(cache.generator.made) == 1


async def test_a_hit_equals_the_miss_in_everything_but_the_id(cache, make_request) -> None:
    miss, hit = make_request(n=2), make_request(n=2)
    _, _, generated = await cache.ask_fully(miss)
    text, info, replayed = await cache.ask_fully(hit)
    assert text == ANSWER
    for index in range(2):
        ours = [item.delta for item in replayed if item.index == index]
        theirs = [item.delta for item in generated if item.index == index]
        assert "".join(delta.text for delta in ours) == "".join(delta.text for delta in theirs)
        assert [i for d in ours for i in d.token_ids] == [i for d in theirs for i in d.token_ids]
        assert [d.finish_reason for d in ours if d.finish_reason] == [FinishReason.STOP]
        assert {delta.request_id for delta in ours} == {hit.id}
    assert info.entry_id is not None
    assert info.age_seconds is not None
    assert info.age_seconds >= 0


async def test_another_tenant_never_hits(cache, make_request) -> None:
    assert await outcomes(cache, make_request(tenant="a"), make_request(tenant="b")) == [MISS, MISS]


async def test_a_shared_scope_is_shared(cache, make_request) -> None:
    cache.settings["scope"] = CacheScope.SHARED
    assert await outcomes(cache, make_request(tenant="a"), make_request(tenant="b")) == [MISS, EXACT]


async def test_another_model_never_hits(cache, make_request) -> None:
    await cache.ask(make_request())
    cache.model[0] = dataclasses.replace(cache.model[0], weights="other")
    assert await outcomes(cache, make_request()) == [MISS]


@pytest.mark.parametrize(
    ("setting", "drawn", "expected"),
    [
        (SampledRequests.NEVER, (0.0, False), [MISS, EXACT]),
        (SampledRequests.NEVER, (1.0, True), [BYPASS, BYPASS]),
        (SampledRequests.WHEN_OMITTED, (1.0, True), [MISS, EXACT]),
        (SampledRequests.WHEN_OMITTED, (1.0, False), [BYPASS, BYPASS]),
        (SampledRequests.ALWAYS, (0.7, False), [MISS, EXACT]),
    ],
)
async def test_answers_drawn_at_random_are_kept_as_declared(
    cache, make_request, setting, drawn, expected
) -> None:
    cache.settings["sampled_requests"] = setting
    temperature, omitted = drawn
    changes = {"sampling": {"temperature": temperature}, "temperature_omitted": omitted}
    assert await outcomes(cache, make_request(**changes), make_request(**changes)) == expected


async def test_a_disabled_cache_stays_out(cache, make_request) -> None:
    cache.settings["enabled"] = False
    assert await outcomes(cache, make_request(), make_request()) == [BYPASS, BYPASS]


async def test_without_a_known_model_nothing_is_cached(cache, make_request) -> None:
    cache.model[0] = None
    assert await outcomes(cache, make_request(), make_request()) == [BYPASS, BYPASS]


async def test_a_failed_generation_is_not_stored(cache, make_request) -> None:
    cache.generator.errors = [EngineDied("gone")]
    with pytest.raises(EngineDied):
        await cache.ask(make_request())
    assert await outcomes(cache, make_request()) == [MISS]


async def test_an_empty_answer_is_not_stored(cache, make_request) -> None:
    cache.generator.words = [""]
    assert await outcomes(cache, make_request(), make_request()) == [MISS, MISS]


async def test_an_answer_as_large_as_hundreds_is_not_stored(cache, make_request) -> None:
    cache.generator.words = ["word " * (policy.MOST_BYTES // 5), "the end."]
    assert await outcomes(cache, make_request(), make_request()) == [MISS, MISS]
    assert cache.metrics.by_labels(cache.metrics.writes)["too_large"] == 2
    cache.generator.words = ["word " * (policy.MOST_BYTES // 6), "the end."]
    assert await outcomes(cache, make_request(), make_request()) == [MISS, EXACT]


async def test_an_answer_cut_by_its_limit_serves_that_limit_alone(cache, make_request) -> None:
    cache.generator.finish = FinishReason.LENGTH
    longer = make_request(sampling={"max_tokens": 64})
    assert await outcomes(cache, make_request(), make_request(), longer) == [MISS, EXACT, MISS]


async def test_a_changed_bound_applies_while_serving(cache, make_request) -> None:
    for number in range(6):
        await cache.ask(make_request(str(number)))
    cache.settings["max_entries"] = 3
    await cache.ask(make_request("one more"))
    assert len(cache.layer.tiers.local) == 3


async def test_expiry_is_absolute_without_any_sweep(cache, make_request, monkeypatch) -> None:
    cache.settings["ttl_seconds"] = 10.0
    await cache.ask(make_request())
    from ferry_runtime.cache import layer

    real = layer.time.time
    monkeypatch.setattr(layer.time, "time", lambda: real() + 12.0)
    assert await outcomes(cache, make_request()) == [MISS]


async def test_a_refusal_is_raised_before_there_is_an_answer(cache, make_request) -> None:
    cache.generator.refusals = [Overloaded("full", 2.0)]
    with pytest.raises(Overloaded):
        await cache.layer.answer(make_request(), cache.generator)


async def test_cancelling_a_submit_leaves_nothing_behind(cache, make_request) -> None:
    started = asyncio.Event()

    async def stuck(request):
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(cache.layer.answer(make_request(), stuck))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cache.layer._flights == {}


class TestDirectives:
    async def test_no_cache_asks_anew_and_refreshes(self, cache, make_request) -> None:
        fresh = make_request(cache_control=frozenset({"no-cache"}))
        assert await outcomes(cache, make_request(), fresh, make_request()) == [MISS, MISS, EXACT]

    async def test_no_store_leaves_nothing(self, cache, make_request) -> None:
        silent = make_request(cache_control=frozenset({"no-store"}))
        assert await outcomes(cache, silent, make_request()) == [MISS, MISS]

    async def test_no_store_may_still_be_answered(self, cache, make_request) -> None:
        silent = make_request(cache_control=frozenset({"no-store"}))
        assert await outcomes(cache, make_request(), silent) == [MISS, EXACT]

    async def test_only_if_cached_never_generates(self, cache, make_request) -> None:
        only = make_request(cache_control=frozenset({"only-if-cached"}))
        with pytest.raises(NotCached):
            await cache.ask(only)
        assert cache.generator.made == []
        await cache.ask(make_request())
        assert (await cache.ask(only))[1].outcome is EXACT

    async def test_only_if_cached_is_refused_where_the_cache_stays_out(self, cache, make_request) -> None:
        changes = {"sampling": {"temperature": 1.0}, "cache_control": frozenset({"only-if-cached"})}
        with pytest.raises(NotCached):
            await cache.ask(make_request(**changes))

    @pytest.mark.parametrize(("age", "expected"), [("60", EXACT), ("0", MISS), ("soon", MISS)])
    async def test_max_age_bounds_the_answers_age(self, cache, make_request, age, expected) -> None:
        await cache.ask(make_request())
        young = make_request(cache_control=frozenset({f"max-age={age}"}))
        assert await outcomes(cache, young) == [expected]
