"""The check at load that Deterministic numerics hold on this machine, with this model."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ferry_runtime.engine.model.contract import Row, Want
from ferry_runtime.engine.model.deterministic import CHUNK_TOKENS, DeterministicRunner
from ferry_runtime.errors import EngineLoadError

_DECODES = 2
_LENGTHS = (1, 5, 33, CHUNK_TOKENS, CHUNK_TOKENS + 7)


def check(runner: DeterministicRunner) -> None:
    """Compare logits bit by bit: alone, in a full batch in other slots, and after a warm prefix.

    Raises EngineLoadError where they differ. Leaves the runner without sequences or prefixes.
    """
    context, vocab = runner.info.context_length, runner.info.vocab_size
    lengths = [min(length, context - _DECODES) for length in _LENGTHS]
    prompts = [[(11 + 7 * i * i + length) % vocab for i in range(length)] for length in lengths]
    alone = [_run(runner, [prompt])[0] for prompt in prompts]
    batch = _fitting(runner, [prompts[i % len(prompts)] for i in reversed(range(runner.info.slots))])
    together = _run(runner, batch)
    warm = _run(runner, [prompts[-1]], reuse=True)[0]
    runner.forget()
    expected = {tuple(prompt): logits for prompt, logits in zip(prompts, alone, strict=True)}
    same = all(
        torch.equal(logits, expected[tuple(prompt)]) for prompt, logits in zip(batch, together, strict=True)
    )
    if not (same and torch.equal(warm, alone[-1])):
        raise EngineLoadError(
            "Deterministic numerics do not hold on this machine: the self-test's logits depend on the "
            f"batch (slots: {runner.info.slots}, threads: {torch.get_num_threads()}). Use engine.numerics "
            "Fast, another batching.maxBatchSize, or one thread."
        )


def _fitting(runner: DeterministicRunner, prompts: list[list[int]]) -> list[list[int]]:
    """As many prompts as the KV memory holds at once."""
    block, room = runner.info.kv_block_tokens, runner.info.kv_blocks
    fitting = []
    for prompt in prompts:
        room -= -(-(len(prompt) + _DECODES) // block)
        if room < 0:
            break
        fitting.append(prompt)
    return fitting


def _run(
    runner: DeterministicRunner, prompts: Sequence[Sequence[int]], *, reuse: bool = False
) -> list[torch.Tensor]:
    """Prefill each prompt, then decode all together; [1 + decodes, vocab] per prompt."""
    logits: list[list[torch.Tensor]] = [[] for _ in prompts]
    ids = [-1 - i for i in range(len(prompts))]
    for sequence, prompt in zip(ids, prompts, strict=True):
        start = runner.admit(sequence, prompt, len(prompt) + _DECODES, reuse=reuse) or 0
        for first in range(start, len(prompt), CHUNK_TOKENS):
            chunk = tuple(prompt[first : first + CHUNK_TOKENS])
            want = Want.LAST if first + len(chunk) == len(prompt) else Want.NONE
            for result in runner.step([], [Row(sequence, chunk, first, want)]).values():
                logits[-1 - sequence].append(result)
    for i in range(_DECODES):
        rows = [Row(s, (i + 3,), len(p) + i) for s, p in zip(ids, prompts, strict=True)]
        for sequence, result in runner.step(rows, []).items():
            logits[-1 - sequence].append(result)
    for sequence, prompt in zip(ids, prompts, strict=True):
        runner.release(sequence, tokens=prompt)
    return [torch.cat(rows) for rows in logits]
