"""Cancelling, engine failures, and a cache that breaks: nobody else is touched, nothing hangs."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.errors import (
    EngineDied,
    EngineNotReady,
    NotCached,
    RequestFailed,
    ShuttingDown,
    StoreUnavailable,
)


async def read(answer):
    return [item async for item in answer]


async def test_a_reader_that_leaves_frees_its_slot_and_touches_nobody(serve, request_of):
    service = await serve(slots=2)
    service.backend.controls.step_seconds = 0.002
    leaving = await service.pipeline.submit(request_of(max_tokens=5000))
    staying = await service.pipeline.submit(request_of(max_tokens=50))
    await anext(aiter(leaving))
    await leaving.aclose()
    items = await read(staying)
    assert sum(len(item.delta.token_ids) for item in items) == 50
    await service.pipeline.wait_idle()
    assert len(service.backend.cancelled) == 1
    assert service.metric("requests_total", route="/v1/completions", outcome="cancelled") == 1
    # What was computed for the one that left counts too.
    assert service.metric("generation_tokens_total", tenant="anonymous") > 50


async def test_twenty_readers_that_leave_the_queue_cost_the_engine_nothing(serve, request_of):
    service = await serve(slots=1)
    service.backend.controls.hanging = True
    busy = [await service.pipeline.submit(request_of()) for _ in range(2)]  # slot and lookahead
    queued = [await service.pipeline.submit(request_of()) for _ in range(20)]
    await asyncio.gather(*(answer.aclose() for answer in queued))
    live = await service.pipeline.submit(request_of())
    service.backend.controls.hanging = False
    assert all(await asyncio.gather(*(read(answer) for answer in [*busy, live])))
    assert len(service.backend.submitted) == 3
    assert service.metric("requests_total", route="/v1/completions", outcome="cancelled") == 20
    assert service.metric("num_requests_waiting") == 0


async def test_closing_right_after_submitting_leaves_nothing_running(serve, request_of):
    service = await serve(slots=4)
    for _ in range(50):
        answer = await service.pipeline.submit(request_of(n=3))
        await answer.aclose()
        await answer.aclose()
    await service.pipeline.wait_idle()
    assert sorted(service.backend.cancelled) == sorted(service.backend.submitted)
    assert await read(await service.pipeline.submit(request_of()))


async def test_an_answer_read_to_its_end_is_a_success_also_when_closed_afterwards(serve, request_of):
    service = await serve()
    answer = await service.pipeline.submit(request_of())
    async for item in answer:
        if item.delta.finish_reason is not None:
            break
    await answer.aclose()
    assert service.metric("requests_total", route="/v1/completions", outcome="success") == 1
    assert service.metric("requests_total", route="/v1/completions", outcome="cancelled") == 0
    assert service.metric("request_success_total", finished_reason="length") == 1


async def test_a_failing_request_fails_alone(serve, request_of):
    service = await serve()
    service.backend.controls.fails = lambda request: request.prompt_token_ids == (666,)
    bad, *good = [await service.pipeline.submit(request_of(prompt=prompt)) for prompt in [(666,), (1,), (2,)]]
    with pytest.raises(RequestFailed):
        await read(bad)
    assert all([await read(answer) for answer in good])
    assert service.metric("requests_total", route="/v1/completions", outcome="error") == 1


async def test_one_failing_choice_ends_the_other_choices_of_its_request(serve, request_of):
    service = await serve(slots=2)
    service.backend.controls.step_seconds = 0.001
    service.backend.controls.fails = lambda request: request.request_id.endswith("-1")
    answer = await service.pipeline.submit(request_of(n=5, max_tokens=5000))
    with pytest.raises(RequestFailed):
        await read(answer)
    await service.pipeline.wait_idle()
    failed = [name for name in service.backend.submitted if name.endswith("-1")]
    assert sorted(service.backend.cancelled + failed) == sorted(service.backend.submitted)


class RefusingBackend(FakeBackend):
    """Fails to take the sequences that ``refused`` names by their last part, while it seems ready."""

    def __init__(self, *, refused):
        super().__init__(slots=4)
        self.refused = refused

    def generate(self, request):
        if request.request_id.rpartition("-")[2] in self.refused:
            raise EngineNotReady("The engine process is not running.")
        return super().generate(request)


@pytest.mark.parametrize("refused", ["0", "1", "2", "012"])
async def test_a_choice_that_the_engine_does_not_take_loses_nothing_else(serve, request_of, refused):
    service = await serve(backend=RefusingBackend(refused=refused), slots=4)
    service.backend.controls.hanging = True
    queued = [await service.pipeline.submit(request_of()) for _ in range(6)]  # single ones are refused too
    several = await service.pipeline.submit(request_of(n=3))
    behind = await service.pipeline.submit(request_of(n=2))
    service.backend.controls.hanging = False
    results = await asyncio.gather(
        *(read(answer) for answer in (*queued, several, behind)), return_exceptions=True
    )
    assert isinstance(results[-2], EngineNotReady)
    for result in results:
        assert isinstance(result, list | EngineNotReady)
    service.backend.refused = ""
    await service.pipeline.wait_idle()
    full = [await service.pipeline.submit(request_of(n=4)) for _ in range(3)]
    assert all([await read(answer) for answer in full])


async def test_when_the_engine_dies_the_running_fail_and_the_queued_are_served_after_its_return(
    serve, request_of
):
    service = await serve(slots=1)
    service.backend.controls.hanging = True
    running, following, queued = [await service.pipeline.submit(request_of()) for _ in range(3)]
    service.backend.die()
    for answer in (running, following):
        with pytest.raises(EngineDied):
            await read(answer)
    service.backend.controls.hanging = False
    service.backend.recover()
    assert await read(queued)


async def test_when_the_engine_does_not_come_back_the_queued_fail_too(serve, request_of):
    service = await serve(slots=1)
    service.backend.controls.hanging = True
    answers = [await service.pipeline.submit(request_of()) for _ in range(5)]
    service.backend.die()
    await service.backend.stop()
    results = await asyncio.gather(*(read(answer) for answer in answers), return_exceptions=True)
    assert all(isinstance(result, Exception) for result in results)
    await service.pipeline.wait_idle()


async def test_refusing_lets_what_is_open_finish_and_failing_ends_it(serve, request_of):
    service = await serve(slots=1)
    service.backend.controls.hanging = True
    open_answers = [await service.pipeline.submit(request_of()) for _ in range(3)]
    service.pipeline.refuse(ShuttingDown("closing"))
    with pytest.raises(ShuttingDown):
        await service.pipeline.submit(request_of())
    service.pipeline.fail_all(ShuttingDown("closed"))
    results = await asyncio.gather(*(read(answer) for answer in open_answers), return_exceptions=True)
    assert [type(result) for result in results] == [ShuttingDown] * 3
    await service.pipeline.wait_idle()


class BrokenCache:
    """Fails before, or after it has begun a generation."""

    def __init__(self, error, *, generates):
        self.error = error
        self.generates = generates

    async def start(self):
        pass

    async def answer(self, request, generate):
        if self.generates:
            await generate(request)
        raise self.error

    async def stop(self):
        pass


@pytest.mark.parametrize("generates", [False, True])
@pytest.mark.parametrize("error", [StoreUnavailable("down"), RuntimeError("a bug")], ids=type)
async def test_a_broken_cache_loses_no_answer_and_generates_none_twice(serve, request_of, error, generates):
    service = await serve(cache=BrokenCache(error, generates=generates))
    assert await read(await service.pipeline.submit(request_of()))
    assert len(service.backend.submitted) == 1


async def test_what_the_cache_refuses_on_purpose_reaches_the_client(serve, request_of):
    service = await serve(cache=BrokenCache(NotCached("only-if-cached"), generates=False))
    with pytest.raises(NotCached):
        await service.pipeline.submit(request_of())
    assert service.backend.submitted == []


async def test_a_follower_lends_a_queued_leader_its_priority(serve, request_of):
    class Leading:
        async def start(self):
            pass

        async def answer(self, request, generate):
            self.leader = await generate(request)
            return self.leader

        async def stop(self):
            pass

    cache = Leading()
    service = await serve(slots=1, cache=cache)
    service.backend.controls.hanging = True
    for _ in range(2):
        await service.pipeline.submit(request_of())
    first = await service.pipeline.submit(request_of(prompt=(7,)))
    second = await service.pipeline.submit(request_of(prompt=(8,)))
    cache.leader.raise_priority(-1)
    service.backend.controls.hanging = False
    await asyncio.gather(read(first), read(second))
    *_, third, fourth = service.backend.submitted
    assert int(third.split("-")[1]) > int(fourth.split("-")[1])


async def test_engine_slots_decide_not_the_declared_batch_when_there_are_fewer(serve, request_of):
    service = await serve(backend=FakeBackend(slots=1), queue={"max_requests": 2})
    service.backend.controls.hanging = True
    for _ in range(3):
        await service.pipeline.submit(request_of())
    assert len(service.backend.submitted) == 2


class PausingBackend(FakeBackend):
    """The double with memory for two sequences in four slots; a paused row's stream stays silent."""

    def __init__(self, **options):
        super().__init__(**options)
        self.calls = []
        self._aside = {}

    @property
    def info(self):
        return msgspec.structs.replace(super().info, kv_blocks=2)

    def pause(self, request_id):
        self.calls.append(("pause", request_id))
        self._aside[request_id] = self._running.pop(request_id)

    def resume(self, request_id):
        self.calls.append(("resume", request_id))
        self._running[request_id] = self._aside.pop(request_id)
        self._work.set()


