"""Numerics Deterministic: logits are bitwise the same alone, in any batch, cold and warm."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from ferry_api.runtime_config import DType, Numerics
from ferry_runtime.engine.environment import engine_environment
from ferry_runtime.engine.model.contract import Row, Want
from ferry_runtime.engine.model.deterministic import CHUNK_TOKENS
from ferry_runtime.engine.model.runner import TorchRunner
from ferry_runtime.errors import EngineLoadError

from .tiny import Loop, load, random_prompts, reference_tokens, save_tiny_model

FAMILIES = ["llama-tied-scaled", "gemma2", "gpt_neo", "gpt_neox"]
LENGTHS = (1, 17, 63, 64, 65, 130)
COUNT = 4


@pytest.fixture(scope="module", params=FAMILIES)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp(request.param)
    save_tiny_model(request.param, directory)
    return directory


@pytest.fixture(scope="module")
def runner(directory: Path) -> TorchRunner:
    return load(directory, numerics=Numerics.DETERMINISTIC)


def _loop(runner: TorchRunner, *, reuse: bool) -> Loop:
    return Loop(runner, chunk=CHUNK_TOKENS, prefills=2, reuse=reuse)


def _alone(runner: TorchRunner, prompt: Sequence[int]) -> list[torch.Tensor]:
    runner.forget()
    loop = _loop(runner, reuse=False)
    loop.run([prompt], [COUNT])
    return loop.logits[0]


def _same(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_logits_are_the_same_alone_and_in_random_batches(runner: TorchRunner) -> None:
    source = random.Random(1)
    prompts = random_prompts(5, LENGTHS)
    alone = [_alone(runner, prompt) for prompt in prompts]
    for _ in range(2):
        order = [source.randrange(len(prompts)) for _ in range(13)]
        loop = _loop(runner, reuse=False)
        loop.run([prompts[i] for i in order], [COUNT] * 13, {i: source.randint(0, 8) for i in range(13)})
        assert all(_same(loop.logits[at], alone[i]) for at, i in enumerate(order))


def test_logits_are_the_same_with_a_cold_and_a_warm_prefix(runner: TorchRunner) -> None:
    head = random_prompts(8, [100])[0]
    prompts = [head + tail for tail in random_prompts(9, [1, 20, 28])]
    cold = [_alone(runner, prompt) for prompt in prompts]
    runner.forget()
    loop = _loop(runner, reuse=True)
    loop.run([*prompts, *prompts], [COUNT] * 6, {3: 12, 4: 13, 5: 14})
    assert loop.reused >= CHUNK_TOKENS
    assert all(_same(loop.logits[at], cold[at % 3]) for at in range(6))


def test_a_resumed_sequence_replays_to_the_same_logits(runner: TorchRunner) -> None:
    prompt = random_prompts(2, [70])[0]
    loop = _loop(runner, reuse=False)
    tokens = loop.run([prompt], [COUNT])[0]
    start = runner.admit(5, prompt, len(prompt) + COUNT)
    logits = [_prefill(runner, prompt, start or 0)]
    for at, token in enumerate(tokens[:-1]):
        logits.append(runner.step([Row(5, (token,), len(prompt) + at)], [])[5][0])
    runner.release(5)
    assert _same(logits, loop.logits[0])


def _prefill(runner: TorchRunner, prompt: list[int], start: int) -> torch.Tensor:
    for first in range(start, len(prompt), CHUNK_TOKENS):
        result = runner.step([], [Row(5, tuple(prompt[first : first + CHUNK_TOKENS]), first)])
    return result[5][0]


def test_all_prompt_logits_end_with_the_last_one(runner: TorchRunner) -> None:
    prompt = random_prompts(4, [50])[0]
    runner.admit(1, prompt, 50, reuse=False)
    every = runner.step([], [Row(1, tuple(prompt), 0, Want.ALL)])[1]
    last = runner.step([], [Row(1, tuple(prompt), 0, Want.LAST)])[1]
    runner.release(1)
    assert every.shape[0] == 50
    assert torch.equal(every[-1:], last)


def test_chunks_off_the_borders_are_refused(runner: TorchRunner) -> None:
    prompt = random_prompts(4, [90])[0]
    runner.admit(1, prompt, 100, reuse=False)
    try:
        for row in (Row(1, tuple(prompt[:30]), 0), Row(1, tuple(prompt[:90]), 0)):
            with pytest.raises(ValueError, match="begin at multiples"):
                runner.step([], [row])
    finally:
        runner.release(1)


def test_tokens_equal_generate(tmp_path: Path) -> None:
    model = save_tiny_model("qwen3", tmp_path)
    prompts = random_prompts(5, LENGTHS)
    runner = load(tmp_path, numerics=Numerics.DETERMINISTIC)
    expected = [reference_tokens(model, prompt, COUNT) for prompt in prompts]
    assert _loop(runner, reuse=True).run(prompts, [COUNT] * len(prompts)) == expected


@pytest.mark.parametrize("slots", [1, 3, 9])
def test_any_number_of_slots(tmp_path: Path, slots: int) -> None:
    save_tiny_model("llama", tmp_path)
    runner = load(tmp_path, numerics=Numerics.DETERMINISTIC, slots=slots)  # the self-test compares
    assert runner.info.slots == slots


def test_two_threads(tmp_path: Path) -> None:
    """In a process of its own, since how threads wait is fixed when torch is imported; wide enough
    that its matrices are shared between threads."""
    wide = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8}
    save_tiny_model("llama", tmp_path, **wide)
    result = subprocess.run(
        [sys.executable, "-c", _LOAD_WITH_TWO_THREADS, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **engine_environment()},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "Deterministic 2\n"


_LOAD_WITH_TWO_THREADS = """
import sys
from pathlib import Path
import torch
from ferry_api.runtime_config import BatchingConfig, ColdConfig, EngineConfig, ModelConfig
from ferry_runtime.engine.model.load import load_runner
cold = ColdConfig(
    model=ModelConfig(source="file:///tiny", served_name="tiny"),
    engine=EngineConfig(numerics="Deterministic", kv_cache_bytes=16_000_000),
    batching=BatchingConfig(max_batch_size=5),
)
runner = load_runner(Path(sys.argv[1]), cold, threads=2)
print(runner.info.numerics, torch.get_num_threads())
"""


def test_a_failed_self_test_refuses_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny_model("llama", tmp_path)
    monkeypatch.setattr("ferry_runtime.engine.model.selftest.torch.equal", lambda _a, _b: False)
    with pytest.raises(EngineLoadError, match=r"do not hold on this machine.*numerics Fast"):
        load(tmp_path, numerics=Numerics.DETERMINISTIC)


def test_half_precision_is_refused(tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path)
    with pytest.raises(EngineLoadError, match=r"Float32 only, not BFloat16"):
        load(tmp_path, numerics=Numerics.DETERMINISTIC, dtype=DType.BFLOAT16)
