"""From what a body says to what the engine does: defaults, bounds and the context's arithmetic. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from ferry_api.runtime_config import GenerationConfig
from ferry_runtime.api.schemas.sampling import SamplingFields
from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.errors import InvalidRequest

T = TypeVar("T")

# Below this a softmax would overflow; it means greedy to whoever sends it (vLLM draws it there too).
_GREEDY_BELOW = 1e-5


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the model that is loaded, and of the configuration that applies now."""

    context_length: int
    vocab_size: int
    generation: GenerationConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What differs between routes. ``max_tokens_param`` is the field's name in this body."""

    max_tokens: int | None
    max_tokens_param: str = "max_tokens"
    prompt_param: str
    default_max_tokens: int | None = None  # the route's own; None: what the context leaves
    default_temperature: float = 1.0
    logprobs: int | None = None
    prompt_logprobs: int | None = None


def sampling_params(
    fields: SamplingFields, wanted: Wanted, limits: Limits, prompt_tokens: int
) -> SamplingParams:
    """Raises InvalidRequest, naming the field and the numbers."""
    max_tokens = _max_tokens(wanted, limits, prompt_tokens)
    min_tokens = fields.min_tokens or 0
    if min_tokens > max_tokens:
        raise InvalidRequest(
            f"min_tokens is {min_tokens} but at most {max_tokens} tokens will be generated.",
            param="min_tokens",
        )
    stop_ids = tuple(fields.stop_token_ids or ())
    biases = fields.logit_bias or {}
    check_vocabulary(stop_ids, limits.vocab_size, "stop_token_ids")
    check_vocabulary(biases, limits.vocab_size, "logit_bias")
    temperature = _first(fields.temperature, limits.generation.temperature, wanted.default_temperature)
    top_k = max(0, fields.top_k or 0)
    top_p = _first(fields.top_p, 1.0)
    if top_p == 0:  # the smallest nucleus: the likeliest token alone
        top_p, top_k = 1.0, 1
    return SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature if temperature >= _GREEDY_BELOW else 0.0,
        top_p=top_p,
        top_k=top_k if top_k < limits.vocab_size else 0,
        min_p=_first(fields.min_p, 0.0),
        repetition_penalty=_first(fields.repetition_penalty, 1.0),
        presence_penalty=_first(fields.presence_penalty, 0.0),
        frequency_penalty=_first(fields.frequency_penalty, 0.0),
        seed=fields.seed,
        stop=fields.stop or (),
        stop_token_ids=stop_ids,
        include_stop_in_output=bool(fields.include_stop_str_in_output),
        logit_bias=biases,
        logprobs=wanted.logprobs,
        prompt_logprobs=wanted.prompt_logprobs,
        min_tokens=min_tokens,
        ignore_eos=bool(fields.ignore_eos),
        skip_special_tokens=fields.skip_special_tokens is not False,
    )


def check_vocabulary(token_ids: Iterable[int], vocab_size: int, param: str) -> None:
    """Against the output layer's rows, not the tokenizer's: an id beyond them would index past it."""
    for token_id in token_ids:
        if not 0 <= token_id < vocab_size:
            raise InvalidRequest(
                f"{param} holds the token id {token_id}, which is out of vocabulary: "
                f"ids go from 0 to {vocab_size - 1}.",
                param=param,
            )


def _max_tokens(wanted: Wanted, limits: Limits, prompt_tokens: int) -> int:
    room = limits.context_length - prompt_tokens
    limit = limits.generation.max_tokens_limit
    asked = wanted.max_tokens
    if asked is None:
        if room < 1:
            raise too_long(wanted.prompt_param, limits.context_length, prompt_tokens)
        default = _first(limits.generation.max_tokens, wanted.default_max_tokens, room)
        return min(default, room, room if limit is None else limit)
    if limit is not None and asked > limit:
        raise InvalidRequest(
            f"{wanted.max_tokens_param} is {asked}; this service allows at most {limit}.",
            param=wanted.max_tokens_param,
        )
    if asked > room:
        raise too_long(
            wanted.prompt_param if room < 1 else wanted.max_tokens_param,
            limits.context_length,
            prompt_tokens,
            f" and {wanted.max_tokens_param} asks for {asked} more",
        )
    return asked


def too_long(param: str, context_length: int, prompt_tokens: int, more: str = "") -> InvalidRequest:
    return InvalidRequest(
        f"The model's context holds {context_length} tokens; the prompt has {prompt_tokens}{more}. "
        "Send a shorter prompt or ask for fewer tokens.",
        param=param,
        code="context_length_exceeded",
    )


def _first(*values: T | None) -> T:
    """The first value that was given; the last one always is."""
    return next(value for value in values if value is not None)
