"""One sequence's part in sampling: its edits of the logits and its source of chance.

Meanings follow vLLM (``SamplingParams``) and, for the repetition penalty, CTRL (Keskar et al.,
2019, arXiv 1909.05858): it divides positive and multiplies negative logits of every token in
prompt and output. Presence and frequency penalties look at the output alone, as OpenAI's.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import torch

from ferry_runtime.engine.protocol import SamplingParams

# Below it a temperature is greedy (as in vLLM): dividing by it only magnifies rounding.
_GREEDY_BELOW = 1e-5


class RowSampler:
    def __init__(
        self, sampling: SamplingParams, prompt: Sequence[int], eos: Iterable[int], device: torch.device
    ) -> None:
        """``eos`` and the request's stop tokens are suppressed until ``min_tokens`` are out."""
        self.greedy = sampling.temperature < _GREEDY_BELOW
        self.temperature = sampling.temperature
        self.top_k = sampling.top_k
        self.top_p = sampling.top_p
        self.min_p = sampling.min_p
        self._min_tokens = sampling.min_tokens
        self._generated = 0
        # A generator of its own: neighbours draw nothing from it. The text of the seed is hashed,
        # so -1 and 1 differ and any integer will do.
        seed = random.SystemRandom().getrandbits(64) if sampling.seed is None else sampling.seed
        self._chance = random.Random(f"ferry {seed}")  # noqa: S311 - not for secrets
        self._draw: float | None = None
        self._bias = _pairs(sampling.logit_bias, device)
        ends = {*eos, *sampling.stop_token_ids}
        self._ends = torch.tensor(sorted(ends), dtype=torch.long, device=device) if ends else None
        self._seen = _seen(sampling, prompt, device)

    @property
    def edits(self) -> bool:
        """Whether `edit` changes anything for the next token."""
        return (
            self._bias is not None
            or self._seen is not None
            or (self._ends is not None and self._generated < self._min_tokens)
        )

    def edit(self, logits: torch.Tensor) -> None:
        """Change this row's logits [vocab] in place: bias, penalties, then suppressed ends."""
        if self._bias is not None:
            ids, values = self._bias
            logits[ids] += values
        if self._seen is not None:
            self._seen.penalise(logits)
        if self._ends is not None and self._generated < self._min_tokens:
            logits[self._ends] = -torch.inf

    def record(self, token_id: int) -> None:
        """``token_id`` was generated."""
        self._generated += 1
        self._draw = None
        if self._seen is not None:
            self._seen.count(token_id)

    def draw(self) -> float:
        """This token's random number, the same until it is recorded: choosing may be repeated.

        Uniform in [0, 1), in steps of 2**-52: times any float64 it stays below that number.
        """
        if self._draw is None:
            self._draw = self._chance.getrandbits(52) / (1 << 52)
        return self._draw


def _pairs(bias: dict[int, float], device: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
    if not bias:
        return None
    ids = torch.tensor(list(bias), dtype=torch.long, device=device)
    return ids, torch.tensor(list(bias.values()), dtype=torch.float32, device=device)


def _seen(sampling: SamplingParams, prompt: Sequence[int], device: torch.device) -> _Seen | None:
    repetition = sampling.repetition_penalty
    presence, frequency = sampling.presence_penalty, sampling.frequency_penalty
    if repetition == 1.0 and presence == 0.0 and frequency == 0.0:
        return None
    return _Seen(prompt if repetition != 1.0 else (), repetition, presence, frequency, device)


class _Seen:
    """Tokens seen so far with their counts in the output, kept as tensors that grow by doubling."""

    def __init__(
        self,
        prompt: Sequence[int],
        repetition: float,
        presence: float,
        frequency: float,
        device: torch.device,
    ) -> None:
        self._repetition, self._presence, self._frequency = repetition, presence, frequency
        distinct = list(dict.fromkeys(prompt))
        self._rank = {token_id: rank for rank, token_id in enumerate(distinct)}
        self._ids = torch.tensor(distinct, dtype=torch.long, device=device)
        self._counts = torch.zeros(len(distinct), dtype=torch.float32, device=device)

    def count(self, token_id: int) -> None:
        rank = self._rank.setdefault(token_id, len(self._rank))
        if rank == len(self._ids):
            room = max(64, rank)
            self._ids = torch.cat([self._ids, self._ids.new_zeros(room)])
            self._counts = torch.cat([self._counts, self._counts.new_zeros(room)])
        self._ids[rank] = token_id
        self._counts[rank] += 1

    def penalise(self, logits: torch.Tensor) -> None:
        ids, counts = self._ids[: len(self._rank)], self._counts[: len(self._rank)]
        values = logits[ids]
        if self._repetition != 1.0:
            values = torch.where(values > 0, values / self._repetition, values * self._repetition)
        values = values - self._frequency * counts - self._presence * (counts > 0)
        logits[ids] = values
