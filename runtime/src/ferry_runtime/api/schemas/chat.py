"""The body of /v1/chat/completions (https://platform.openai.com/docs/api-reference/chat/create)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from ferry_runtime.api.schemas.base import Body, Flag, Integer, Text, problem
from ferry_runtime.api.schemas.sampling import StreamFields

MAX_MESSAGES = 4096
MAX_PARTS = 1024
MAX_TEMPLATE_VARIABLES = 16

_TEXT_PART = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
}


def _content(value: object) -> str:
    """Text, or a list of text parts, which are joined by newlines."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise problem("must be a text or a list of parts")
    if not 0 < len(value) <= MAX_PARTS:
        raise problem(f"must hold 1 to {MAX_PARTS} parts")
    return "\n".join(_part(part) for part in value)


def _part(part: object) -> str:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise problem("must hold parts such as {type: text, text: …}")
    if part["type"] != "text":
        raise problem("must hold text parts only: images, audio and files are not supported by this engine")
    if not isinstance(part.get("text"), str):
        raise problem("must hold text parts that have a text")
    text: str = part["text"]
    return text


Content = Annotated[
    str,
    BeforeValidator(_content),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": _TEXT_PART, "minItems": 1, "maxItems": MAX_PARTS},
            ]
        }
    ),
]


class Message(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    name: Text | None = None
    reasoning_content: Text | None = None


def _known_role(value: object) -> object:
    """Roles that OpenAI has and this engine cannot serve get a sentence of their own."""
    if isinstance(value, dict) and (value.get("role") in ("tool", "function") or value.get("tool_calls")):
        raise problem("is a tool's message: tools are not supported by this engine")
    return value


def _variable(value: object) -> object:
    if value is not None and not isinstance(value, str | int | float | bool):
        raise problem("must be a text, a number, true or false")
    return value


Variable = Annotated[
    object,
    BeforeValidator(_variable),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]


class ChatBody(StreamFields):
    messages: Annotated[
        list[Annotated[Message, BeforeValidator(_known_role)]], Field(min_length=1, max_length=MAX_MESSAGES)
    ]
    max_tokens: Annotated[Integer, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[Integer, Field(ge=1)] | None = None
    logprobs: Flag | None = None
    top_logprobs: Annotated[Integer, Field(ge=0, le=20)] | None = None
    add_generation_prompt: Flag | None = None
    continue_final_message: Flag | None = None
    chat_template_kwargs: Annotated[dict[str, Variable], Field(max_length=MAX_TEMPLATE_VARIABLES)] | None = (
        None
    )

    @model_validator(mode="after")
    def _one_way_to_end(self) -> Self:
        if self.continue_final_message and self.add_generation_prompt is not False:
            raise problem(
                "cannot ask for continue_final_message and add_generation_prompt at once: "
                "send add_generation_prompt as false to continue the final message"
            )
        return self
