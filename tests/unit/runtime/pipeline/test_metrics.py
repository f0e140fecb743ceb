from __future__ import annotations

import asyncio
import re

import pytest

from ferry_runtime.engine.protocol import EngineStats
from ferry_runtime.metrics import Metrics, priority_class
from ferry_runtime.timeline import BUCKET_SECONDS, Timeline


async def read(answer):
    return [item async for item in answer]


@pytest.fixture
def text():
    from prometheus_client.exposition import generate_latest

    def of(service):
        return generate_latest(service.metrics.registry).decode()

    return of


async def test_a_request_shows_in_every_metric_that_speaks_of_it(serve, request_of):
    service = await serve()
    await read(await service.pipeline.submit(request_of(prompt=(1,) * 20, max_tokens=6)))
    assert service.metric("requests_total", route="/v1/completions", outcome="success") == 1
    assert service.metric("request_success_total", finished_reason="length") == 1
    assert service.metric("prompt_tokens_total", tenant="anonymous") == 20
    assert service.metric("generation_tokens_total", tenant="anonymous") == 6
    assert service.metric("time_to_first_token_seconds_count") == 1
    assert service.metric("inter_token_latency_seconds_count") >= 1
    assert service.metric("e2e_request_latency_seconds_count") == 1
    assert service.metric("request_queue_time_seconds_count", priority="default") == 1
    assert service.metric("cost_estimate_ratio_count") == 1
    assert service.metric("cache_answers_total", outcome="bypass") == 1


async def test_batches_of_eight_show_as_eight(serve, request_of):
    service = await serve(slots=8, max_wait=0.05)
    answers = [await service.pipeline.submit(request_of(max_tokens=30)) for _ in range(8)]
    await asyncio.gather(*(read(answer) for answer in answers))
    assert service.metrics.mean_batch_size > 7
    assert service.metric("batch_size_bucket", le="6.0") <= 1
    assert service.metric("batch_size_count") >= 20


async def test_queue_gauges_are_read_live(serve, request_of):
    service = await serve(slots=1)
    service.backend.controls.hanging = True
    answers = [await service.pipeline.submit(request_of(prompt=(1,) * 10)) for _ in range(5)]
    assert service.metric("num_requests_waiting") == 4
    assert service.metric("queued_tokens") >= 3 * 10
    for answer in answers:
        await answer.aclose()
    await service.pipeline.wait_idle()
    assert service.metric("num_requests_waiting") == 0
    assert service.metric("queued_tokens") == 0


async def test_no_request_can_add_series_without_end(serve, request_of, text):
    service = await serve(slots=8)

    async def play(number):
        request = request_of(tenant=f"tenant-{number}", priority=number, max_tokens=1)
        await read(await service.pipeline.submit(request))

    for number in range(80):
        await play(number)
    before = len(text(service).splitlines())
    for number in range(80, 160):
        await play(number)
    assert len(text(service).splitlines()) == before


async def test_no_prompt_and_no_answer_appears(serve, request_of, text):
    service = await serve()
    await read(await service.pipeline.submit(request_of()))
    assert "a prompt" not in text(service)
    assert not re.search("ferry leaves|über", text(service))


def test_a_step_counts_once_however_often_it_is_told():
    metrics = Metrics()
    for _ in range(5):
        metrics.stepped(EngineStats(steps=1, decode_rows=4))
    metrics.stepped(EngineStats(steps=2, decode_rows=0))  # a prompt alone is no decode batch
    metrics.stepped(EngineStats(steps=3, decode_rows=8))
    assert metrics.mean_batch_size == 6


def test_the_level_is_known_also_where_no_step_tells_of_it():
    metrics = Metrics()
    now = [1_000_000.0]
    metrics.timeline = timeline = Timeline(lambda: now[0])
    metrics.stepped(EngineStats(steps=1, running=3, decode_rows=3))
    metrics.stepped(EngineStats(steps=1, running=0))
    now[0] += 4 * BUCKET_SECONDS
    assert timeline.columns().running[-4:] == [3, 0, 0, 0]
    metrics.stepped(EngineStats(steps=2, running=1, decode_rows=1))
    metrics.stepped(EngineStats())  # the engine is gone
    now[0] += 2 * BUCKET_SECONDS
    assert timeline.columns().running[-2:] == [1, 0]


def test_priorities_share_three_labels():
    assert [priority_class(number) for number in (-9, -1, 0, 1, 10**9)] == [
        "urgent",
        "urgent",
        "default",
        "low",
        "low",
    ]
