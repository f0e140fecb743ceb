"""Requests that cannot be computed, found before anything of them is."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ferry_runtime.engine.protocol import GenerateRequest, ModelInfo


def refusal(request: GenerateRequest, info: ModelInfo) -> str | None:
    """Why this request cannot be computed, for its user; None if it can.

    The API has checked all this in the client's words. Here it keeps a fault there from writing
    outside a row's own memory.
    """
    prompt, sampling = request.prompt_token_ids, request.sampling
    if not prompt:
        return "The prompt has no tokens."
    if len(prompt) + sampling.max_tokens > info.context_length:
        return (
            f"The prompt's {len(prompt)} tokens and max_tokens={sampling.max_tokens} exceed the "
            f"context of {info.context_length} tokens."
        )
    for name, ids in (
        ("prompt", prompt),
        ("stop_token_ids", sampling.stop_token_ids),
        ("logit_bias", sampling.logit_bias),
    ):
        if not _within(ids, info.vocab_size):
            return f"{name} holds a token id outside the model's vocabulary of {info.vocab_size}."
    if not all(map(math.isfinite, _numbers(request))):
        return "A sampling parameter is not a finite number."
    return None


def _within(ids: Iterable[int], vocab_size: int) -> bool:
    return min(ids, default=0) >= 0 and max(ids, default=0) < vocab_size


def _numbers(request: GenerateRequest) -> Iterable[float]:
    sampling = request.sampling
    yield from (sampling.temperature, sampling.top_p, sampling.min_p, sampling.repetition_penalty)
    yield from (sampling.presence_penalty, sampling.frequency_penalty, *sampling.logit_bias.values())
