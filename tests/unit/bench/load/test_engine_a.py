"""The peer must do what it is described to do: a weaker one would flatter Ferry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bench.load.engine_a import MOST_AT_ONCE, Batcher


class Model:
    """Notes the batches; each answer names its prompt."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[str], int]] = []

    def generate(self, prompts: list[str], max_new_tokens: int) -> list[dict[str, Any]]:
        self.batches.append((prompts, max_new_tokens))
        return [{"generated_text": prompt} for prompt in prompts]


@pytest.mark.parametrize("off_loop", [False, True])
async def test_waiting_requests_leave_in_full_batches(off_loop: bool) -> None:
    model = Model()
    batcher = Batcher(model, off_loop=off_loop)  # type: ignore[arg-type]
    worker = asyncio.create_task(batcher.work())
    try:
        answers = await asyncio.gather(*(batcher.answer(str(n), n + 1) for n in range(2 * MOST_AT_ONCE + 1)))
    finally:
        worker.cancel()

    assert [answer["generated_text"] for answer in answers] == [str(n) for n in range(17)]
    assert [len(prompts) for prompts, _ in model.batches] == [8, 8, 1]
    # As described: the first request's bound goes for all of its batch.
    assert [bound for _, bound in model.batches] == [1, 9, 17]
    assert (batcher.batches, batcher.requests) == (3, 17)
