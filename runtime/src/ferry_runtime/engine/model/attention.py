"""Attention over the arena for one step: decode rows of many sequences and prefill chunks.

Decode rows are grouped so that one call serves many sequences. All rows of a call are read to the
longest one's length, so a group is split where that would read more in vain than a call costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812

from ferry_runtime.engine.model.kv.arena import Arena
from ferry_runtime.engine.model.plain import causal_mask, plain_attention
from ferry_runtime.engine.model.shapes import KEY_MULTIPLE, QUERY_MULTIPLE, round_up
from ferry_runtime.engine.model.spec import AttentionSpec, DecoderSpec

# What a further call costs, as bytes of keys and values read in the same time (measured in a step: 60
# microseconds at 10 GB/s). Decides only how fast, never what.
_CALL_BYTES = 600_000


@dataclass(frozen=True, slots=True)
class Span:
    """``count`` tokens of one slot's sequence, from position ``start`` on."""

    slot: int
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class _Call:
    """One attention call: the rows [first, last) of the packed batch and what they read.

    Decode: one row per sequence, slots in arithmetic progression. Prefill: the rows of one sequence.
    """

    first: int
    last: int
    size: tuple[int, ...]  # of keys and values: [sequences, kv_heads, read tokens, head_dim]
    stride: tuple[int, ...]
    offset: int  # elements, of the first key
    mask: torch.Tensor | None  # additive
    is_causal: bool
    decode: bool
    queries: int  # per sequence; more than there are rows where a chunk is padded


