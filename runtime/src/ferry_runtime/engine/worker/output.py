"""One sequence's tokens become deltas: text, stops, the end, and log-probabilities in step."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from dataclasses import dataclass

from ferry_runtime.engine.protocol import Delta, FinishReason, GenerateRequest, TokenLogprob
from ferry_runtime.engine.worker.stops import StopFilter
from ferry_runtime.engine.worker.vocabulary import Vocabulary


@dataclass(slots=True)
class _Held:
    """A log-probability that waits for its token's text; ``end`` is where that text ends, None
    while the token ends inside a character."""

    entry: TokenLogprob
    end: int | None


class Output:
    """Feed each generated token once, in order.

    A matched stop string, stop token or end of sequence wins over ``max_tokens``. Before
    ``min_tokens`` nothing is matched. An entry of log-probabilities goes out with the last of its
    token's text, so it cannot give away what is held back for a stop string.
    """

    def __init__(self, request: GenerateRequest, vocabulary: Vocabulary, eos: Container[int]) -> None:
        sampling = request.sampling
        self._request_id = request.request_id
        self._sampling = sampling
        self._vocabulary = vocabulary
        self._eos: Container[int] = () if sampling.ignore_eos else eos
        self._text = vocabulary.detokenizer(
            request.prompt_token_ids, skip_special=sampling.skip_special_tokens
        )
        self._stops = StopFilter(sampling.stop, include_stop=sampling.include_stop_in_output)
        self._held: deque[_Held] = deque()
        self._decoded = 0  # characters that went into the stop filter
        self._shown = 0  # characters that came out
        self.generated = 0

    def add(self, token_id: int, logprob: TokenLogprob | None = None) -> Delta:
        """``logprob`` is this token's entry, where the request asks for it."""
        self.generated += 1
        may_stop = self.generated > self._sampling.min_tokens
        is_eos = may_stop and token_id in self._eos
        is_stop = may_stop and not is_eos and token_id in self._sampling.stop_token_ids
        reason: FinishReason | None = None
        stop_reason: str | int | None = None
        if is_eos or is_stop:
            reason, stop_reason = FinishReason.STOP, (token_id if is_stop else None)
            shown = ""
            if is_stop and self._sampling.include_stop_in_output:
                shown += self._show(self._text.feed(token_id))
                self._hold(logprob)
            shown += self._end()
        else:
            shown = self._show(self._text.feed(token_id), searched=may_stop)
            self._hold(logprob)
            if self._stops.matched is None and self.generated >= self._sampling.max_tokens:
                reason = FinishReason.LENGTH
                shown += self._end()
            if self._stops.matched is not None:
                reason, stop_reason = FinishReason.STOP, self._stops.matched
        return Delta(
            request_id=self._request_id,
            text=shown,
            token_ids=(token_id,),
            logprobs=self._release(everything=reason is not None),
            finish_reason=reason,
            stop_reason=stop_reason,
        )

    def _show(self, text: str, *, searched: bool = True) -> str:
        self._decoded += len(text)
        shown = self._stops.feed(text) if searched else self._stops.pass_by(text)
        self._shown += len(shown)
        return shown

    def _end(self) -> str:
        """What was held back by half a character or by the beginning of a stop string."""
        return self._show(self._text.flush()) + self._stops.flush()

    def _hold(self, logprob: TokenLogprob | None) -> None:
        if logprob is None:
            return
        self._held.append(_Held(logprob, None))
        if not self._text.pending:
            for held in reversed(self._held):
                if held.end is not None:
                    break
                held.end = self._decoded

    def _release(self, *, everything: bool) -> tuple[TokenLogprob, ...]:
        released = []
        while self._held:
            end = self._held[0].end
            if not everything and (end is None or end > self._shown):
                break
            released.append(self._held.popleft().entry)
        return tuple(released)
