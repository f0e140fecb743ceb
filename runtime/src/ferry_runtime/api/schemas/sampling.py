"""Fields that every generating route takes: OpenAI's, and the extras that vLLM made common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from ferry_runtime.api.schemas.base import Body, Flag, Integer, Number, Text, TokenId, problem

MAX_STOP_STRINGS = 16
MAX_STOP_CHARACTERS = 1024
MAX_STOP_TOKENS = 64
MAX_BIASES = 1024
MAX_CHOICES = 128  # OpenAI's bound on n
_INT32_MAX = 2**31 - 1


def _stop(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise problem("must be a text or a list of texts")
    if len(texts) > MAX_STOP_STRINGS:
        raise problem(f"must hold at most {MAX_STOP_STRINGS} texts")
    if not all(texts):
        raise problem("must not hold an empty text")
    if any(len(text) > MAX_STOP_CHARACTERS for text in texts):
        raise problem(f"must not hold a text of more than {MAX_STOP_CHARACTERS} characters")
    return tuple(texts)


def _logit_bias(value: object) -> dict[int, float]:
    if not isinstance(value, dict):
        raise problem("must be an object of token ids and biases")
    if len(value) > MAX_BIASES:
        raise problem(f"must hold at most {MAX_BIASES} token ids")
    biases: dict[int, float] = {}
    for name, bias in value.items():
        if not (name.isascii() and name.isdecimal() and len(name) <= 10):
            raise problem("must have token ids as its keys")
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not -100 <= bias <= 100:
            raise problem("must have numbers between -100 and 100 as its values")
        if int(name) in biases:
            raise problem("must name every token id once")
        biases[int(name)] = float(bias)
    return biases


Stop = Annotated[
    tuple[str, ...],
    BeforeValidator(_stop),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARACTERS},
                {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARACTERS},
                    "maxItems": MAX_STOP_STRINGS,
                },
            ]
        }
    ),
]
LogitBias = Annotated[
    dict[int, float],
    BeforeValidator(_logit_bias),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
            "propertyNames": {"pattern": "^[0-9]{1,10}$"},
            "maxProperties": MAX_BIASES,
        }
    ),
]


class SamplingFields(Body):
    """How tokens are picked. Defaults are resolved in `ferry_runtime.api.resolve`."""

    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    top_k: Annotated[Integer, Field(ge=-1, le=_INT32_MAX, description="0 or -1: off")] | None = None
    min_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[Number, Field(ge=0.01, le=10)] | None = None
    presence_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    seed: Integer | None = None
    stop: Stop | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=MAX_STOP_TOKENS)] | None = None
    include_stop_str_in_output: Flag | None = None
    logit_bias: LogitBias | None = None
    min_tokens: Annotated[Integer, Field(ge=0, le=_INT32_MAX)] | None = None
    ignore_eos: Flag | None = None
    skip_special_tokens: Flag | None = None
    priority: Annotated[Integer, Field(ge=-(2**31), le=_INT32_MAX, description="lower goes first")] | None = (
        None
    )
    timeout: Annotated[Number, Field(gt=0, le=86_400, description="seconds for the whole request")] | None = (
        None
    )
    user: Text | None = None
    metadata: dict[str, Any] | None = None


class StreamOptions(Body):
    include_usage: Flag | None = None


class StreamFields(SamplingFields):
    """What both OpenAI routes take besides."""

    model: Text
    n: Annotated[Integer, Field(ge=1, le=MAX_CHOICES)] | None = None
    stream: Flag | None = None
    stream_options: StreamOptions | None = None
