"""The bodies of /v1/completions, /generate, /tokenize and /detokenize.

https://platform.openai.com/docs/api-reference/completions/create
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from ferry_runtime.api.schemas.base import Body, Flag, Integer, Text, TokenId, problem
from ferry_runtime.api.schemas.chat import MAX_MESSAGES, Message
from ferry_runtime.api.schemas.sampling import SamplingFields, StreamFields

MAX_PROMPTS = 128
MAX_INPUTS = 2048  # of /v1/embeddings, OpenAI's bound
MAX_BEST_OF = 20  # OpenAI's bound
_MAX_TOKEN_ID = 2**31 - 1

# A text, or token ids.
OnePrompt = str | tuple[int, ...]


def _up_to(most: int) -> Callable[[object], tuple[OnePrompt, ...]]:
    def prompts(value: object) -> tuple[OnePrompt, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list):
            raise problem("must be a text, a list of texts, token ids or a list of token ids")
        if not value:
            raise problem("must hold at least one prompt")
        if not isinstance(value[0], str | list):
            return (_token_ids(value),)
        if len(value) > most:
            raise problem(f"must hold at most {most} prompts")
        one = _string if isinstance(value[0], str) else _token_ids
        return tuple(one(item) for item in value)

    return prompts


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise problem("must not mix texts with anything else")
    return value


def _token_ids(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise problem("must not hold an empty list or mix lists with anything else")
    for item in value:
        if type(item) is not int or not 0 <= item <= _MAX_TOKEN_ID:
            raise problem("must hold token ids: whole numbers from 0 to the vocabulary's size")
    return tuple(value)


_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": _MAX_TOKEN_ID}, "minItems": 1}


def _schema(most: int) -> WithJsonSchema:
    text = {"type": "string", "minLength": 1}
    lists = [{"type": "array", "items": items, "minItems": 1, "maxItems": most} for items in (text, _IDS)]
    return WithJsonSchema({"anyOf": [text, *lists, _IDS]})


Prompts = Annotated[tuple[OnePrompt, ...], BeforeValidator(_up_to(MAX_PROMPTS)), _schema(MAX_PROMPTS)]
Inputs = Annotated[tuple[OnePrompt, ...], BeforeValidator(_up_to(MAX_INPUTS)), _schema(MAX_INPUTS)]


class CompletionBody(StreamFields):
    prompt: Prompts
    max_tokens: Annotated[Integer, Field(ge=0, description="0 only with echo")] | None = None
    best_of: Annotated[Integer, Field(ge=1, le=MAX_BEST_OF)] | None = None
    echo: Flag | None = None
    logprobs: Annotated[Integer, Field(ge=0, le=20)] | None = None
    add_special_tokens: Flag | None = None


class GenerateBody(SamplingFields):
    prompt: Annotated[Text, Field(min_length=1)]
    max_new_tokens: Annotated[Integer, Field(ge=1)] | None = None


class TokenizeBody(Body):
    model: Text | None = None
    prompt: Text | None = None
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)] | None = None
    add_special_tokens: Flag | None = None
    add_generation_prompt: Flag | None = None
    return_token_strs: Flag | None = None


class DetokenizeBody(Body):
    model: Text | None = None
    tokens: Annotated[list[TokenId], Field(max_length=1_000_000)]
