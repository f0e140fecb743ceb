"""The model runner: one packed forward per step, over keys and values in the pool's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ferry_runtime.engine.model.attention import Span, StepAttention
from ferry_runtime.engine.model.contract import Row, SequenceId, StepCost, Want
from ferry_runtime.engine.model.decoder import Attention, Decoder
from ferry_runtime.engine.model.kv.pool import KvPool
from ferry_runtime.engine.model.shapes import padded_rows
from ferry_runtime.engine.protocol import ModelInfo


class TorchRunner:
    """`Runner` for numerics Fast.

    Not thread-safe: the engine's loop is its only caller. After an exception from ``step`` every
    sequence stands where it stood before that step, and the same rows may be computed again.
    """

    def __init__(self, decoder: Decoder, pool: KvPool, info: ModelInfo, chunk_tokens: int) -> None:
        self.info = info
        self.cost = StepCost(0.0, 0.0, chunk_tokens)  # until it is measured
        self._decoder = decoder
        self._pool = pool
        self._device = pool.arena.layers[0].device

    @property
    def blocks_used(self) -> int:
        """Blocks of running sequences. Kept prefixes do not count: they yield at once."""
        return self._pool.running_blocks

    def admit(
        self, sequence: SequenceId, prompt: Sequence[int], capacity: int, *, reuse: bool = True
    ) -> int | None:
        return self._pool.admit(sequence, prompt, capacity, reuse=reuse)

    def adopt(self, sequence: SequenceId) -> int:
        """Take over what other sequences have computed of this one's prompt since it was admitted.

        Returns how many leading prompt tokens now have keys and values. Calling it before a
        sequence's next prefill chunk lets n choices, or requests with one system prompt, that were
        admitted together compute their common head once.
        """
        return self._pool.adopt(sequence)

    def release(self, sequence: SequenceId, *, tokens: Sequence[int] = ()) -> None:
        self._pool.release(sequence, tokens)

    def forget(self) -> None:
        """Give up every kept prefix."""
        self._pool.drop_kept()

    @torch.no_grad()
    def step(self, decode: Sequence[Row], prefill: Sequence[Row]) -> Mapping[SequenceId, torch.Tensor]:
        rows = [*sorted(decode, key=lambda row: self._pool.running(row.sequence).index), *prefill]
        if not rows:
            return {}
        spans = [self._span(row) for row in rows]
        attention = StepAttention(
            self._decoder.spec, self._pool.arena, spans[: len(decode)], spans[len(decode) :]
        )
        tokens = [token for row in rows for token in row.token_ids]
        positions = [row.start + i for row in rows for i in range(len(row.token_ids))]
        hidden = self._hidden(tokens, positions, attention)
        logits = self._logits(rows, hidden)
        self._spoil(rows, hidden)
        for row in rows:
            self._pool.extend(row.sequence, row.start, row.token_ids)
        return logits

    def _hidden(self, tokens: Sequence[int], positions: Sequence[int], attention: Attention) -> torch.Tensor:
        """[tokens and padding, hidden]."""
        padding = self._padding(len(tokens))
        tokens, positions = [*tokens, *[0] * padding], [*positions, *[0] * padding]
        # Logits are computed outside of inference mode, so that the caller may change them in place.
        with torch.inference_mode():
            return self._decoder.hidden(self._tensor(tokens), self._tensor(positions), attention)

    def _span(self, row: Row) -> Span:
        slot = self._pool.running(row.sequence)
        if not row.token_ids or row.start > len(slot.tokens):
            raise ValueError(f"sequence {row.sequence} has {len(slot.tokens)} tokens, not {row.start}")
        end = row.start + len(row.token_ids)
        if end > slot.blocks * self._pool.block_tokens:
            raise ValueError(f"sequence {row.sequence} has no room for {end} tokens")
        self._pool.arena.touch(slot.index, end)
        return Span(slot.index, row.start, len(row.token_ids))

    def _logits(self, rows: Sequence[Row], hidden: torch.Tensor) -> dict[SequenceId, torch.Tensor]:
        wanted: list[int] = []
        ranges: list[tuple[SequenceId, int]] = []
        at = 0
        for row in rows:
            count = len(row.token_ids)
            first = {Want.ALL: at, Want.LAST: at + count - 1, Want.NONE: at + count}[row.want]
            wanted += range(first, at + count)
            if row.want is not Want.NONE:
                ranges.append((row.sequence, at + count - first))
            at += count
        if not wanted:
            return {}
        taken = [*wanted, *[0] * self._padding(len(wanted))]
        if taken != list(range(len(hidden))):
            hidden = hidden[self._tensor(taken)]
        logits = self._decoder.logits(hidden)
        parts = torch.split(logits[: len(wanted)], [count for _, count in ranges])
        return {sequence: part for (sequence, _), part in zip(ranges, parts, strict=True)}

    def _spoil(self, rows: Sequence[Row], hidden: torch.Tensor) -> None:
        """Note whose values are not finite: what they left in memory must not be reused."""
        finite = torch.isfinite(hidden.sum(dim=-1, dtype=torch.float32))
        if bool(finite.all()):
            return
        at = 0
        for row in rows:
            if not bool(finite[at : at + len(row.token_ids)].all()):
                self._pool.spoil(row.sequence)
            at += len(row.token_ids)

    def _padding(self, rows: int) -> int:
        """Rows to add, since every new shape costs memory."""
        if self._device.type != "cpu":
            return 0
        return padded_rows(rows, self.info.slots) - rows

    def _tensor(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)
