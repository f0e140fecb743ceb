"""What makes two requests the same request: a pure, versioned function from request to keys.

Two keys come out. The *exact* key covers everything that decides an answer. The *partition* covers
the same without the last user text and without ``max_tokens``: entries of one partition differ only
in what the semantic tier may compare.

The lists below are the specification. A field that is in neither list makes the request bypass the
cache, so a parameter that somebody adds later cannot silently share answers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

import msgspec

from ferry_runtime.engine.protocol import SamplingParams
from ferry_runtime.generation import GenerationRequest

VERSION = 2  # raise it whenever what is hashed, or how, changes

REQUEST_IN = frozenset({"tenant", "prompt_token_ids", "sampling", "n", "context"})
REQUEST_PARTITION = frozenset({"prompt_text", "user_text"})  # the prompt around the user text
# Decide how or when an answer is delivered, or whether it may be cached, never what it says. The
# body's stream, stream_options, user and metadata end before a GenerationRequest exists.
REQUEST_OUT = frozenset(
    {"id", "arrival", "queued_since", "route", "priority", "timeout", "temperature_omitted"}
    | {"cache_control", "cache_threshold", "unknown_fields", "trace_headers"}
)
SAMPLING_IN = frozenset(
    {"max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty"}
    | {"frequency_penalty", "seed", "stop", "stop_token_ids", "include_stop_in_output", "logit_bias"}
    | {"logprobs", "prompt_logprobs", "min_tokens", "ignore_eos", "skip_special_tokens"}
)

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What answers: any difference here is another model as far as the cache is concerned.

    ``weights`` is a digest of the weight files or a resolved commit, never a name that can move.
    """

    name: str
    weights: str
    tokenizer: str = ""  # digest of tokenizer and its configuration
    chat_template: str = ""  # digest
    dtype: str = ""
    quantization: str = ""
    numerics: str = ""
    adapter: str = ""
    engine: str = ""  # engine type and device, and the upstream's URL where there is one
    upstream_model: str = ""  # what the upstream is asked for, where there is one
    epoch: str = ""  # changed by hand to leave every stored answer behind


@dataclass(frozen=True, slots=True)
class Identity:
    """``exact`` and ``partition`` are 32-byte digests; no partition: exact tier only."""

    exact: bytes
    partition: bytes | None
    question: str | None

    @property
    def entry_id(self) -> str:
        """Names the entry to clients and operators: 32 hexadecimal digits."""
        return self.exact[:16].hex()


@dataclass(frozen=True, slots=True)
class Bypass:
    """The request has no identity; ``reason`` is a metric label."""

    reason: str


def identify(
    request: GenerationRequest, model: ServedModel, *, shared: bool = False, embedder: str = ""
) -> Identity | Bypass:
    """Keys of a request. ``shared`` leaves the tenant out (scope: Shared)."""
    if request.unknown_fields or _has_unlisted_field(request):
        return Bypass("unknown_field")
    owner = ("shared",) if shared else ("tenant", request.tenant)
    served = [getattr(model, field.name) for field in fields(model)]
    sampling = _effective(request.sampling)
    head = (VERSION, owner, served, request.n, request.context)
    try:
        exact = _digest("exact", head, sampling, request.prompt_token_ids)
        partition = _partition(request, head, sampling, embedder)
    except UnicodeEncodeError:  # a lone surrogate; the API refuses it earlier
        return Bypass("unencodable")
    return Identity(exact, partition, request.user_text if partition else None)


def _partition(
    request: GenerationRequest, head: tuple[object, ...], sampling: dict[str, object], embedder: str
) -> bytes | None:
    text = (request.user_text or "").strip()
    at = request.prompt_text.rfind(text) if text else -1
    drawn = sampling["seed"] is not None  # a seeded draw is asked for as that draw
    if at < 0 or not embedder or drawn or request.sampling.prompt_logprobs is not None:
        return None
    around = (request.prompt_text[:at], request.prompt_text[at + len(text) :])
    fixed = {name: value for name, value in sampling.items() if name != "max_tokens"}
    return _digest("partition", head, fixed, around, embedder)


def _digest(*parts: object) -> bytes:
    """MessagePack carries lengths and types, so no two different part lists encode alike."""
    return hashlib.blake2b(_encode(parts), digest_size=32).digest()


def _effective(sampling: SamplingParams) -> dict[str, object]:
    """Sampling parameters with one spelling per meaning: numbers as floats, sets sorted, and at
    temperature 0 none of what only shapes a random draw."""
    values: dict[str, object] = {}
    for name in sorted(SAMPLING_IN):
        value = getattr(sampling, name)
        if name in _FLOATS:
            value = float(value) + 0.0  # -0.0 becomes 0.0
        values[name] = value
    values["stop_token_ids"] = sorted(set(sampling.stop_token_ids))
    values["logit_bias"] = sorted((int(token), float(bias)) for token, bias in sampling.logit_bias.items())
    if sampling.temperature == 0:
        values["seed"] = None
        if sampling.logprobs is None:  # else they may show in the reported probabilities
            values.update(top_p=1.0, top_k=0, min_p=0.0)
    return values


_FLOATS = frozenset(
    {"temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"}
)
_UNLISTED_REQUEST = (
    frozenset(field.name for field in fields(GenerationRequest))
    - REQUEST_IN
    - REQUEST_PARTITION
    - REQUEST_OUT
)
_UNLISTED_SAMPLING = frozenset(SamplingParams.__struct_fields__) - SAMPLING_IN
_DEFAULTS = dict(
    zip(SamplingParams.__struct_fields__, (None, *SamplingParams.__struct_defaults__), strict=False)
)


def _has_unlisted_field(request: GenerationRequest) -> bool:
    """A request field nobody listed, or a sampling field nobody listed that is in use."""
    if _UNLISTED_REQUEST:
        return True
    return any(getattr(request.sampling, name) != _DEFAULTS.get(name) for name in _UNLISTED_SAMPLING)
