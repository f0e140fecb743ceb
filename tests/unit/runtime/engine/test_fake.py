"""The test double keeps the backend's contract."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ferry_runtime.engine.fake import EOS, FakeBackend
from ferry_runtime.engine.protocol import (
    Backend,
    Delta,
    EngineState,
    FinishReason,
    GenerateRequest,
    SamplingParams,
)
from ferry_runtime.errors import EngineDied, EngineLoadError, EngineNotReady, RequestFailed


def ask(name: str = "r", **sampling: Any) -> GenerateRequest:
    params = SamplingParams(**{"max_tokens": 5, "temperature": 0.0, **sampling})
    return GenerateRequest(request_id=name, prompt_token_ids=(5, 6, 7), sampling=params)


async def answer(backend: Backend, request: GenerateRequest) -> tuple[str, list[Delta]]:
    deltas = [delta async for delta in backend.generate(request)]
    return "".join(delta.text for delta in deltas), deltas


@pytest.fixture
async def backend() -> AsyncIterator[FakeBackend]:
    backend = FakeBackend(slots=2, answer=lambda _: [" one", " two", " three"])
    await backend.start()
    yield backend
    await backend.stop()


async def test_the_answer_ends_with_a_counted_end_of_sequence(backend: FakeBackend) -> None:
    text, deltas = await answer(backend, ask(logprobs=1))
    assert text == " one two three"
    assert deltas[-1].token_ids == (EOS,)
    assert deltas[-1].finish_reason is FinishReason.STOP
    assert sum(len(delta.token_ids) for delta in deltas) == 4
    assert sum(len(delta.logprobs) for delta in deltas) == 3


async def test_the_cap_ends_it_with_length(backend: FakeBackend) -> None:
    text, deltas = await answer(backend, ask(max_tokens=2))
    assert (text, deltas[-1].finish_reason) == (" one two", FinishReason.LENGTH)


async def test_a_stop_string_over_two_tokens_does_not_leak(backend: FakeBackend) -> None:
    text, deltas = await answer(backend, ask(stop=("ne tw",)))
    assert text == " o"
    assert deltas[-1].stop_reason == "ne tw"


async def test_unseeded_sampled_answers_differ_and_seeded_ones_do_not() -> None:
    backend = FakeBackend()
    await backend.start()
    unseeded = [await answer(backend, ask(temperature=1.0, max_tokens=50)) for _ in range(2)]
    seeded = [await answer(backend, ask(temperature=1.0, seed=3, max_tokens=50)) for _ in range(2)]
    await backend.stop()
    assert unseeded[0][0] != unseeded[1][0]
    assert seeded[0][0] == seeded[1][0]


async def test_no_more_than_the_slots_run_together(backend: FakeBackend) -> None:
    backend.controls.hanging = True
    streams = [backend.generate(ask(str(number), ignore_eos=True, max_tokens=50)) for number in range(5)]
    backend.controls.hanging = False
    await anext(streams[0])
    assert (backend.stats.running, backend.stats.waiting) == (2, 3)
    for stream in streams:
        await stream.aclose()
    assert backend.cancelled == ["0", "1", "2", "3", "4"]


async def test_one_request_fails_alone(backend: FakeBackend) -> None:
    backend.controls.fails = lambda request: request.request_id == "bad"
    good = asyncio.ensure_future(answer(backend, ask("good")))
    with pytest.raises(RequestFailed):
        await answer(backend, ask("bad"))
    assert (await good)[0] == " one two three"


async def test_death_reaches_every_open_request(backend: FakeBackend) -> None:
    backend.controls.hanging = True
    stream = backend.generate(ask())
    backend.die()
    with pytest.raises(EngineDied):
        await anext(stream)
    with pytest.raises(EngineNotReady):
        backend.generate(ask("next"))
    backend.controls.hanging = False
    backend.recover()
    assert (await answer(backend, ask("after")))[0] == " one two three"


async def test_a_load_error_is_raised_by_start() -> None:
    backend = FakeBackend()
    backend.controls.load_error = "No such model."
    with pytest.raises(EngineLoadError, match="No such model"):
        await backend.start()
    assert backend.state is EngineState.FAILED
