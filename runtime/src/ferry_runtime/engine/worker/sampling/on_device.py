"""Choosing tokens on an accelerator: each operation runs over all rows at once.

No row's result depends on another: greedy rows take the maximum, sampled rows invert their own
distribution at their own random number. There is one transfer to the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ferry_runtime.engine.worker.sampling.row import RowSampler

_LONGEST_TOP_K = 1024  # beyond it sorting is cheaper than selecting


def choose(logits: torch.Tensor, rows: Sequence[RowSampler]) -> list[int | None]:
    """The next token of each row of ``logits`` [rows, vocab]; None where they allow none."""
    peak, tokens = logits.max(dim=-1)
    usable = peak.isfinite()
    sampled = [rank for rank, row in enumerate(rows) if not row.greedy]
    edited = [rank for rank, row in enumerate(rows) if row.greedy and row.edits]
    special = sampled + edited
    if special:
        index = torch.tensor(special, device=logits.device)
        work = logits.index_select(0, index)
        for place, rank in enumerate(special):
            if rows[rank].edits:
                rows[rank].edit(work[place])
        special_peak, special_tokens = work.max(dim=-1)
        if sampled:
            count = len(sampled)
            chosen_rows = [rows[rank] for rank in sampled]
            special_tokens[:count] = _sample(work[:count], special_peak[:count], chosen_rows)
        usable[index] &= special_peak.isfinite()
        tokens = tokens.index_copy(0, index, special_tokens)
    both = torch.stack([tokens, usable.long()]).tolist()
    return [token if fine else None for token, fine in zip(*both, strict=True)]


def _sample(logits: torch.Tensor, peak: torch.Tensor, rows: Sequence[RowSampler]) -> torch.Tensor:
    """Token ids [rows]. ``logits`` [rows, vocab] is overwritten."""
    temperature = logits.new_tensor([row.temperature for row in rows])
    weights = logits.sub_(peak[:, None]).div_(temperature[:, None]).exp_()
    _truncate(weights, rows)
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    draws = cumulative.new_tensor([[row.draw()] for row in rows])
    found = torch.searchsorted(cumulative, draws * cumulative[:, -1:], right=True)
    return found.squeeze(-1).clamp_(max=weights.shape[-1] - 1)  # for rows of NaN


def _truncate(weights: torch.Tensor, rows: Sequence[RowSampler]) -> None:
    """Set to zero what min_p, top_k and top_p exclude. Each row's largest weight is 1."""
    vocab = weights.shape[-1]
    if any(row.min_p > 0 for row in rows):
        floor = weights.new_tensor([[row.min_p] for row in rows])
        weights.masked_fill_(weights < floor, 0)
    by_rank = [rank for rank, row in enumerate(rows) if 0 < row.top_k <= min(_LONGEST_TOP_K, vocab - 1)]
    by_sort = [
        rank
        for rank, row in enumerate(rows)
        if rank not in by_rank and (row.top_p < 1 or 0 < row.top_k < vocab)
    ]
    for chosen, floors in ((by_rank, _floors_by_rank), (by_sort, _floors_by_sort)):
        if chosen:
            part = weights[chosen]
            floor = floors(part, [rows[rank] for rank in chosen])
            weights[chosen] = part.masked_fill_(part < floor, 0)


def _floors_by_rank(weights: torch.Tensor, rows: Sequence[RowSampler]) -> torch.Tensor:
    """The smallest weight that stays [rows, 1]; every row has a modest top_k."""
    k = torch.tensor([[row.top_k] for row in rows], device=weights.device)
    top = weights.topk(max(row.top_k for row in rows), dim=-1).values
    top = top.masked_fill(torch.arange(top.shape[-1], device=top.device) >= k, 0)
    above = top.cumsum(-1, dtype=torch.float64)
    mass = above[:, -1:].clone()
    above -= top
    top_p = above.new_tensor([[row.top_p] for row in rows])
    # A token stays while those above it have not reached top_p yet; the first always does.
    kept = ((above < top_p * mass) & (top > 0)).sum(-1, keepdim=True).clamp_(min=1)
    return top.gather(-1, kept - 1)


def _floors_by_sort(weights: torch.Tensor, rows: Sequence[RowSampler]) -> torch.Tensor:
    """The smallest weight that stays [rows, 1], for any top_k and top_p."""
    ascending = weights.sort(dim=-1).values
    vocab = weights.shape[-1]
    excluded = torch.tensor(
        [[vocab - row.top_k if 0 < row.top_k < vocab else 0] for row in rows], device=weights.device
    )
    ascending.masked_fill_(torch.arange(vocab, device=weights.device) < excluded, 0)
    below = ascending.cumsum(-1, dtype=torch.float64)
    top_p = below.new_tensor([[row.top_p] for row in rows])
    # A token goes if all up to it, from the smallest on, hold no more than 1 - top_p.
    first = torch.searchsorted(below, (1 - top_p) * below[:, -1:], right=True)
    return ascending.gather(-1, first.clamp_(max=vocab - 1))
