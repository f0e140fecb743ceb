"""One sequence inside the engine: what it has computed and generated."""

from __future__ import annotations

import torch

from ferry_runtime.engine.model.contract import Row, SequenceId, Want
from ferry_runtime.engine.protocol import GenerateRequest, ModelInfo, TokenLogprob
from ferry_runtime.engine.worker.output import Output
from ferry_runtime.engine.worker.planning import Prompt
from ferry_runtime.engine.worker.sampling import RowSampler
from ferry_runtime.engine.worker.vocabulary import Vocabulary


class Sequence:
    """``computed`` of ``tokens`` (prompt, then output) have keys and values.

    Tokens before ``prefill_end`` are computed in chunks, the others one per step.
    """

    def __init__(
        self, sequence_id: SequenceId, request: GenerateRequest, vocabulary: Vocabulary, info: ModelInfo
    ) -> None:
        self.id = sequence_id  # also the rank of its arrival
        self.request = request
        self.tokens = list(request.prompt_token_ids)
        self.computed = 0
        self.prefill_end = len(self.tokens)
        self.reused = 0  # prompt tokens that others had computed
        self.prompt_entries: list[TokenLogprob] = []
        self.has_spoken = False  # its first delta is out
        self.output = Output(request, vocabulary, frozenset(info.eos_token_ids))
        self.sampler = RowSampler(
            request.sampling, request.prompt_token_ids, info.eos_token_ids, torch.device(info.device)
        )

    @property
    def prefilling(self) -> bool:
        return self.computed < self.prefill_end

    @property
    def awaits_token(self) -> bool:
        """Everything so far is computed: its logits decide the next token."""
        return self.computed == len(self.tokens)

    @property
    def capacity(self) -> int:
        return len(self.request.prompt_token_ids) + self.request.sampling.max_tokens

    @property
    def scores_prompt(self) -> bool:
        """Its prompt's log-probabilities are still to be computed, so every token must be."""
        return self.request.sampling.prompt_logprobs is not None and not self.has_spoken

    @property
    def prefill(self) -> list[int]:
        """The tokens that are computed in chunks."""
        return self.tokens[: self.prefill_end]

    def prompt(self) -> Prompt:
        return Prompt(self.id, self.prefill, self.computed, self.id, self.scores_prompt)

    def reuse(self, length: int) -> int:
        """Note that the first ``length`` tokens have keys and values. Returns how many are new."""
        gained = length - self.computed
        self.computed = length
        self.reused += gained
        return gained

    def rewind(self, *, in_chunks: bool) -> None:
        """Its keys and values are gone: compute everything again, the output too in chunks or
        token by token. What was generated stays."""
        self.computed = 0
        if not self.has_spoken:
            self.reused = 0
        self.prompt_entries.clear()
        if in_chunks:
            self.prefill_end = len(self.tokens)

    def decode_row(self) -> Row:
        return Row(self.id, (self.tokens[self.computed],), self.computed)

    def prefill_row(self, count: int) -> Row:
        end = self.computed + count
        want = Want.LAST if end == len(self.tokens) else Want.NONE
        if self.scores_prompt:
            want = Want.ALL
        return Row(self.id, tuple(self.tokens[self.computed : end]), self.computed, want)
