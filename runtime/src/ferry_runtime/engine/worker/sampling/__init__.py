"""From logits to tokens, each row by its own parameters whatever its neighbours are."""

from ferry_runtime.engine.worker.sampling.choose import choose_tokens
from ferry_runtime.engine.worker.sampling.logprobs import LogprobRow, token_logprobs
from ferry_runtime.engine.worker.sampling.row import RowSampler

__all__ = ["LogprobRow", "RowSampler", "choose_tokens", "token_logprobs"]
