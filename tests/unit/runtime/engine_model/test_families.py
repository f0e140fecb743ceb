"""Greedy tokens equal transformers' own generate(), for every family, however rows are batched."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from ferry_runtime.engine.model.contract import Row, Want
from ferry_runtime.engine.model.runner import TorchRunner

from .tiny import CONFIGS, Loop, load, random_prompts, reference_tokens, save_tiny_model

LENGTHS = (1, 3, 24, 25, 57, 77, 90)  # beyond the windows of 20 and 24, and of a block
COUNT = 12


@dataclass
class Family:
    runner: TorchRunner
    model: torch.nn.Module
    prompts: list[list[int]]
    expected: list[list[int]]


@pytest.fixture(scope="module", params=sorted(CONFIGS))
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    directory: Path = tmp_path_factory.mktemp(request.param)
    model = save_tiny_model(request.param, directory)
    prompts = random_prompts(3, LENGTHS)
    expected = [reference_tokens(model, prompt, COUNT) for prompt in prompts]
    return Family(load(directory), model, prompts, expected)


def test_the_reference_emits_many_distinct_tokens(family: Family) -> None:
    assert len({token for tokens in family.expected for token in tokens}) >= 20


def test_one_by_one(family: Family) -> None:
    for prompt, expected in zip(family.prompts, family.expected, strict=True):
        assert Loop(family.runner, reuse=False).run([prompt], [COUNT]) == [expected]


@pytest.mark.parametrize("chunk", [7, 33])
def test_in_batches_with_chunked_prefill(family: Family, chunk: int) -> None:
    loop = Loop(family.runner, chunk=chunk, prefills=3, reuse=False)
    assert loop.run(family.prompts, [COUNT] * len(family.prompts)) == family.expected


@pytest.mark.parametrize("seed", [0, 1])
def test_in_any_order_of_arrival_and_length(family: Family, seed: int) -> None:
    source = random.Random(seed)
    order = list(range(len(family.prompts))) * 2
    source.shuffle(order)
    counts = [source.randint(1, COUNT) for _ in order]
    arrivals = {i: source.randint(0, 20) for i in range(len(order))}
    loop = Loop(family.runner, chunk=source.randint(1, 50))
    tokens = loop.run([family.prompts[i] for i in order], counts, arrivals)
    assert tokens == [family.expected[i][:count] for i, count in zip(order, counts, strict=True)]
    assert loop.reused > 0


def test_prompt_logits_are_those_of_one_forward(family: Family) -> None:
    prompt = family.prompts[-1]
    with torch.no_grad():
        expected = family.model(torch.tensor([prompt])).logits[0]
    family.runner.admit(0, prompt, len(prompt), reuse=False)
    logits = family.runner.step([], [Row(0, tuple(prompt), 0, Want.ALL)])[0]
    family.runner.release(0)
    assert logits.shape == expected.shape
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=1e-4)
