"""What every request body has in common: null means omitted, types are strict, errors are readable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from ferry_runtime.errors import InvalidRequest

_INT64 = 2**63

# What OpenAI-compatible servers take for a flag besides true and false: form libraries send these.
_FLAG_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _integer(value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("type", "must be a whole number")
    if not -_INT64 <= value < _INT64:
        raise PydanticCustomError("range", "must fit into 64 bits")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("type", "must be a number")
    return float(value)


def _flag(value: object) -> bool:
    if isinstance(value, str):
        value = _FLAG_WORDS.get(value.lower())
    if not isinstance(value, bool):
        raise PydanticCustomError("type", "must be true or false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("type", "must be a text")
    return value


Integer = Annotated[int, BeforeValidator(_integer)]
Number = Annotated[float, BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Text = Annotated[str, BeforeValidator(_text)]


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: item for name, item in value.items() if item is not None}
    return value


class Body(BaseModel):
    """An explicit null is an omitted field: clients serialise unset optionals so.

    Fields that no model declares are kept aside in ``model_extra``; see `unknown_fields`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    _nulls_are_omissions = model_validator(mode="before")(_drop_nulls)

    @property
    def unknown_fields(self) -> frozenset[str]:
        return frozenset(self.model_extra or ())


def problem(message: str) -> PydanticCustomError:
    """For validators: ``message`` continues after the field's name ("must be …")."""
    return PydanticCustomError("invalid", "{text}", {"text": message})


def first_problem(error: ValidationError) -> InvalidRequest:
    """The first thing that is wrong, in the client's words and without the client's values."""
    return invalid(error.errors(include_url=False, include_input=False)[0])


def invalid(details: ErrorDetails, *, skip: int = 0) -> InvalidRequest:
    """One of pydantic's errors; ``skip`` leaves out the first parts of its place."""
    param = _path(details["loc"][skip:])
    message = _MESSAGES.get(details["type"], _as_given)(details)
    return InvalidRequest(f"{param} {message}." if param else f"The body {message}.", param=param)


def _path(location: Sequence[int | str]) -> str | None:
    """``messages[0].content``; names that the client made up are cut short."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part[:64]}" for part in location]
    return "".join(parts).lstrip(".") or None


def _as_given(details: ErrorDetails) -> str:
    return details["msg"].removesuffix(".")


def _bound(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    names = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}
    name, value = next((names[key], value) for key, value in context.items() if key in names)
    return f"must be {name} {value:g}" if isinstance(value, float) else f"must be {name} {value}"


_MESSAGES = {
    "missing": lambda _: "is required",
    "int_parsing": lambda _: "must be a whole number",
    "int_from_float": lambda _: "must be a whole number",
    "int_parsing_size": lambda _: "must be a whole number of fewer digits",
    "too_long": lambda details: f"must hold at most {details.get('ctx', {}).get('max_length')} items",
    "too_short": lambda details: f"must hold at least {details.get('ctx', {}).get('min_length')} item",
    "string_too_long": lambda details: (
        f"must be at most {details.get('ctx', {}).get('max_length')} characters long"
    ),
    "string_too_short": lambda _: "must not be empty",
    "literal_error": lambda details: f"must be {details.get('ctx', {}).get('expected')}",
    "list_type": lambda _: "must be a list",
    "dict_type": lambda _: "must be an object",
    "model_type": lambda _: "must be an object",
    "model_attributes_type": lambda _: "must be an object",
    "greater_than_equal": _bound,
    "greater_than": _bound,
    "less_than_equal": _bound,
    "less_than": _bound,
}

# The model's own bound is checked once the model is known.
TokenId = Annotated[Integer, Field(ge=0, lt=2**31)]
