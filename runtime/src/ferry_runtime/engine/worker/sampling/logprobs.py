"""Log-probabilities of the model's own distribution: before temperature, penalties and bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

# What OpenAI sends for a token that cannot be; JSON has no -inf.
LOWEST = -9999.0

# Rows of a long prompt are handled so many at a time, which bounds the memory of the temporaries.
_ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class LogprobRow:
    """``top`` holds (token id, log-probability), the likeliest first."""

    chosen: float
    top: tuple[tuple[int, float], ...]


def token_logprobs(
    logits: torch.Tensor, token_ids: Sequence[int], alternatives: Sequence[int]
) -> list[LogprobRow]:
    """For each row of ``logits`` [rows, vocab]: its token's log-probability, and those of its
    ``alternatives`` likeliest tokens."""
    rows: list[LogprobRow] = []
    for start in range(0, len(token_ids), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        rows += _some(logits[part], token_ids[part], alternatives[part])
    return rows


def _some(logits: torch.Tensor, token_ids: Sequence[int], alternatives: Sequence[int]) -> list[LogprobRow]:
    total = logits.logsumexp(dim=-1, keepdim=True)
    index = torch.tensor(token_ids, device=logits.device)[:, None]
    chosen = (logits.gather(-1, index) - total).squeeze(-1).tolist()
    most = min(max(alternatives), logits.shape[-1])
    if most == 0:
        return [LogprobRow(_finite(value), ()) for value in chosen]
    top = logits.topk(most, dim=-1)
    values, ids = (top.values - total).tolist(), top.indices.tolist()
    return [
        LogprobRow(
            _finite(chosen[rank]),
            tuple(zip(ids[rank][:count], map(_finite, values[rank][:count]), strict=True)),
        )
        for rank, count in enumerate(alternatives)
    ]


def _finite(value: float) -> float:
    return value if value > LOWEST else LOWEST  # also where value is NaN
