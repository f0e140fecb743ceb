"""The completions API of an OpenAI-compatible server: requests out, chunks in. Pure.

Fields that OpenAI does not know (top_k, min_p, …) have the names that vLLM gave them, and are sent
only when a request uses them, so that a plain upstream is never bothered.
Source: https://platform.openai.com/docs/api-reference/completions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ferry_runtime.engine.protocol import (
    Alternative,
    Delta,
    FinishReason,
    GenerateRequest,
    SamplingParams,
    TokenLogprob,
)
from ferry_runtime.errors import RequestFailed

LOWEST_LOGPROB = -9999.0
UNKNOWN_TOKEN = -1  # an upstream need not say which token a text was

_PLAIN = {
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_FURTHER = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "min_tokens": "min_tokens",
    "ignore_eos": "ignore_eos",
    "skip_special_tokens": "skip_special_tokens",
    "include_stop_in_output": "include_stop_str_in_output",
}
_DEFAULTS = SamplingParams(max_tokens=1)


def completion_body(request: GenerateRequest, model: str, prompt: str | Sequence[int]) -> dict[str, Any]:
    """Raises RequestFailed for what the completions API of others cannot give."""
    sampling = request.sampling
    if sampling.prompt_logprobs is not None:
        raise RequestFailed("Log-probabilities of the prompt cannot be had from this service's upstream.")
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "max_tokens": sampling.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body |= {theirs: getattr(sampling, ours) for ours, theirs in _PLAIN.items()}
    body |= {
        theirs: getattr(sampling, ours)
        for ours, theirs in _FURTHER.items()
        if getattr(sampling, ours) != getattr(_DEFAULTS, ours)
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.stop_token_ids:
        body["stop_token_ids"] = list(sampling.stop_token_ids)
    if sampling.logit_bias:
        body["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias.items()}
    if sampling.logprobs is not None:
        body["logprobs"] = sampling.logprobs
    return body


@dataclass(slots=True)
class ChunkReader:
    """Turns one answer's chunks into deltas that count every generated token once.

    A chunk is taken for as many tokens as its log-probabilities or ids show, one otherwise; what
    the closing usage chunk says beyond that is added to the last delta, which waits for it.
    ``token_id`` finds a token by its text.
    """

    request: GenerateRequest
    token_id: Callable[[str], int | None]
    _counted: int = 0
    _last: Delta | None = field(default=None)

    @property
    def begun(self) -> bool:
        """Whether anything of the answer has come."""
        return self._counted > 0

    def read(self, chunk: dict[str, Any]) -> Delta | None:
        """Raises ArithmeticError, AttributeError, LookupError, TypeError or ValueError on what is no
        completion chunk."""
        choices = chunk.get("choices") or []
        if not choices:
            usage = chunk.get("usage")
            return self._closed(usage) if usage else None
        delta = self._delta(choices[0])
        if delta.finish_reason is not None:
            self._last = delta
            usage = chunk.get("usage")
            return self._closed(usage) if usage else None
        return delta if delta.text or delta.token_ids else None

    def end(self) -> Delta | None:
        """The stream is over: the last delta, if it still waits for a usage chunk."""
        return self._closed({}) if self._last is not None else None

    def _delta(self, choice: dict[str, Any]) -> Delta:
        text = choice.get("text") or ""
        if not isinstance(text, str):
            raise TypeError("a choice's text is not text")
        entries = self._logprobs(choice.get("logprobs"))
        ids = choice.get("token_ids")
        if ids is None:
            known = (
                [self.token_id(entry.token.text) for entry in entries] if entries else [self.token_id(text)]
            )
            ids = [UNKNOWN_TOKEN if found is None else found for found in known] if entries or text else []
        self._counted += len(ids)
        reason = choice.get("finish_reason")
        return Delta(
            request_id=self.request.request_id,
            text=text,
            token_ids=tuple(int(token) for token in ids),
            logprobs=entries if self.request.sampling.logprobs is not None else (),
            finish_reason=None
            if reason is None
            else (FinishReason.LENGTH if reason == "length" else FinishReason.STOP),
            stop_reason=choice.get("stop_reason"),
        )

    def _closed(self, usage: dict[str, Any]) -> Delta | None:
        last, self._last = self._last, None
        if last is None:
            return None
        rest = int(usage.get("completion_tokens") or self._counted) - self._counted
        reused = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return Delta(
            request_id=last.request_id,
            text=last.text,
            token_ids=last.token_ids + (UNKNOWN_TOKEN,) * max(0, rest),
            logprobs=last.logprobs,
            cached_prompt_tokens=int(reused),
            finish_reason=last.finish_reason,
            stop_reason=last.stop_reason,
        )

    def _logprobs(self, block: dict[str, Any] | None) -> tuple[TokenLogprob, ...]:
        if not block:
            return ()
        tokens, values = block.get("tokens") or [], block.get("token_logprobs") or []
        tops = block.get("top_logprobs") or [None] * len(tokens)
        return tuple(
            TokenLogprob(
                self._alternative(token, value),
                tuple(self._alternative(text, logprob) for text, logprob in (top or {}).items()),
            )
            for token, value, top in zip(tokens, values, tops, strict=True)
        )

    def _alternative(self, text: str, logprob: float | None) -> Alternative:
        found = self.token_id(text)
        value = LOWEST_LOGPROB if logprob is None else float(logprob)
        value = value if value > LOWEST_LOGPROB else LOWEST_LOGPROB  # also where it is NaN
        return Alternative(UNKNOWN_TOKEN if found is None else found, text, text.encode(), value)
