"""Attention in single steps: for soft-capped scores, which no fused call has, and for Deterministic
numerics, whose fused calls would split their work differently with the batch."""

from __future__ import annotations

import torch

from ferry_runtime.engine.model.ops import softcap
from ferry_runtime.engine.model.spec import AttentionSpec


def plain_attention(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    attention: AttentionSpec,
) -> torch.Tensor:
    """``q`` is [sequences, heads, queries, head_dim]; keys and values [sequences, kv_heads, read,
    head_dim]; the additive mask broadcasts to [sequences, heads, queries, read]. Returns q's shape."""
    sequences, _, queries, head_dim = q.shape
    kv_heads, read = keys.shape[1:3]
    grouped = q.reshape(sequences, kv_heads, -1, head_dim)  # heads of one key head, all their queries
    scores = torch.matmul(grouped, keys.transpose(2, 3)).mul_(attention.scale)
    if attention.softcap is not None:
        scores = softcap(scores, attention.softcap)
    if mask is not None:
        scores.view(sequences, -1, queries, read).add_(mask)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(weights, values).view(q.shape)


def causal_mask(
    at: torch.Tensor, positions: torch.Tensor, window: int | None, dtype: torch.dtype
) -> torch.Tensor:
    """Additive mask, [queries, keys], of keys at positions ``at`` for queries at ``positions``.

    Finite, since a boolean mask is added as 0 and 1 by plain attention and -inf rows become NaN.
    """
    hidden = at > positions
    if window is not None:
        hidden |= at <= positions - window
    return torch.zeros(hidden.shape, dtype=dtype, device=at.device).masked_fill_(
        hidden, torch.finfo(dtype).min
    )
