"""The contract between the engine's loop and the model runner: token ids in, logits out.

The loop decides which rows compute what in a step; the runner owns weights, keys and values, and
knows nothing of sampling, text or requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from ferry_runtime.engine.protocol import ModelInfo

SequenceId = int

# Recomputing fewer costs about as much as one step: not kept, not waited for.
MIN_KEPT_TOKENS = 32


class Want(Enum):
    """Which logits of a row's tokens are needed."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Row:
    """Compute ``token_ids`` of a sequence at positions start, start + 1, …"""

    sequence: SequenceId
    token_ids: tuple[int, ...]
    start: int
    want: Want = Want.LAST


@dataclass(frozen=True, slots=True)
class StepCost:
    """Measured at load: what a step costs, so that the loop can size prefill chunks."""

    decode_seconds: float  # one step of a full decode batch without prefill
    prefill_seconds_per_token: float  # added by each prefill token in the same step
    chunk_tokens: int  # deterministic: the one chunk size; fast: a good default
    row_multiple: int = 1  # a step with prompt tokens computes its tokens rounded up to a multiple
    # In prefill tokens at position 0: what each position before it adds to a token's cost, and what
    # reading each adds to a chunk's; for no more positions than the span.
    attention_share: float = 0.0
    attention_read: float = 0.0
    attention_span: int | None = None

    def weight(self, start: int, count: int) -> float:
        """What computing ``count`` tokens from position ``start`` on costs, in tokens at position 0."""
        span = math.inf if self.attention_span is None else self.attention_span
        seen, read = min(start + count / 2, span), min(start, span)
        return count * (1 + self.attention_share * seen) + self.attention_read * read


class Runner(Protocol):
    @property
    def info(self) -> ModelInfo: ...

    @property
    def cost(self) -> StepCost: ...

    @property
    def blocks_used(self) -> int: ...

    def admit(
        self, sequence: SequenceId, prompt: Sequence[int], capacity: int, *, reuse: bool = True
    ) -> int | None:
        """Reserve room for ``capacity`` tokens and a slot.

        Returns how many leading prompt tokens already have keys and values (< len(prompt), so
        that at least one token is computed), or None when there is no room now. Raises
        CannotFit when it could never fit. ``prompt`` is what prefill rows will compute: of a sequence
        that goes on after a pause also what was generated, but for Deterministic numerics.
        """
        ...

    def adopt(self, sequence: SequenceId) -> int:
        """Take over what others have computed of this sequence's prompt since it was admitted.

        Returns how many leading prompt tokens now have keys and values (never less than before,
        always < len(prompt)). Call it before a sequence's next prefill chunk: n choices, or requests
        with one system prompt, that were admitted together then compute their common head once.
        """
        ...

    def step(self, decode: Sequence[Row], prefill: Sequence[Row]) -> Mapping[SequenceId, torch.Tensor]:
        """Compute one step. Decode rows have one token each; prefill rows are chunks.

        Returns float32 logits [1, vocab] for Want.LAST and [tokens, vocab] for Want.ALL.
        Deterministic numerics: a prefill row starts at a multiple of ``cost.chunk_tokens`` and ends
        at the next one or at the prompt's end, whichever comes first, and what was generated is
        computed by decode rows only, also when it is computed again. After an exception every
        sequence stands where it stood before. Non-finite logits are returned as they are.
        """
        ...

    def release(self, sequence: SequenceId, *, tokens: Sequence[int] = ()) -> None:
        """Free the slot. ``tokens`` are those whose keys and values were computed: the runner may
        keep them as a prefix for later prompts, as long as there is room."""
        ...
