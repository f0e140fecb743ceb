"""What steps cost on this machine, measured at load with the loaded model."""

from __future__ import annotations

import time
from collections.abc import Callable

from ferry_api.runtime_config import Numerics
from ferry_runtime.engine.model.contract import Row, Runner, StepCost, Want

_CONTEXT = 64  # tokens that each measured decode row has before it
_PREFILL = 128
_ROUNDS = 3
_CHUNK_STEPS = 2.0  # how many decode steps long a chunk may be
_CHUNKS = (32, 512)  # fewer tokens waste the weights' read, more make streams stutter anyway


def measure(runner: Runner, chunk_tokens: int) -> StepCost:
    """Takes about four decode steps and a dozen chunks; leaves the runner as it was.

    ``chunk_tokens`` is the one chunk size that Deterministic numerics allow.
    """
    info = runner.info
    fixed = info.numerics == Numerics.DETERMINISTIC
    before = max(1, min(_CONTEXT, info.context_length // 4))
    prefill = max(1, min(chunk_tokens if fixed else _PREFILL, info.context_length // 2))
    decode = _decode_seconds(runner, before)
    chunk = _prefill_seconds(runner, prefill)
    # Alone, a chunk also reads the weights, which in a mixed step the decode rows have paid for.
    per_token = chunk / prefill if fixed else max(chunk - decode / 2, chunk / 4) / prefill
    wanted = int(decode * _CHUNK_STEPS / per_token) // 16 * 16
    fast = min(max(_CHUNKS[0], wanted), _CHUNKS[1], info.context_length)
    return StepCost(decode, per_token, chunk_tokens if fixed else fast)


def _decode_seconds(runner: Runner, before: int) -> float:
    prompt = (0,) * before
    capacity = min(before + 1, runner.info.context_length)
    wanted = range(-runner.info.slots, 0)
    admitted = [s for s in wanted if runner.admit(s, prompt, capacity, reuse=False) is not None]
    try:
        for sequence in admitted:
            runner.step([], [Row(sequence, prompt, 0, Want.NONE)])
        rows = [Row(sequence, (0,), before) for sequence in admitted]
        return _fastest(lambda: runner.step(rows, []))
    finally:
        for sequence in admitted:
            runner.release(sequence)


def _prefill_seconds(runner: Runner, tokens: int) -> float:
    prompt = (0,) * tokens
    runner.admit(-1, prompt, tokens, reuse=False)
    try:
        return _fastest(lambda: runner.step([], [Row(-1, prompt, 0, Want.NONE)]))
    finally:
        runner.release(-1)


def _fastest(step: Callable[[], object]) -> float:
    """Seconds of the quickest round: noise from other processes only ever adds."""
    step()
    best = float("inf")
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - started)
    return best
