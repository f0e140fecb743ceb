"""One token per row of a batch, each row by its own parameters.

Truncation (min_p, then top_k, then top_p, each over what the one before left, as in vLLM) is a
floor on probabilities, and the distribution is inverted in order of token ids. So when rounding
swaps the ranks of two nearly equal tokens, as another batch shape may, the choice hardly moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ferry_runtime.engine.worker.sampling.on_cpu import choose as choose_on_cpu
from ferry_runtime.engine.worker.sampling.on_device import choose as choose_on_device
from ferry_runtime.engine.worker.sampling.row import RowSampler


def choose_tokens(logits: Sequence[torch.Tensor], rows: Sequence[RowSampler]) -> list[int | None]:
    """The next token of each row; ``logits`` are float32 [1, vocab] each, left as they are.

    None for a row whose logits hold NaN or +inf, or nothing but -inf: that row cannot go on.
    """
    if logits[0].device.type == "cpu":
        return [choose_on_cpu(row_logits[0], row) for row_logits, row in zip(logits, rows, strict=True)]
    return choose_on_device(torch.cat(list(logits)), rows)