async def test_an_urgent_request_pauses_a_patient_one_whose_answer_does_not_change(serve, request_of):
    backend = PausingBackend(slots=4, context_length=64)
    backend.controls.step_seconds = 0.001
    service = await serve(slots=4, backend=backend)
    alone = await read(
        await service.pipeline.submit(request_of(prompt=(5,) * 20, max_tokens=44, temperature=0))
    )
    patient = [
        await service.pipeline.submit(
            request_of(prompt=(5,) * 20, max_tokens=44, temperature=0, priority=priority)
        )
        for priority in (1, 2)
    ]
    for answer in patient:
        await anext(aiter(answer))
    urgent = await service.pipeline.submit(request_of(max_tokens=60, priority=-1))
    assert await read(urgent)
    rest = await asyncio.gather(*(read(answer) for answer in patient))
    assert [call for call, _ in backend.calls] == ["pause", "resume"]
    assert backend.calls[0][1] == backend.submitted[2]
    whole = "".join(item.delta.text for item in alone)
    assert all(whole.endswith("".join(item.delta.text for item in items)) for items in rest)
    assert all(items[-1].delta.finish_reason == "length" for items in rest)


class SlowCache:
    """Asks the engine only once it may: what a lookup in a slow store looks like."""

    def __init__(self):
        self.may_go_on = asyncio.Event()

    async def start(self):
        pass

    async def answer(self, request, generate):
        await self.may_go_on.wait()
        return await generate(request)

    async def stop(self):
        pass


