"""One generation for identical requests; every one of them on its own terms."""

import asyncio
import time

import pytest

from ferry_runtime.engine.protocol import FinishReason
from ferry_runtime.errors import DeadlineExceeded, EngineDied, InvalidRequest, Overloaded
from ferry_runtime.generation import CacheOutcome

ANSWER = "A ferry is a boat."


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_hundred_identical_requests_make_one_generation(cache, make_request) -> None:
    results = await asyncio.gather(*(cache.ask(make_request()) for _ in range(100)))
    assert len(cache.generator.made) == 1
    assert {text for text, _ in results} == {ANSWER}
    outcomes = [info.outcome for _, info in results]
    assert outcomes.count(CacheOutcome.MISS) == 1
    assert outcomes.count(CacheOutcome.COALESCED) == 99


async def test_everyone_gets_the_answer_under_their_own_id(cache, make_request) -> None:
    requests = [make_request() for _ in range(3)]
    answers = await asyncio.gather(*(cache.ask_fully(request) for request in requests))
    for request, (_, _, items) in zip(requests, answers, strict=True):
        assert {item.delta.request_id for item in items} == {request.id}


async def test_a_leader_that_leaves_does_not_end_its_followers_generation(cache, make_request) -> None:
    cache.generator.held = True
    leader = await cache.layer.answer(make_request(), cache.generator)
    follower = asyncio.create_task(cache.ask(make_request()))
    await settle()
    await leader.aclose()
    await settle()
    cache.generator.release()
    assert await follower == (ANSWER, (await follower)[1])
    assert len(cache.generator.made) == 1


async def test_the_last_one_out_ends_the_generation_and_nothing_is_stored(cache, make_request) -> None:
    cache.generator.held = True
    answer = await cache.layer.answer(make_request(), cache.generator)
    async for _ in answer:
        break
    await answer.aclose()
    assert cache.generator.made[0].closed
    cache.generator.release()
    text, info = await cache.ask()
    assert (text, info.outcome) == (ANSWER, CacheOutcome.MISS)


@pytest.mark.parametrize("error", [DeadlineExceeded("late"), EngineDied("gone")], ids=["deadline", "death"])
async def test_a_leaders_failure_makes_a_follower_lead(cache, make_request, error) -> None:
    cache.generator.held = True
    cache.generator.errors = [error]
    leader = asyncio.create_task(cache.ask(make_request()))
    await settle()
    followers = [asyncio.create_task(cache.ask(make_request())) for _ in range(5)]
    await settle()
    cache.generator.release()
    with pytest.raises(type(error)):
        await leader
    assert {text for text, _ in await asyncio.gather(*followers)} == {ANSWER}
    assert len(cache.generator.made) == 2


async def test_a_follower_goes_on_where_it_was_after_a_promotion(cache, make_request) -> None:
    cache.generator.held = True
    cache.generator.errors = [EngineDied("gone")]
    leader = await cache.layer.answer(make_request(), cache.generator)
    follower = asyncio.create_task(cache.ask_fully(make_request()))
    await settle()  # the follower has all but the last word by now
    cache.generator.release()
    with pytest.raises(EngineDied):
        [item async for item in leader]
    text, _, items = await follower
    assert text == ANSWER
    assert [token for item in items for token in item.delta.token_ids] == [0, 1, 2]


async def test_a_second_attempt_that_says_something_else_is_not_spliced(cache, make_request) -> None:
    cache.generator.held = True
    cache.generator.errors = [EngineDied("gone")]
    leader = await cache.layer.answer(make_request(), cache.generator)
    follower = asyncio.create_task(cache.ask(make_request()))
    await settle()
    cache.generator.words = ["Quite ", "another ", "answer."]
    cache.generator.release()
    with pytest.raises(EngineDied):
        [item async for item in leader]
    with pytest.raises(Exception, match="could not be continued"):
        await follower


async def test_a_prompt_that_kills_every_generation_is_given_up(cache, make_request) -> None:
    cache.generator.held = True
    cache.generator.errors = [EngineDied("gone")] * 50
    tasks = [asyncio.create_task(cache.ask(make_request())) for _ in range(50)]
    await settle()
    cache.generator.release()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, EngineDied) for result in results)
    assert len(cache.generator.made) <= 4


