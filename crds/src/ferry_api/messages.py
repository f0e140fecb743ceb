"""pydantic's errors as sentences for the manifest's author."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import Enum
from typing import Any

from pydantic_core import ErrorDetails

from ferry_api.shape import Kind, Member, Shape

_NAMES = {
    Kind.OBJECT: "a mapping",
    Kind.MAP: "a mapping",
    Kind.ARRAY: "a list",
    Kind.STRING: "a string",
    Kind.DURATION: "a duration, such as 50ms",
    Kind.QUANTITY: "a quantity, such as 4Gi",
    Kind.INTEGER: "a whole number",
    Kind.NUMBER: "a number",
    Kind.BOOLEAN: "true or false",
}


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, whatever its case."""
    by_lower = {name.lower().replace("_", "").replace("-", ""): name for name in known}
    near = difflib.get_close_matches(
        word.lower().replace("_", "").replace("-", ""), list(by_lower), n=1, cutoff=0.6
    )
    return by_lower[near[0]] if near else None


def unknown_field(name: str, known: Iterable[str]) -> str:
    names = list(known)
    meant = did_you_mean(name, names)
    if meant is not None:
        return f"is not a field here; did you mean {meant}?"
    return f"is not a field here; there are {', '.join(names)}"


def missing_field(member: Member | None) -> str:
    return f"is required: {member.description}" if member is not None else "is required"


def wrong_value(error: ErrorDetails, shape: Shape | None) -> str:
    """A sentence for any error but a missing or an unknown field."""
    value = error["input"]
    context = error.get("ctx", {})
    kind = error["type"]
    if shape is not None and shape.kind in (Kind.DURATION, Kind.QUANTITY):
        return _wrong_text_value(value, shape)
    if shape is not None and shape.enum and isinstance(value, (str, bool)):
        return _not_one_of(value, shape)
    match kind:
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}, not {value}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}, not {value}"
        case "string_too_short":
            return "must not be empty"
        case "string_too_long":
            return f"must be at most {context['max_length']} characters long"
        case "too_long":
            return f"must have at most {context['max_length']} entries, not {context['actual_length']}"
        case "too_short":
            return f"must have at least {context['min_length']} entries"
        case "string_pattern_mismatch":
            return f"must match {context['pattern']}"
        case "finite_number":
            return "must be a finite number"
    if shape is not None and shape.kind in _NAMES:
        return f"must be {_NAMES[shape.kind]}, not {_told(value)}" + _boolean_trap(value, shape)
    return f"cannot be used: {error['msg']}"


def _wrong_text_value(value: Any, shape: Shape) -> str:
    if shape.rules and isinstance(value, str):
        return shape.rules[-1].message  # its bounds, with an example
    sentence = f"must be {_NAMES[shape.kind]}, not {_told(value)}"
    if shape.kind is Kind.DURATION and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{sentence}: write the unit, {value}ms or {value}s"
    return sentence


def _not_one_of(value: str | bool, shape: Shape) -> str:
    if isinstance(value, bool):
        return f"must be one of {', '.join(shape.enum)}, not {_told(value)}" + _boolean_trap(value, shape)
    meant = did_you_mean(value, shape.enum)
    return f"must be one of {', '.join(shape.enum)}, not {value!r}" + (
        f"; did you mean {meant}?" if meant else ""
    )


def _boolean_trap(value: Any, shape: Shape) -> str:
    if isinstance(value, bool) and shape.kind is Kind.STRING:
        return " (YAML reads yes, no, on and off as booleans: put the word in quotes)"
    if isinstance(value, (int, float)) and shape.kind is Kind.STRING:
        return " (put it in quotes)"
    if isinstance(value, str) and shape.kind in (Kind.INTEGER, Kind.NUMBER):
        return " (without quotes)"
    return ""


def _told(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case Enum():
            return repr(value.value)
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str() if len(value) > 60:
            return repr(value[:57] + "…")
    return repr(value)
