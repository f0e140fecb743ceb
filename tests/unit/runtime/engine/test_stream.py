"""Deltas reach a consumer in order, merged when it is slow, and leaving early cancels."""

import asyncio
import gc

import pytest

from ferry_runtime.engine.protocol import Alternative, Delta, FinishReason, TokenLogprob
from ferry_runtime.engine.stream import Mailbox, Stream, merge
from ferry_runtime.errors import EngineDied


def delta(text: str, token: int, finish: FinishReason | None = None) -> Delta:
    entry = TokenLogprob(Alternative(token, text, text.encode(), -1.0))
    return Delta(request_id="r", text=text, token_ids=(token,), logprobs=(entry,), finish_reason=finish)


def opened() -> tuple[Mailbox, Stream, list[str]]:
    cancelled: list[str] = []
    mailbox = Mailbox()
    return mailbox, Stream(mailbox, lambda: cancelled.append("r")), cancelled


def test_merging_loses_nothing() -> None:
    first = Delta(request_id="r", token_ids=(1,), prompt_logprobs=(), cached_prompt_tokens=7)
    last = Delta(request_id="r", text="c", token_ids=(3,), finish_reason=FinishReason.STOP, stop_reason="x")
    merged = merge([first, delta("b", 2), last])
    assert merged == Delta(
        request_id="r",
        text="bc",
        token_ids=(1, 2, 3),
        logprobs=delta("b", 2).logprobs,
        prompt_logprobs=(),
        cached_prompt_tokens=7,
        finish_reason=FinishReason.STOP,
        stop_reason="x",
    )


async def test_a_slow_consumer_finds_one_merged_delta() -> None:
    mailbox, stream, _ = opened()
    for number in range(1000):
        mailbox.put(delta("x", number))
    mailbox.put(delta("y", 1000, FinishReason.LENGTH))
    received = [d async for d in stream]
    assert len(received) == 1
    assert received[0].text == "x" * 1000 + "y"
    assert received[0].token_ids == tuple(range(1001))


async def test_a_waiting_consumer_gets_each_delta() -> None:
    mailbox, stream, cancelled = opened()
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    mailbox.put(delta("a", 1, FinishReason.STOP))
    assert (await waiting).text == "a"
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    await stream.aclose()
    assert cancelled == []


async def test_an_error_follows_what_was_not_read_yet() -> None:
    mailbox, stream, _ = opened()
    mailbox.put(delta("a", 1))
    mailbox.fail(EngineDied("gone"))
    assert (await anext(stream)).text == "a"
    with pytest.raises(EngineDied):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_closing_early_cancels_once() -> None:
    mailbox, stream, cancelled = opened()
    mailbox.put(delta("a", 1))
    await stream.aclose()
    await stream.aclose()
    assert cancelled == ["r"]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_cancelled_wait_leaves_the_stream_open() -> None:
    mailbox, stream, cancelled = opened()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 0.001)
    mailbox.put(delta("a", 1))
    assert (await anext(stream)).text == "a"
    assert cancelled == []
    await stream.aclose()


async def test_a_forgotten_stream_cancels() -> None:
    mailbox, stream, cancelled = opened()
    del stream
    gc.collect()
    await asyncio.sleep(0)
    assert cancelled == ["r"]
    assert mailbox.finished
