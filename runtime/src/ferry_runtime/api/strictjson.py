"""JSON as RFC 8259 has it, decoded so that nothing in it can surprise what comes after.

Refused: NaN and Infinity, numbers beyond a double or 20 digits, a name twice in one object, lone
surrogates anywhere, nesting beyond the parser's stack, and structure without end. Decoding goes
through Python hooks on purpose: the interpreter can switch threads between two of them, so a large
body that is decoded in a thread does not silence the event loop.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from ferry_runtime.errors import InvalidRequest

# Arrays, objects and members in one body. Allocating more than this costs the other requests
# hundreds of milliseconds of garbage collection.
MAX_STRUCTURE = 50_000
_MAX_DIGITS = 20
# One that never ends matches to the end of the body: a pattern that could fail there would begin again
# at every quote inside, in time that grows with the square of the body.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class _Refused(ValueError):
    """Raised by a hook; its text is for the client."""


def decode(body: bytes) -> Any:
    """Raises InvalidRequest; its message never repeats any of the body."""
    if _structure(body) > MAX_STRUCTURE and _structure(_STRING.sub(b"", body)) > MAX_STRUCTURE:
        raise _invalid(f"The body holds more than {MAX_STRUCTURE} arrays, objects and members.")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise _invalid("The body is not valid UTF-8.") from None
    try:
        value = _DECODER.decode(text)
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode()
    except _Refused as refused:
        raise _invalid(str(refused)) from None
    except UnicodeEncodeError:
        raise _invalid("The body holds a lone surrogate, which is not valid Unicode.") from None
    except RecursionError:
        raise _invalid("The body is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise _invalid(f"The body is not valid JSON (line {error.lineno}, column {error.colno}).") from None
    return value


def _structure(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{") + body.count(b":")


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(message, code="invalid_json")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Refused("The body names a field twice in one object.")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _Refused(f"The body holds a whole number of more than {_MAX_DIGITS} digits.")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Refused("The body holds a number that is too large.")
    return value


def _constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON.")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant
)