class StepAttention:
    """`decoder.Attention` for numerics Fast. ``decode`` is sorted by slot; ``prefill`` follows it."""

    def __init__(
        self, spec: DecoderSpec, arena: Arena, decode: Sequence[Span], prefill: Sequence[Span]
    ) -> None:
        self._spec = spec
        self._arena = arena
        self._value_offset = spec.kv_heads * spec.head_dim
        spans = (*decode, *prefill)
        rows = [span.slot * arena.tokens + span.start + i for span in spans for i in range(span.count)]
        self._device = arena.layers[0].device
        self._dtype = arena.shape.dtype
        # Half precision goes to oneDNN, whose shapes are kept few (see `shapes`).
        self._rounds = self._device.type == "cpu" and self._dtype != torch.float32
        self._rows = torch.tensor(rows, device=self._device)
        windows = {layer.attention.window for layer in spec.layers}
        self._calls = {window: self._plan(window, decode, prefill) for window in windows}

    def attend(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        spec = self._spec
        heads, kv_heads, head_dim = spec.heads, spec.kv_heads, spec.head_dim
        attention = spec.layers[layer].attention
        memory = self._arena.layers[layer]
        rows = memory.view(-1, 2 * kv_heads, head_dim)
        rows.index_copy_(0, self._rows, qkv[: len(self._rows), heads:].to(self._dtype))
        queries = qkv[:, :heads].to(self._dtype)
        calls = self._calls[attention.window]
        if len(calls) == 1 and calls[0].last == qkv.shape[0]:
            return self._call(calls[0], attention, queries, rows).to(qkv.dtype)
        out = torch.zeros(qkv.shape[0], heads * head_dim, dtype=qkv.dtype, device=qkv.device)
        for call in calls:
            out[call.first : call.last] = self._call(call, attention, queries[call.first : call.last], rows)
        return out

    def _call(
        self, call: _Call, attention: AttentionSpec, queries: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        """[rows of the call, heads, head_dim] → [rows, heads · head_dim]."""
        spec = self._spec
        keys = rows.as_strided(call.size, call.stride, call.offset)
        values = rows.as_strided(call.size, call.stride, call.offset + self._value_offset)
        if call.decode:
            # Query heads that share a key head stand as if they were positions: no key is repeated.
            q = queries.view(-1, spec.kv_heads, spec.heads // spec.kv_heads, spec.head_dim)
        else:
            padding = call.queries - len(queries)
            if padding:
                queries = F.pad(queries, (0, 0, 0, 0, 0, padding))
            q = queries.transpose(0, 1).unsqueeze(0)
        if attention.softcap is not None:
            mask = call.mask
            if call.is_causal:
                at = torch.arange(max(call.queries, call.size[2]), device=self._device)
                mask = causal_mask(at[: call.size[2]], at[: call.queries, None], None, q.dtype)
            out = plain_attention(q, keys, values, mask, attention)
        else:
            out = F.scaled_dot_product_attention(
                q,
                keys,
                values,
                attn_mask=call.mask,
                is_causal=call.is_causal,
                scale=attention.scale,
                enable_gqa=not call.decode and spec.heads != spec.kv_heads,
            )
        if call.decode:
            return out.reshape(call.last - call.first, -1)
        count = call.last - call.first
        return out[0, :, :count].transpose(0, 1).reshape(count, -1)

    def _plan(self, window: int | None, decode: Sequence[Span], prefill: Sequence[Span]) -> list[_Call]:
        groups = self._groups(window, decode)
        calls = [self._decode_call(window, decode[first:last], first) for first, last in groups]
        row = len(decode)
        for span in prefill:
            calls.append(self._prefill_call(window, span, row))
            row += span.count
        return calls

    def _groups(self, window: int | None, decode: Sequence[Span]) -> list[tuple[int, int]]:
        reads = [(_begin(span.start, window), span.start + 1) for span in decode]
        row_bytes = self._arena.shape.row_bytes
        return group_rows([span.slot for span in decode], reads, _CALL_BYTES // row_bytes)

    def _decode_call(self, window: int | None, spans: Sequence[Span], first: int) -> _Call:
        positions = [span.start for span in spans]
        begin = _begin(min(positions), window)
        length = max(positions) + 1 - begin
        step = spans[1].slot - spans[0].slot if len(spans) > 1 else 1
        mask = None
        if min(positions) != max(positions) or (window is not None and min(positions) - window + 1 > begin):
            at = torch.arange(begin, begin + length, device=self._device)
            mask = self._mask(at, torch.tensor(positions, device=self._device)[:, None], window)
            mask = mask[:, None, None]
        return self._make(first, spans, begin, length, step, mask=mask)

    def _prefill_call(self, window: int | None, span: Span, first: int) -> _Call:
        begin, end = _begin(span.start, window), span.start + span.count
        plain = begin == span.start == 0 and (window is None or end <= window)
        queries = span.count
        if self._rounds:
            queries = round_up(queries, QUERY_MULTIPLE)
            begin -= begin % KEY_MULTIPLE
            end = round_up(end, KEY_MULTIPLE)  # rows of a slot are a multiple long
        mask = None
        if not plain:
            at = torch.arange(begin, end, device=self._device)
            positions = torch.arange(span.start, span.start + queries, device=self._device)[:, None]
            mask = self._mask(at, positions, window)
        return self._make(
            first, (span,), begin, end - begin, 1, mask=mask, is_causal=plain, decode=False, queries=queries
        )

    def _make(
        self,
        first: int,
        spans: Sequence[Span],
        begin: int,
        length: int,
        step: int,
        *,
        mask: torch.Tensor | None,
        is_causal: bool = False,
        decode: bool = True,
        queries: int = 1,
    ) -> _Call:
        spec, arena = self._spec, self._arena
        row = arena.shape.row_elements
        return _Call(
            first=first,
            last=first + sum(span.count for span in spans),
            size=(len(spans), spec.kv_heads, length, spec.head_dim),
            stride=(step * arena.tokens * row, spec.head_dim, row, 1),
            offset=(spans[0].slot * arena.tokens + begin) * row,
            mask=mask,
            is_causal=is_causal,
            decode=decode,
            queries=queries,
        )

    def _mask(self, at: torch.Tensor, positions: torch.Tensor, window: int | None) -> torch.Tensor:
        """0 where a query sees a key, the least finite number elsewhere."""
        return causal_mask(at, positions, window, self._arena.shape.dtype)


def _begin(position: int, window: int | None) -> int:
    """The first position that a token sees."""
    return 0 if window is None else max(0, position - window + 1)


def group_rows(
    slots: Sequence[int], reads: Sequence[tuple[int, int]], call_tokens: int
) -> list[tuple[int, int]]:
    """Cut rows, sorted by slot, into [first, last) groups whose slots are evenly spaced.

    ``reads`` are the [begin, end) positions that each row needs; a group reads from the first begin to
    the last end in each of its rows. A call costs as much as reading ``call_tokens`` tokens. The cut
    with the least cost is taken.
    """
    count = len(slots)
    best = [0] * (count + 1)  # of the rows before
    cut = [0] * (count + 1)  # where the last group before begins
    for last in range(1, count + 1):
        begin, end = reads[last - 1]
        for first in range(last - 1, -1, -1):
            if first < last - 2 and slots[first + 1] - slots[first] != slots[first + 2] - slots[first + 1]:
                break
            begin, end = min(begin, reads[first][0]), max(end, reads[first][1])
            cost = best[first] + call_tokens + (end - begin) * (last - first)
            if first == last - 1 or cost < best[last]:
                best[last], cut[last] = cost, first
    groups = []
    last = count
    while last:
        groups.append((cut[last], last))
        last = cut[last]
    return groups[::-1]
