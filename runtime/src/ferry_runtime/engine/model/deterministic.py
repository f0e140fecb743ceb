"""Deterministic numerics: a sequence's logits are bitwise the same alone and in any batch, with a
cold and a warm prefix.

A product of matrices has other bits at another number of rows: libraries choose kernels by shape. So
every shape is fixed. Decoding always computes the same number of rows, of which idle ones are
thrown away. A prompt is computed in chunks of one size, one sequence and one chunk per forward,
beginning at multiples of that size, and prefixes are reused at those borders only. Attention runs per
sequence over keys and values up to the next multiple of a chunk, in plain steps, with a finite mask.
At one fixed shape a row's result does not depend on its neighbours or its place; a self-test at load
(`selftest`) refuses where that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from ferry_runtime.engine.model.attention import Span
from ferry_runtime.engine.model.contract import Row, SequenceId, Want
from ferry_runtime.engine.model.kv.arena import Arena
from ferry_runtime.engine.model.plain import causal_mask, plain_attention
from ferry_runtime.engine.model.runner import TorchRunner
from ferry_runtime.engine.model.spec import DecoderSpec

CHUNK_TOKENS = 64  # short prompts are padded to it, long ones read the weights once for each
_ROW_MULTIPLE = 8  # numbers of rows at which every kernel computes all rows alike


def fixed_rows(slots: int) -> int:
    """Rows of the decode shape."""
    return -(-slots // _ROW_MULTIPLE) * _ROW_MULTIPLE


@dataclass(frozen=True, slots=True)
class _Read:
    """Rows [first, last) of the packed batch, one sequence's, and what they read."""

    first: int
    last: int
    slot: int
    length: int  # a multiple of CHUNK_TOKENS
    masks: Mapping[int | None, torch.Tensor]  # by window


class FixedAttention:
    """`decoder.Attention`, one sequence at a time. ``spans`` are (first row of the batch, span); rows
    in none of them get zeros. ``width`` is how many queries a span's rows are padded to."""

    def __init__(
        self, spec: DecoderSpec, arena: Arena, spans: Sequence[tuple[int, Span]], width: int
    ) -> None:
        self._spec = spec
        self._arena = arena
        windows = {layer.attention.window for layer in spec.layers}
        self._reads = [_read(first, span, width, windows) for first, span in spans]
        self._sources = torch.tensor([first + i for first, span in spans for i in range(span.count)])
        self._rows = torch.tensor(
            [span.slot * arena.tokens + span.start + i for _, span in spans for i in range(span.count)]
        )

    def attend(self, layer: int, qkv: torch.Tensor) -> torch.Tensor:
        spec = self._spec
        attention = spec.layers[layer].attention
        memory = self._arena.layers[layer]
        rows = memory.view(-1, 2 * spec.kv_heads, spec.head_dim)
        rows.index_copy_(0, self._rows, qkv[self._sources, spec.heads :])
        out = torch.zeros(len(qkv), spec.heads * spec.head_dim)
        for read in self._reads:
            # A copy of the queries: kernels also differ by how their operands are aligned.
            q = qkv[read.first : read.last, : spec.heads].transpose(0, 1).contiguous().unsqueeze(0)
            held = memory[read.slot, : read.length].permute(1, 2, 0, 3)  # [2, kv_heads, read, head_dim]
            mask = read.masks[attention.window]
            result = plain_attention(q, held[:1], held[1:], mask, attention)
            out[read.first : read.last] = result[0].transpose(0, 1).reshape(read.last - read.first, -1)
        return out


def _read(first: int, span: Span, width: int, windows: set[int | None]) -> _Read:
    length = -(-(span.start + span.count) // CHUNK_TOKENS) * CHUNK_TOKENS
    at = torch.arange(length)
    positions = torch.arange(span.start, span.start + width)[:, None]
    masks = {window: causal_mask(at, positions, window, torch.float32) for window in windows}
    return _Read(first, first + width, span.slot, length, masks)


class DeterministicRunner(TorchRunner):
    """`Runner` for numerics Deterministic. Its steps are several forwards."""

    @torch.no_grad()
    def step(self, decode: Sequence[Row], prefill: Sequence[Row]) -> Mapping[SequenceId, torch.Tensor]:
        logits: dict[SequenceId, torch.Tensor] = {}
        if decode:
            logits |= self._decode(decode)
        for row in prefill:
            logits |= self._prefill(row)
        for row in (*decode, *prefill):
            self._pool.extend(row.sequence, row.start, row.token_ids)
        return logits

    def _padding(self, rows: int) -> int:  # noqa: ARG002
        return 0  # every shape is fixed already

    def _decode(self, rows: Sequence[Row]) -> Iterator[tuple[SequenceId, torch.Tensor]]:
        spans = [self._span(row) for row in rows]
        count = fixed_rows(self.info.slots)
        tokens, positions = [0] * count, [0] * count
        for row, span in zip(rows, spans, strict=True):
            tokens[span.slot], positions[span.slot] = row.token_ids[0], row.start
        attention = FixedAttention(
            self._decoder.spec, self._pool.arena, [(span.slot, span) for span in spans], width=1
        )
        hidden = self._hidden(tokens, positions, attention)
        self._spoil(rows, hidden[[span.slot for span in spans]])
        logits = self._decoder.logits(hidden)
        return (
            (row.sequence, logits[span.slot : span.slot + 1]) for row, span in zip(rows, spans, strict=True)
        )

    def _prefill(self, row: Row) -> dict[SequenceId, torch.Tensor]:
        span = self._span(row)
        self._check_chunk(row)
        attention = FixedAttention(self._decoder.spec, self._pool.arena, [(0, span)], width=CHUNK_TOKENS)
        padding = CHUNK_TOKENS - span.count
        last = self._decoder.spec.context - 1
        positions = [min(span.start + i, last) for i in range(CHUNK_TOKENS)]
        hidden = self._hidden([*row.token_ids, *[0] * padding], positions, attention)
        self._spoil([row], hidden[: span.count])
        if row.want is Want.NONE:
            return {}
        wanted = range(0 if row.want is Want.ALL else span.count - 1, span.count)
        return {row.sequence: self._fixed_logits(hidden, wanted)}

    def _fixed_logits(self, hidden: torch.Tensor, wanted: range) -> torch.Tensor:
        """The output layer too always sees the decode shape's number of rows."""
        count = fixed_rows(self.info.slots)
        parts = []
        for first in range(wanted.start, wanted.stop, count):
            block = hidden[first : min(first + count, wanted.stop)]
            padded = torch.zeros(count, hidden.shape[1])
            padded[: len(block)] = block
            parts.append(self._decoder.logits(padded)[: len(block)])
        return torch.cat(parts)

    def _check_chunk(self, row: Row) -> None:
        prompt = len(self._pool.running(row.sequence).prompt)
        end = min(row.start - row.start % CHUNK_TOKENS + CHUNK_TOKENS, prompt)
        if row.start % CHUNK_TOKENS or row.start + len(row.token_ids) != end:
            raise ValueError(
                f"sequence {row.sequence}: a chunk of {len(row.token_ids)} tokens at {row.start}; chunks "
                f"begin at multiples of {CHUNK_TOKENS} and end at the next or at the prompt's end"
            )
