"""What steps cost on this machine, measured at load with the loaded model."""

from __future__ import annotations

import time
from collections.abc import Callable

from ferry_api.runtime_config import Numerics
from ferry_runtime.engine.model.contract import Row, Runner, StepCost, Want
from ferry_runtime.engine.model.shapes import QUERY_MULTIPLE
from ferry_runtime.engine.model.spec import DecoderSpec
from ferry_runtime.engine.protocol import ModelInfo

_PREFILL = 128
_ROUNDS = 3
_CHUNK_STEPS = 2.0  # how many decode steps long a chunk may be
_CHUNKS = (32, 512)  # fewer tokens waste the weights' read, more make streams stutter anyway

# Reading keys and values goes so much slower than reading weights, whose pages are large. Measured
# with chunks of 16 to 256 tokens at positions up to 5,000, as is that the operations of attention
# take as long as as many of the products.
_READ_SLOWER = 3.3


def measure(runner: Runner, chunk_tokens: int, spec: DecoderSpec) -> StepCost:
    """Takes about four decode steps and four chunks; leaves the runner as it was.

    ``chunk_tokens`` is the one chunk size that Deterministic numerics allow.
    """
    info = runner.info
    fixed = info.numerics == Numerics.DETERMINISTIC
    prefill = max(1, min(chunk_tokens if fixed else _PREFILL, info.context_length // 2))
    # With a fixed shape one row costs what a full batch does.
    decode = _decode_seconds(runner, 1 if fixed else info.slots)
    chunk = _prefill_seconds(runner, prefill)
    # Alone, a chunk also reads the weights, which in a mixed step the decode rows have paid for.
    per_token = chunk / prefill if fixed else max(chunk - decode / 2, chunk / 4) / prefill
    wanted = int(decode * _CHUNK_STEPS / per_token) // 16 * 16
    fast = min(max(_CHUNKS[0], wanted), _CHUNKS[1], info.context_length)
    share, span = attention_share(spec)
    read = _READ_SLOWER * _token_bytes(info) / info.weights_bytes * decode / per_token
    multiple = QUERY_MULTIPLE if info.device == "cpu" and not fixed else 1
    return StepCost(decode, per_token, chunk_tokens if fixed else fast, multiple, share, read, span)


def _token_bytes(info: ModelInfo) -> float:
    """Of keys and values."""
    return info.kv_bytes / (info.kv_blocks * info.kv_block_tokens)


def attention_share(spec: DecoderSpec) -> tuple[float, int | None]:
    """`StepCost`'s attention_share and attention_span, by counting operations. Layers that see a window
    count only if all do: beside layers that see everything they soon cost nothing."""
    inner = spec.heads * spec.head_dim
    products = 0
    for layer in spec.layers:
        attention = 2 * inner + 2 * spec.kv_heads * spec.head_dim
        products += spec.hidden_size * (attention + spec.mlp_size * (len(layer.up.names) + 1))
    windows = [layer.attention.window for layer in spec.layers]
    everywhere = windows.count(None)
    share = 2 * inner * (everywhere or len(windows)) / products
    return share, None if everywhere else max(window for window in windows if window is not None)


def _decode_seconds(runner: Runner, batch: int) -> float:
    """One token after the first in each row: what attention adds grows with the rows' lengths."""
    admitted = [s for s in range(-batch, 0) if runner.admit(s, (0,), 2, reuse=False) is not None]
    try:
        runner.step([], [Row(sequence, (0,), 0, Want.NONE) for sequence in admitted])
        rows = [Row(sequence, (0,), 1) for sequence in admitted]
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
