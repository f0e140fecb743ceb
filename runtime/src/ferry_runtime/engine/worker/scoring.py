"""The next token of each sequence, and log-probabilities as the wire carries them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ferry_runtime.engine.protocol import Alternative, TokenLogprob
from ferry_runtime.engine.worker.sampling import LogprobRow, choose_tokens, token_logprobs
from ferry_runtime.engine.worker.sequence import Sequence
from ferry_runtime.engine.worker.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ready:
    """A sequence whose ``logits`` [1, vocab] decide its next token."""

    sequence: Sequence
    logits: torch.Tensor


@dataclass(frozen=True, slots=True)
class Next:
    """``token_id`` is None where the logits allow none."""

    sequence: Sequence
    token_id: int | None
    entry: TokenLogprob | None = None


class Scorer:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def next_tokens(self, batch: list[Ready]) -> tuple[list[Next], list[Sequence]]:
        """The next tokens, and the sequences whose own parameters made that fail."""
        try:
            return self._next_tokens(batch), []
        except torch.AcceleratorError:
            raise
        except Exception:
            logger.exception("choosing tokens for %d rows failed; trying each row alone", len(batch))
        chosen: list[Next] = []
        failed: list[Sequence] = []
        for ready in batch:
            try:
                chosen += self._next_tokens([ready])
            except torch.AcceleratorError:
                raise
            except Exception:
                logger.exception("choosing a token failed for %s", ready.sequence.request.request_id)
                failed.append(ready.sequence)
        return chosen, failed

    def prompt_entries(self, sequence: Sequence, start: int, logits: torch.Tensor) -> list[TokenLogprob]:
        """Entries for the prompt tokens that ``logits`` [tokens, vocab], of the tokens from
        ``start`` on, predict; also the first token's, which nothing predicts."""
        prompt = sequence.request.prompt_token_ids
        targets = prompt[start + 1 : start + 1 + len(logits)]
        count = sequence.request.sampling.prompt_logprobs or 0
        entries = [TokenLogprob(self._alternative(prompt[0], 0.0))] if start == 0 else []
        rows = token_logprobs(logits[: len(targets)], targets, [count] * len(targets))
        return entries + [self._entry(token, row) for token, row in zip(targets, rows, strict=True)]

    def _next_tokens(self, batch: list[Ready]) -> list[Next]:
        if not batch:
            return []
        tokens = choose_tokens([ready.logits for ready in batch], [ready.sequence.sampler for ready in batch])
        entries = self._entries(
            [
                (ready, token)
                for ready, token in zip(batch, tokens, strict=True)
                if token is not None and ready.sequence.request.sampling.logprobs is not None
            ]
        )
        return [
            Next(ready.sequence, token, entries.get(ready.sequence.id))
            for ready, token in zip(batch, tokens, strict=True)
        ]

    def _entries(self, chosen: list[tuple[Ready, int]]) -> dict[int, TokenLogprob]:
        if not chosen:
            return {}
        logits = torch.cat([ready.logits for ready, _ in chosen])
        counts = [ready.sequence.request.sampling.logprobs or 0 for ready, _ in chosen]
        rows = token_logprobs(logits, [token for _, token in chosen], counts)
        return {
            ready.sequence.id: self._entry(token, row)
            for (ready, token), row in zip(chosen, rows, strict=True)
        }

    def _entry(self, token_id: int, row: LogprobRow) -> TokenLogprob:
        return TokenLogprob(self._alternative(token_id, row.chosen), self._alternatives(row.top))

    def _alternatives(self, top: Iterable[tuple[int, float]]) -> tuple[Alternative, ...]:
        return tuple([self._alternative(token_id, logprob) for token_id, logprob in top])

    def _alternative(self, token_id: int, logprob: float) -> Alternative:
        raw = self._vocabulary.raw(token_id)
        return Alternative(token_id, raw.decode(errors="replace"), raw, logprob)
