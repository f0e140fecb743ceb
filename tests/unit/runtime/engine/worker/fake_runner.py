"""A runner without a model: logits are a function of exactly the tokens that were computed.

It refuses what a real one could not do (rows out of place, beyond their room), so a test that
passes with it has kept the contract.
"""

from collections.abc import Callable, Mapping, Sequence

import torch

from ferry_runtime.engine.model.contract import Row, StepCost, Want
from ferry_runtime.engine.protocol import ModelInfo
from ferry_runtime.errors import CannotFit

BLOCK = 8


class FakeRunner:
    def __init__(
        self,
        vocab_size: int,
        *,
        slots: int = 4,
        context: int = 512,
        blocks: int | None = None,
        numerics: str = "Fast",
        chunk_tokens: int = 32,
        eos: tuple[int, ...] = (),
    ) -> None:
        self.info = ModelInfo(
            family="fake",
            device="cpu",
            dtype="float32",
            numerics=numerics,
            vocab_size=vocab_size,
            context_length=context,
            eos_token_ids=eos,
            slots=slots,
            kv_block_tokens=BLOCK,
            kv_blocks=blocks or slots * context // BLOCK,
            parameters=0,
            weights_bytes=0,
            kv_bytes=0,
            load_seconds=0.0,
        )
        # Ten prompt tokens next to decode rows; 32 when nothing runs.
        self.cost = StepCost(decode_seconds=1.0, prefill_seconds_per_token=0.1, chunk_tokens=chunk_tokens)
        self.now = 0.0  # advances by what a step costs
        self.computed: dict[int, list[int]] = {}
        self.prompts: dict[int, list[int]] = {}
        self.reserved: dict[int, int] = {}
        self.kept: list[list[int]] = []
        self.steps: list[tuple[list[Row], list[Row]]] = []
        self.fails: Callable[[Row], bool] = lambda _: False
        self.not_finite: Callable[[Row], bool] = lambda _: False

    @property
    def blocks_used(self) -> int:
        return sum(self.reserved.values())

    def admit(self, sequence: int, prompt: Sequence[int], capacity: int, *, reuse: bool = True) -> int | None:
        blocks = -(-capacity // BLOCK)
        if blocks > self.info.kv_blocks:
            raise CannotFit("It needs more room than there is.")
        if len(self.computed) == self.info.slots or self.blocks_used + blocks > self.info.kv_blocks:
            return None
        self.reserved[sequence], self.prompts[sequence] = blocks, list(prompt)
        shared = max((self._shared(kept, prompt) for kept in self.kept), default=0) if reuse else 0
        self.computed[sequence] = list(prompt[:shared])
        return shared

    def adopt(self, sequence: int) -> int:
        prompt = self.prompts[sequence]
        others = [tokens for other, tokens in self.computed.items() if other != sequence]
        shared = max((self._shared(tokens, prompt) for tokens in others), default=0)
        if shared > len(self.computed[sequence]):
            self.computed[sequence] = prompt[:shared]
        return len(self.computed[sequence])

    def release(self, sequence: int, *, tokens: Sequence[int] = ()) -> None:
        del self.reserved[sequence]
        assert self.computed.pop(sequence) == list(tokens)
        self.kept.append(list(tokens))

    def step(self, decode: Sequence[Row], prefill: Sequence[Row]) -> Mapping[int, torch.Tensor]:
        assert len(decode) + len(prefill) <= self.info.slots
        assert all(len(row.token_ids) == 1 for row in decode)
        if any(map(self.fails, (*decode, *prefill))):
            raise RuntimeError("told to fail")
        self.steps.append((list(decode), list(prefill)))
        self.now += self.cost.decode_seconds if decode else 0.0
        self.now += self.cost.prefill_seconds_per_token * sum(len(row.token_ids) for row in prefill)
        results = {}
        for row in (*decode, *prefill):
            tokens = self.computed[row.sequence]
            assert row.start == len(tokens), "rows follow what is computed"
            if self.info.numerics == "Deterministic" and row in prefill:
                self._check_chunk(row)
            logits = []
            for token_id in row.token_ids:
                tokens.append(token_id)
                logits.append(self._logits(tokens))
            assert len(tokens) <= self.reserved[row.sequence] * BLOCK, "within its room"
            if self.not_finite(row):
                logits[-1][0] = torch.nan
            if row.want is not Want.NONE:
                results[row.sequence] = torch.stack(logits if row.want is Want.ALL else logits[-1:])
        return results

    def _check_chunk(self, row: Row) -> None:
        end, chunk = row.start + len(row.token_ids), self.cost.chunk_tokens
        assert row.start % chunk == 0
        assert end == min(row.start + chunk, len(self.prompts[row.sequence]))

    def _shared(self, tokens: Sequence[int], prompt: Sequence[int]) -> int:
        length = 0
        for ours, theirs in zip(tokens, prompt[:-1], strict=False):
            if ours != theirs:
                break
            length += 1
        return (
            length
            // (self.cost.chunk_tokens if self.info.numerics == "Deterministic" else 1)
            * (self.cost.chunk_tokens if self.info.numerics == "Deterministic" else 1)
        )

    def _logits(self, tokens: list[int]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash(tuple(tokens)) % 2**63)
        return torch.randn(self.info.vocab_size, generator=generator) * 2
