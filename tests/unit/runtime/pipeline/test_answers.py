"""What a reader of an answer sees."""

from __future__ import annotations

import asyncio

from ferry_api.runtime_config import BatchingMode
from ferry_runtime.engine.protocol import Delta
from ferry_runtime.errors import ShuttingDown
from ferry_runtime.scheduling.answer import ScheduledAnswer, Timeline


async def read(answer):
    texts: dict[int, str] = {}
    tokens: dict[int, int] = {}
    reasons: dict[int, list[str]] = {}
    async for item in answer:
        texts[item.index] = texts.get(item.index, "") + item.delta.text
        tokens[item.index] = tokens.get(item.index, 0) + len(item.delta.token_ids)
        if item.delta.finish_reason:
            reasons.setdefault(item.index, []).append(item.delta.finish_reason)
    return texts, tokens, reasons


async def test_an_answer_has_the_text_and_the_true_token_count(serve, request_of):
    service = await serve()
    texts, tokens, reasons = await read(await service.pipeline.submit(request_of(max_tokens=5)))
    assert texts[0].strip()
    assert tokens == {0: 5}
    assert reasons == {0: ["length"]}


async def test_every_choice_ends_exactly_once_also_with_more_choices_than_slots(serve, request_of):
    service = await serve(slots=2)
    _, tokens, reasons = await read(await service.pipeline.submit(request_of(n=7, max_tokens=3)))
    assert tokens == dict.fromkeys(range(7), 3)
    assert reasons == {index: ["length"] for index in range(7)}


async def test_two_requests_of_more_choices_than_slots_both_end(serve, request_of):
    service = await serve(slots=2)
    answers = [await service.pipeline.submit(request_of(n=5, max_tokens=3)) for _ in range(2)]
    results = await asyncio.gather(*(read(answer) for answer in answers))
    assert all(len(reasons) == 5 for _, _, reasons in results)


async def test_the_same_seed_gives_the_same_choices_and_different_ones_among_each_other(serve, request_of):
    service = await serve()
    first, second = [
        (await read(await service.pipeline.submit(request_of(n=3, seed=7, temperature=1.0))))[0]
        for _ in range(2)
    ]
    assert first == second
    assert len(set(first.values())) == 3


async def test_a_choice_is_not_the_first_choice_of_the_next_seed(serve, request_of):
    service = await serve()
    (seven, _, _), (eight, _, _) = [
        await read(await service.pipeline.submit(request_of(n=2, seed=seed, temperature=1.0)))
        for seed in (7, 8)
    ]
    assert seven[1] != eight[0]


async def test_a_reader_that_lags_gets_everything_and_holds_up_nobody(serve, request_of):
    service = await serve()
    slow = await service.pipeline.submit(request_of(max_tokens=300, seed=1, logprobs=1))
    quick = await service.pipeline.submit(request_of(max_tokens=300))
    await read(quick)
    await service.pipeline._scheduler.wait_idle()

    items = [item async for item in slow]
    assert len(items) == 1  # merged while nobody read
    assert len(items[0].delta.token_ids) == len(items[0].delta.logprobs) == 300


async def test_the_first_of_several_choices_is_the_answer_that_one_would_have_been(serve, request_of):
    service = await serve()
    (alone, _, _), (several, _, _) = [
        await read(await service.pipeline.submit(request_of(n=n, seed=11, temperature=1.0))) for n in (1, 3)
    ]
    assert several[0] == alone[0]


def test_what_a_reader_has_not_fetched_is_merged_as_it_comes():
    answer = ScheduledAnswer(
        choices=1, timeline=Timeline(0.0), cancel=lambda: None, raise_priority=lambda _: None
    )
    for number in range(10_000):
        answer.push(0, Delta(request_id="r", text="x", token_ids=(number,)))
    assert sum(len(deltas) for deltas in answer._pending.values()) <= 33


async def test_a_lone_request_does_not_wait_for_company_in_adaptive_mode(serve, request_of):
    declared = {"slots": 4, "max_wait": 3600.0}
    adaptive = await serve(**declared, mode=BatchingMode.ADAPTIVE)
    fixed = await serve(**declared)
    assert await read(await adaptive.pipeline.submit(request_of()))
    waiting = await fixed.pipeline.submit(request_of())
    assert fixed.backend.submitted == []  # until three more come, or an hour has passed
    others = [await fixed.pipeline.submit(request_of()) for _ in range(3)]
    assert all([await read(answer) for answer in (waiting, *others)])


async def test_the_service_is_idle_while_no_request_is_open_and_one_could_be_served(serve, request_of):
    service = await serve()
    assert service.pipeline.idle
    answer = await service.pipeline.submit(request_of())
    assert not service.pipeline.idle
    await read(answer)
    assert service.pipeline.idle
    service.pipeline.refuse(ShuttingDown("draining"))
    assert not service.pipeline.idle


async def test_a_service_without_its_engine_is_not_idle(serve):
    service = await serve()
    service.backend.die()
    assert not service.pipeline.idle