async def test_a_request_still_in_the_cache_counts_as_open_and_is_finished(serve, request_of):
    cache = SlowCache()
    service = await serve(cache=cache)
    accepted = asyncio.create_task(service.pipeline.submit(request_of()))
    await asyncio.sleep(0)
    service.pipeline.refuse(ShuttingDown("closing"))
    idle = asyncio.create_task(service.pipeline.wait_idle())
    await asyncio.sleep(0)
    assert not idle.done()
    cache.may_go_on.set()
    assert await read(await accepted)
    await idle


async def test_a_request_still_in_the_cache_when_all_are_ended_never_starts(serve, request_of):
    cache = SlowCache()
    service = await serve(cache=cache)
    accepted = asyncio.create_task(service.pipeline.submit(request_of()))
    await asyncio.sleep(0)
    service.pipeline.fail_all(ShuttingDown("closed"))
    cache.may_go_on.set()
    with pytest.raises(ShuttingDown):
        await accepted
    assert service.backend.submitted == []
    await service.pipeline.wait_idle()


async def test_an_engine_that_returns_with_less_memory_is_not_asked_for_more(serve, request_of):
    class Shrinking(FakeBackend):
        def recover(self):
            self._info = msgspec.structs.replace(self._info, kv_blocks=1)
            super().recover()

    backend = Shrinking(slots=4, context_length=64)
    service = await serve(backend=backend)
    assert await read(await service.pipeline.submit(request_of(max_tokens=8)))
    backend.die()
    backend.recover()
    backend.controls.hanging = True
    for _ in range(3):
        await service.pipeline.submit(request_of(max_tokens=40))
    assert len(backend.submitted) == 2  # one before, and one block's worth now
