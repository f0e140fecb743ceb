"""Attention over the arena equals the textbook's, row by row, however rows are grouped."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
import torch

from ferry_runtime.engine.model.attention import Span, StepAttention, group_rows
from ferry_runtime.engine.model.config import RawConfig
from ferry_runtime.engine.model.families import describe
from ferry_runtime.engine.model.kv.arena import Arena, KvShape
from ferry_runtime.engine.model.spec import DecoderSpec

HEADS, KV_HEADS, DIM = 4, 2, 16


def _spec(window: int | None, softcap: float | None) -> DecoderSpec:
    kind = "full_attention" if window is None else "sliding_attention"
    return describe(
        RawConfig(
            {
                "model_type": "gemma2",
                "num_hidden_layers": 1,
                "num_attention_heads": HEADS,
                "num_key_value_heads": KV_HEADS,
                "head_dim": DIM,
                "query_pre_attn_scalar": 20,
                "sliding_window": window,
                "layer_types": [kind],
                "attn_logit_softcapping": softcap,
            }
        )
    )


def _expected(q: torch.Tensor, held: torch.Tensor, window: int | None, softcap: float | None) -> torch.Tensor:
    """One query at the last position: [heads, dim] over [length, 2, kv_heads, dim]."""
    keys, values = held.unbind(1)
    first = 0 if window is None else max(0, len(keys) - window)
    out = []
    for head in range(HEADS):
        kv = head // (HEADS // KV_HEADS)
        scores = keys[first:, kv] @ q[head] * 20**-0.5
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        out.append(torch.softmax(scores, 0) @ values[first:, kv])
    return torch.cat(out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("window", [None, 5, 40])
def test_decode_rows_and_chunks_beside_each_other(
    window: int | None, softcap: float | None, dtype: torch.dtype
) -> None:
    source = random.Random(window)
    torch.manual_seed(0)
    spec = _spec(window, softcap)
    for _ in range(6):
        arena = Arena(KvShape(1, KV_HEADS, DIM, dtype), 8, 128, torch.device("cpu"))
        arena.layers[0].copy_(torch.randn_like(arena.layers[0]))
        slots = sorted(source.sample(range(8), source.randint(1, 6)))
        decode = [Span(slot, source.randint(0, 120), 1) for slot in slots]
        free = [slot for slot in range(8) if slot not in slots]
        starts = [0, source.randint(1, 70)]
        prefill = [Span(s, start, source.randint(1, 50)) for s, start in zip(free[:2], starts, strict=True)]
        spans = [*decode, *prefill]
        count = sum(span.count for span in spans)
        padding = source.choice([0, 3])
        qkv = torch.randn(count + padding, HEADS + 2 * KV_HEADS, DIM).to(dtype)
        out = StepAttention(spec, arena, decode, prefill).attend(0, qkv)
        assert out.dtype == dtype
        assert not out[count:].any()
        tolerance = 1e-5 if dtype == torch.float32 else 3e-2
        row = 0
        for span in spans:
            for i in range(span.count):
                held = arena.layers[0][span.slot, : span.start + i + 1]
                assert torch.equal(held[-1].flatten(0, 1), qkv[row, HEADS:])  # stored before it is read
                expected = _expected(qkv[row, :HEADS].float(), held.float(), window, softcap)
                torch.testing.assert_close(out[row].float(), expected, atol=tolerance, rtol=tolerance)
                row += 1


def _cost(groups: Sequence[tuple[int, int]], reads: Sequence[tuple[int, int]], call: int) -> int:
    return sum(
        call + (last - first) * (max(e for _, e in reads[first:last]) - min(b for b, _ in reads[first:last]))
        for first, last in groups
    )


def _evenly_spaced(slots: Sequence[int]) -> bool:
    return len({b - a for a, b in itertools.pairwise(slots)}) <= 1


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_grouping_is_found(seed: int) -> None:
    source = random.Random(seed)
    slots = sorted(source.sample(range(9), source.randint(1, 7)))
    ends = [source.choice([10, 12, 90, 100, 2000]) for _ in slots]
    reads = [(source.choice([0, end // 2]), end) for end in ends]
    call = source.choice([1, 50, 400])
    groups = group_rows(slots, reads, call)
    assert [row for first, last in groups for row in range(first, last)] == list(range(len(slots)))
    assert all(_evenly_spaced(slots[first:last]) for first, last in groups)
    cuts = itertools.product([False, True], repeat=len(slots) - 1)
    every = []
    for cut in cuts:
        borders = [0, *[i + 1 for i, c in enumerate(cut) if c], len(slots)]
        candidate = list(itertools.pairwise(borders))
        if all(_evenly_spaced(slots[first:last]) for first, last in candidate):
            every.append(_cost(candidate, reads, call))
    assert _cost(groups, reads, call) == min(every)


def test_one_long_row_does_not_make_short_ones_long() -> None:
    reads = [(0, 20)] * 3 + [(0, 8000)] + [(0, 20)] * 4
    assert group_rows(range(8), reads, 100) == [(0, 3), (3, 4), (4, 8)]


def test_rows_of_like_lengths_share_one_call() -> None:
    assert group_rows(range(8), [(0, 100 + i) for i in range(8)], 100) == [(0, 8)]
