"""From the deltas of a generation to a stored answer, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ferry_runtime.cache.entry import CachedChoice
from ferry_runtime.engine.protocol import Delta, FinishReason, TokenLogprob
from ferry_runtime.generation import ChoiceDelta


@dataclass(slots=True)
class _Choice:
    texts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    cached_prompt_tokens: int = 0
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None


class Recorder:
    """Collects a request's deltas; yields choices only when every one of them has finished."""

    def __init__(self, choices: int) -> None:
        self._choices = [_Choice() for _ in range(choices)]

    def add(self, item: ChoiceDelta) -> None:
        choice, delta = self._choices[item.index], item.delta
        choice.texts.append(delta.text)
        choice.token_ids.extend(delta.token_ids)
        choice.logprobs.extend(delta.logprobs)
        choice.cached_prompt_tokens = max(choice.cached_prompt_tokens, delta.cached_prompt_tokens)
        if delta.prompt_logprobs is not None:
            choice.prompt_logprobs = delta.prompt_logprobs
        if delta.finish_reason is not None:
            choice.finish_reason, choice.stop_reason = delta.finish_reason, delta.stop_reason

    def finished(self) -> tuple[CachedChoice, ...] | None:
        """The whole answer, or None while any choice is open: half an answer is no answer."""
        done = []
        for choice in self._choices:
            if choice.finish_reason is None:
                return None
            done.append(
                CachedChoice(
                    text="".join(choice.texts),
                    token_ids=tuple(choice.token_ids),
                    finish_reason=choice.finish_reason,
                    stop_reason=choice.stop_reason,
                    logprobs=tuple(choice.logprobs),
                    prompt_logprobs=choice.prompt_logprobs,
                    cached_prompt_tokens=choice.cached_prompt_tokens,
                )
            )
        return tuple(done)


def replay(choices: tuple[CachedChoice, ...], request_id: str) -> Iterator[ChoiceDelta]:
    """One delta per choice, under the caller's own id: what a generation would have added up to."""
    for index, choice in enumerate(choices):
        yield ChoiceDelta(
            index,
            Delta(
                request_id=request_id,
                text=choice.text,
                token_ids=choice.token_ids,
                logprobs=choice.logprobs,
                prompt_logprobs=choice.prompt_logprobs,
                cached_prompt_tokens=choice.cached_prompt_tokens,
                finish_reason=choice.finish_reason,
                stop_reason=choice.stop_reason,
            ),
        )
