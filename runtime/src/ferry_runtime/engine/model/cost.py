"""What steps cost on this machine, measured at load with the loaded model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ferry_runtime.engine.model.contract import Row, Runner, StepCost, Want

_CONTEXT = 64  # tokens that each measured decode row has before it
_PREFILL = 128
_ROUNDS = 3
_CHUNK_STEPS = 2.0  # a chunk may make a step so much longer than decoding alone
_CHUNKS = (32, 512)  # fewer waste the matrices' read, more make streams stutter anyway


def measure(runner: Runner, *, slots: int, context: int) -> StepCost:
    """Takes about ten decode steps and four prefill chunks; leaves the runner as it was."""
    before = min(_CONTEXT, context // 4)
    prefill = max(1, min(_PREFILL, context // 2))
    sequences = range(-slots, 0)
    prompt = [0] * (before + 1)
    admitted = [s for s in sequences if runner.admit(s, prompt, before + 8, reuse=False) is not None]
    try:
        runner.step([], [Row(s, (0,) * before, 0, Want.NONE) for s in admitted])
        decode = _fastest(lambda: runner.step([Row(s, (0,), before) for s in admitted], []), _ROUNDS)
    finally:
        for sequence in admitted:
            runner.release(sequence)
    runner.admit(-1, [0] * (prefill + 1), prefill + 1, reuse=False)
    try:
        chunk = _fastest(lambda: runner.step([], [Row(-1, (0,) * prefill, 0, Want.NONE)]), _ROUNDS)
    finally:
        runner.release(-1)
    # Alone, a chunk also reads the weights, which in a mixed step the decode rows have paid for.
    per_token = max(chunk - decode * 0.5, chunk * 0.25) / prefill
    wanted = int(decode * _CHUNK_STEPS / per_token)
    return StepCost(
        decode_seconds=decode,
        prefill_seconds_per_token=per_token,
        chunk_tokens=max(_CHUNKS[0], min(_CHUNKS[1], wanted // 16 * 16, context)),
    )


def _fastest(step: Callable[[], object], rounds: int) -> float:
    times: Sequence[float] = [_seconds(step) for _ in range(rounds + 1)]
    return min(times[1:])


def _seconds(step: Callable[[], object]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started
