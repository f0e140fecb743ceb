"""From validated bodies to generation requests: model, prompt, tokens, identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from starlette.requests import Request

from ferry_runtime.api.context import context_of
from ferry_runtime.api.errors import Refusal
from ferry_runtime.api.resolve import Limits, Wanted, check_vocabulary, sampling_params
from ferry_runtime.api.schemas.chat import Message
from ferry_runtime.api.schemas.sampling import SamplingFields
from ferry_runtime.api.schemas.unsupported import not_understood
from ferry_runtime.api.services import Services
from ferry_runtime.errors import InvalidRequest
from ferry_runtime.generation import GenerationRequest
from ferry_runtime.text.model import EncodedPrompt, TextModel

THRESHOLD_HEADER = "x-ferry-cache-threshold"
_LONGEST_ECHO = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOf:
    """A prompt and what the cache knows about it; see `GenerationRequest`."""

    encoded: EncodedPrompt
    user_text: str | None = None
    context: str = ""


def check_model(services: Services, name: str) -> None:
    if name != services.model_name:
        raise Refusal(
            404,
            f"The model '{name[:_LONGEST_ECHO]}' does not exist. This service has '{services.model_name}'.",
            code="model_not_found",
            param="model",
        )


def limits(services: Services) -> Limits:
    """Raises EngineNotReady before a model is loaded."""
    info = services.backend.info
    return Limits(info.context_length, info.vocab_size, services.config().hot.generation)


def generation_request(
    request: Request,
    fields: SamplingFields,
    prompt: PromptOf,
    wanted: Wanted,
    limits: Limits,
    *,
    answer_id: str,
    n: int,
) -> GenerationRequest:
    """Raises InvalidRequest. ``answer_id`` is minted, and unique for every prompt of a body."""
    context = context_of(request)
    ids = prompt.encoded.token_ids
    if not ids:
        raise InvalidRequest(f"{wanted.prompt_param} is empty: it holds no token.", param=wanted.prompt_param)
    check_vocabulary(ids, limits.vocab_size, wanted.prompt_param)
    return GenerationRequest(
        id=answer_id,
        arrival=context.started,
        tenant=context.principal.tenant,
        route=context.route,
        prompt_token_ids=ids,
        prompt_text=prompt.encoded.text,
        sampling=sampling_params(fields, wanted, limits, len(ids)),
        n=n,
        priority=context.principal.priority(fields.priority),
        timeout=fields.timeout,
        user_text=prompt.user_text,
        context=prompt.context,
        temperature_omitted=fields.temperature is None,
        cache_control=_directives(request),
        cache_threshold=_threshold(request),
        unknown_fields=not_understood(fields),
        trace_headers=context.trace.outgoing if context.trace is not None else {},
    )


def check_length(text: TextModel, characters: int, limits: Limits, param: str) -> None:
    """Refuses what can never fit before it is encoded: a few megabytes would become millions of ids."""
    tokens = text.tokenizer.fewest_tokens(characters)
    if tokens >= limits.context_length:
        raise InvalidRequest(
            f"The model's context holds {limits.context_length} tokens; "
            f"{param} has at least {tokens}. Send a shorter prompt.",
            param=param,
            code="context_length_exceeded",
        )


def conversation(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Messages as a chat template takes them. Templates know no developer: it is the system."""
    return [
        {
            "role": "system" if message.role == "developer" else message.role,
            "content": message.content,
            **({"name": message.name} if message.name else {}),
            **({"reasoning_content": message.reasoning_content} if message.reasoning_content else {}),
        }
        for message in messages
    ]


def last_user_text(messages: Sequence[Message]) -> str | None:
    return messages[-1].content if messages[-1].role == "user" else None


def context_text(messages: list[dict[str, str]]) -> str:
    """Everything but the last user text, canonical: it must be equal for two requests to be alike."""
    fixed = [*messages[:-1], {**messages[-1], "content": ""}] if messages[-1]["role"] == "user" else messages
    return msgspec.json.encode(fixed, order="sorted").decode()


def _directives(request: Request) -> frozenset[str]:
    values = ",".join(request.headers.getlist("cache-control")).split(",")
    return frozenset(value.strip().lower() for value in values if value.strip())


def _threshold(request: Request) -> float | None:
    text = request.headers.get(THRESHOLD_HEADER)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InvalidRequest(f"The header {THRESHOLD_HEADER} must be a number between 0 and 1.")
    return value
