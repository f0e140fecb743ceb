"""Fields that OpenAI or vLLM know and this engine does not: refused, never silently ignored."""

from __future__ import annotations

from ferry_runtime.api.schemas.base import Body
from ferry_runtime.errors import InvalidRequest

_FIELDS = frozenset(
    # OpenAI
    {"tools", "tool_choice", "functions", "function_call", "response_format", "modalities", "audio"}
    | {"web_search_options", "suffix"}
    # vLLM
    | {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"}
    | {"structural_tag", "use_beam_search", "allowed_token_ids", "bad_words", "prompt_logprobs"}
    | {"truncate_prompt_tokens", "logits_processors", "documents", "chat_template"}
    | {"mm_processor_kwargs", "length_penalty"}
    # Known on other routes than the one that did not declare them.
    | {"best_of", "echo", "stream", "n", "max_tokens", "max_completion_tokens", "max_new_tokens"}
)

# Values that ask for nothing.
_HARMLESS: dict[str, tuple[object, ...]] = {
    "tool_choice": ("none",),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "n": (1,),
    "best_of": (1,),
    "length_penalty": (1, 1.0),
}

# Accepted by OpenAI, without influence on what one engine answers.
_IGNORED = frozenset(
    {"store", "service_tier", "parallel_tool_calls", "prediction", "safety_identifier", "prompt_cache_key"}
)


def refuse_unsupported(body: Body) -> None:
    """Raises InvalidRequest for the first field that asks for what cannot be done."""
    for name, value in (body.model_extra or {}).items():
        if name not in _FIELDS or value is False or value in ("", [], {}):
            continue
        if any(value == harmless for harmless in _HARMLESS.get(name, ())):
            continue
        raise InvalidRequest(
            f"{name} is not supported by this engine.", param=name, code="unsupported_parameter"
        )


def not_understood(body: Body) -> frozenset[str]:
    """Names of fields that were accepted without being understood: they may be a typing error."""
    return body.unknown_fields - _FIELDS - _IGNORED
