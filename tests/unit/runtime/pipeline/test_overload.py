"""Refusals and deadlines, as a client meets them."""

from __future__ import annotations

import asyncio
import time

import pytest

from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.errors import DeadlineExceeded, EngineNotReady, InvalidRequest, Overloaded


async def read(answer):
    return [item async for item in answer]


async def submit_all(service, requests):
    """What each of them got: an answer or the refusal."""
    return await asyncio.gather(
        *(service.pipeline.submit(request) for request in requests), return_exceptions=True
    )


async def test_a_burst_of_sixty_is_refused_beyond_slots_and_queue_exactly(serve, request_of):
    service = await serve(slots=2, max_wait=0.02, queue={"max_requests": 4})
    results = await submit_all(service, [request_of() for _ in range(60)])
    refused = [result for result in results if isinstance(result, Overloaded)]
    assert len(refused) == 60 - 2 - 4
    assert all(refusal.retry_after >= 1 and not refusal.per_tenant for refusal in refused)

    answers = [result for result in results if not isinstance(result, Overloaded)]
    await asyncio.gather(*(read(answer) for answer in answers))
    assert service.metric("requests_total", route="/v1/completions", outcome="rejected") == 54
    assert service.metric("requests_total", route="/v1/completions", outcome="success") == 6
    assert service.metric("requests_rejected_total", reason="queue_requests") == 54


async def test_a_tenant_that_fills_the_queue_is_told_apart_from_a_full_server(serve, request_of):
    service = await serve(slots=1, queue={"max_requests": 4})
    service.backend.controls.hanging = True
    await submit_all(service, [request_of(tenant="greedy") for _ in range(4)])
    await submit_all(service, [request_of(tenant="modest")])
    greedy, modest = await submit_all(service, [request_of(tenant="greedy"), request_of(tenant="modest")])
    assert isinstance(greedy, Overloaded)
    assert isinstance(modest, Overloaded)
    assert (greedy.per_tenant, modest.per_tenant) == (True, False)


async def test_queue_limits_can_change_while_serving(serve, request_of):
    from ferry_api.runtime_config import HotConfig, QueueConfig

    service = await serve(slots=1, queue={"max_requests": 1})
    service.backend.controls.hanging = True
    assert (
        sum(isinstance(r, Overloaded) for r in await submit_all(service, [request_of() for _ in range(4)]))
        == 2
    )
    service.pipeline.apply(HotConfig(queue=QueueConfig(max_requests=3)))
    assert (
        sum(isinstance(r, Overloaded) for r in await submit_all(service, [request_of() for _ in range(4)]))
        == 2
    )


async def test_what_expires_in_the_queue_never_reaches_the_engine(serve, request_of):
    service = await serve(slots=1, queue={"timeout_seconds": 0.1})
    service.backend.controls.hanging = True
    answers = [await service.pipeline.submit(request_of()) for _ in range(6)]
    waiting = answers[2:]  # one in the slot, one handed over to follow it
    for answer in waiting:
        with pytest.raises(DeadlineExceeded):
            await read(answer)
    assert len(service.backend.submitted) == 2
    service.backend.controls.hanging = False
    assert all([await read(answer) for answer in answers[:2]])
    assert len(service.backend.submitted) == 2
    assert service.metric("requests_total", route="/v1/completions", outcome="timeout") == 4


async def test_a_running_request_that_expires_fails_and_frees_its_slot(serve, request_of):
    service = await serve(slots=1)
    service.backend.controls.step_seconds = 0.01
    answer = await service.pipeline.submit(request_of(timeout=0.1, max_tokens=5000))
    assert (await anext(aiter(answer))).delta.finish_reason is None
    with pytest.raises(DeadlineExceeded):
        await read(answer)
    await service.pipeline.wait_idle()
    assert service.backend.cancelled == service.backend.submitted


async def test_a_request_whose_time_is_over_on_arrival_is_refused(serve, request_of):
    service = await serve()
    with pytest.raises(DeadlineExceeded):
        await service.pipeline.submit(request_of(arrival=time.monotonic() - 10, timeout=5.0))
    assert service.backend.submitted == []


async def test_time_spent_following_another_request_is_no_time_in_the_queue(serve, request_of):
    service = await serve(queue={"timeout_seconds": 5.0})
    long_ago = time.monotonic() - 10
    with pytest.raises(DeadlineExceeded):
        await service.pipeline.submit(request_of(arrival=long_ago))
    with pytest.raises(DeadlineExceeded):
        await service.pipeline.submit(request_of(arrival=long_ago, queued_since=long_ago + 1))
    with pytest.raises(DeadlineExceeded):
        await service.pipeline.submit(request_of(arrival=long_ago, queued_since=long_ago + 9, timeout=8.0))
    assert await read(await service.pipeline.submit(request_of(arrival=long_ago, queued_since=long_ago + 9)))


async def test_more_than_the_engine_could_ever_hold_is_the_clients_error(serve, request_of):
    service = await serve(backend=FakeBackend(slots=1, context_length=64))
    with pytest.raises(InvalidRequest) as refusal:
        await service.pipeline.submit(request_of(max_tokens=100))
    assert refusal.value.param == "max_tokens"


async def test_without_a_ready_engine_requests_are_refused(serve, request_of):
    service = await serve()
    service.backend.die()
    with pytest.raises(EngineNotReady):
        await service.pipeline.submit(request_of())
    assert service.metric("requests_rejected_total", reason="not_ready") == 1
