"""The real SmolLM2 in a real engine process: its text, its stops, its characters."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import tokenizers

from ferry_api.runtime_config import DType, Numerics
from ferry_runtime.engine.backend import ProcessBackend
from ferry_runtime.engine.protocol import Delta, FinishReason, GenerateRequest, SamplingParams

from .conftest import backend_for, rest_of, tokens

# The first test on a machine also waits until the weights are converted.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

EMOJI = "Repeat: 😀😃😄 😀😃😄 😀"


class Model:
    def __init__(self, directory: Path, backend: ProcessBackend) -> None:
        self.backend = backend
        self.tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._count = 0

    async def complete(self, prompt: str, **sampling: Any) -> list[Delta]:
        self._count += 1
        params = SamplingParams(**{"max_tokens": 12, "temperature": 0.0, **sampling})
        ids = tuple(self.tokenizer.encode(prompt, add_special_tokens=False).ids)
        request = GenerateRequest(request_id=str(self._count), prompt_token_ids=ids, sampling=params)
        return await rest_of(self.backend.generate(request))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(smollm2_dir: Path) -> AsyncIterator[Model]:
    backend = backend_for(smollm2_dir, slots=4, numerics=Numerics.DETERMINISTIC, dtype=DType.FLOAT32)
    try:
        await backend.start()
        yield Model(smollm2_dir, backend)
    finally:
        await backend.stop()


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


async def test_its_answer_names_paris(model: Model) -> None:
    chat = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    deltas = await model.complete(chat, max_tokens=30)
    assert "Paris" in text(deltas)
    assert deltas[-1].finish_reason is FinishReason.STOP
    assert tokens(deltas)[-1] in model.backend.info.eos_token_ids


async def test_the_greedy_text_is_the_one_that_another_engine_recorded(model: Model) -> None:
    """tests/golden: the same weights under vLLM."""
    assert text(await model.complete("The capital of France is", max_tokens=5)) == " Paris.\n\nThe"


async def test_emoji_are_whole_and_every_token_has_its_own_entry(model: Model) -> None:
    deltas = await model.complete(EMOJI, logprobs=2, stop=("xyzzy",))
    entries = [entry for delta in deltas for entry in delta.logprobs]
    generated = tokens(deltas)
    assert [entry.token.token_id for entry in entries] == generated
    assert len({entry.top for entry in entries}) > 1
    assert b"".join(entry.token.raw for entry in entries).decode(errors="replace") == text(deltas)
    assert text(deltas) == model.tokenizer.decode(generated)
    assert not any("\ufffd" in delta.text for delta in deltas[:-1])


@pytest.mark.parametrize(
    ("extra", "reason"), [(0, FinishReason.STOP), (-1, FinishReason.LENGTH), (1, FinishReason.STOP)]
)
async def test_a_stop_on_the_last_allowed_token_wins_over_the_cap(
    model: Model, extra: int, reason: FinishReason
) -> None:
    free = await model.complete("The capital of France is", max_tokens=12)
    ids, whole = tokens(free), text(free)
    stop = whole[5:9]
    completes = next(n for n in range(1, 13) if stop in model.tokenizer.decode(ids[:n]))
    stopped = await model.complete("The capital of France is", max_tokens=completes + extra, stop=(stop,))
    assert stopped[-1].finish_reason is reason
    assert len(tokens(stopped)) == completes + min(extra, 0)
    assert stop not in text(stopped)


async def test_tokens_are_the_same_alone_and_beside_others_cold_and_warm(model: Model) -> None:
    head = "The ferry leaves at noon, and eight people and a dog stand at the quay. " * 4
    prompts = [head + "They", "Hello", head + "Then", "One, two, three,"]
    sampling: list[dict[str, Any]] = [
        {"seed": 17, "temperature": 0.9},
        {},
        {"seed": 5, "temperature": 1.1, "top_p": 0.9, "presence_penalty": 0.3},
        {"repetition_penalty": 1.2},
    ]
    asked = list(zip(prompts, sampling, strict=True))
    together = await asyncio.gather(*(model.complete(prompt, **params) for prompt, params in asked))
    for (prompt, params), deltas in zip(asked, together, strict=True):
        assert tokens(await model.complete(prompt, **params)) == tokens(deltas)
    assert model.backend.stats.reused_tokens > 0