async def late_failure(
    cache, make_request, error: Exception, words: list[str], ago: float
) -> list[asyncio.Task]:
    """A leader whose last word is an error, and three followers that arrived so many seconds ago."""
    arrival = time.monotonic() - ago
    cache.generator.held = True
    cache.generator.words = words
    cache.generator.errors = [error]
    leader = asyncio.create_task(cache.ask(make_request()))
    await settle()
    followers = [asyncio.create_task(cache.ask(make_request(arrival=arrival))) for _ in range(3)]
    await settle()
    cache.generator.release()
    with pytest.raises(type(error)):
        await leader
    return followers


@pytest.mark.parametrize("error", [DeadlineExceeded("late"), EngineDied("gone")], ids=["deadline", "death"])
async def test_following_a_long_generation_costs_no_time_in_the_queue(cache, make_request, error) -> None:
    followers = await late_failure(cache, make_request, error, ["A ", "ferry ", "is a boat."], 100.0)
    assert {text for text, _ in await asyncio.gather(*followers)} == {ANSWER}
    promoted = cache.generator.made[1].request
    assert promoted.queued_since is not None
    assert promoted.queued_since - promoted.arrival > 60.0


async def test_following_one_that_never_got_a_slot_is_waiting_in_the_queue(cache, make_request) -> None:
    followers = await late_failure(cache, make_request, DeadlineExceeded("late"), [ANSWER], 50.0)
    assert {text for text, _ in await asyncio.gather(*followers)} == {ANSWER}
    assert cache.generator.made[1].request.queued_since is None


async def test_a_refused_leader_leaves_admission_to_the_next(cache, make_request) -> None:
    cache.generator.refusals = [Overloaded("full", 1.0), Overloaded("full", 1.0)]
    results = await asyncio.gather(*(cache.ask(make_request()) for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(result, Overloaded) for result in results) == 2
    assert len(cache.generator.made) == 1


async def test_an_invalid_request_is_everyones(cache, make_request) -> None:
    cache.generator.refusals = [InvalidRequest("no")]
    results = await asyncio.gather(*(cache.ask(make_request()) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, InvalidRequest) for result in results)


async def test_a_follower_keeps_its_own_deadline(cache, make_request) -> None:
    cache.generator.held = True
    leader = asyncio.create_task(cache.ask(make_request()))
    await settle()
    with pytest.raises(DeadlineExceeded):
        await cache.ask(make_request(timeout=0.05))
    cache.generator.release()
    assert (await leader)[0] == ANSWER


async def test_a_slow_follower_does_not_hold_the_leader_back(cache, make_request) -> None:
    cache.generator.held = True
    leader = asyncio.create_task(cache.ask(make_request()))
    await settle()
    slow = await cache.layer.answer(make_request(), cache.generator)
    reader = slow.__aiter__()
    first = await anext(reader)
    cache.generator.release()
    assert (await leader)[0] == ANSWER
    rest = [item async for item in reader]
    assert first.delta.text + "".join(item.delta.text for item in rest) == ANSWER


async def test_an_urgent_follower_lends_its_priority(cache, make_request) -> None:
    cache.generator.held = True
    leader = asyncio.create_task(cache.ask(make_request(priority=5)))
    await settle()
    follower = asyncio.create_task(cache.ask(make_request(priority=-1)))
    await settle()
    assert cache.generator.made[0].priority == -1
    cache.generator.release()
    await asyncio.gather(leader, follower)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"sampling": {"temperature": 0.8}}, id="drawn at random"),
        pytest.param({"cache_control": frozenset({"no-store"})}, id="no-store"),
        pytest.param({"cache_control": frozenset({"no-cache"})}, id="no-cache"),
        pytest.param({"unknown_fields": frozenset({"x"})}, id="unknown field"),
    ],
)
async def test_what_may_not_be_shared_is_not_coalesced(cache, make_request, changes) -> None:
    cache.generator.held = True
    tasks = [asyncio.create_task(cache.ask(make_request(**changes))) for _ in range(3)]
    await settle()
    assert len(cache.generator.made) == 3
    cache.generator.release()
    await asyncio.gather(*tasks)


async def test_no_flight_outlives_its_requests(cache, make_request) -> None:
    cache.generator.errors = [EngineDied("gone")]
    await asyncio.gather(cache.ask(make_request()), return_exceptions=True)
    cache.generator.finish = FinishReason.LENGTH
    await cache.ask(make_request("another"))
    assert cache.layer._flights == {}
