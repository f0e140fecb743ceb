from __future__ import annotations

import pytest

from ferry_runtime.api.strictjson import MAX_STRUCTURE, decode
from ferry_runtime.errors import InvalidRequest


def test_ordinary_json_is_decoded() -> None:
    body = '{"a": [1, -2.5, true, null, "é \\ud83d\\ude00 \\u0000"], "b": {}}'.encode()
    assert decode(body) == {"a": [1, -2.5, True, None, "é 😀 \0"], "b": {}}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{bad", id="syntax"),
        pytest.param(b'{"a": NaN}', id="NaN"),
        pytest.param(b'{"a": Infinity}', id="Infinity"),
        pytest.param(b'{"a": -Infinity}', id="minus Infinity"),
        pytest.param(b'{"a": 1e400}', id="beyond a double"),
        pytest.param(b'{"a": -1e400}', id="below a double"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="5000 digits"),
        pytest.param(b'{"a": 1' + b"0" * 21 + b"}", id="22 digits"),
        pytest.param(b'{"a": 1, "a": 2}', id="name twice"),
        pytest.param(b'{"x": {"a": 1, "\\u0061": 2}}', id="name twice, escaped, inside"),
        pytest.param(b'{"a": "\\ud800 hi"}', id="lone high surrogate"),
        pytest.param(b'{"a": "\\udc00"}', id="lone low surrogate"),
        pytest.param(b'{"a": ["\\uDBFF"]}', id="surrogate in a list"),
        pytest.param(b'{"\\ud800": 1}', id="surrogate in a name"),
        pytest.param(b'{"a": "\xed\xa0\x80"}', id="surrogate in raw bytes"),
        pytest.param(b'{"a": "\xff"}', id="not UTF-8"),
        pytest.param('{"a": 1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"a": "\x00"}', id="raw NUL"),
        pytest.param(b"[" * 10_000 + b"]" * 10_000, id="nested lists"),
        pytest.param(b'{"a":' * 10_000 + b"1" + b"}" * 10_000, id="nested objects"),
        pytest.param(b"[" + b"[]," * MAX_STRUCTURE + b"1]", id="many lists"),
        pytest.param(b"{" + b",".join(b'"%d":1' % i for i in range(60_000)) + b"}", id="many names"),
    ],
)
def test_what_cannot_be_trusted_is_refused_as_invalid_json(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode(body)
    assert refused.value.code == "invalid_json"


def test_messages_never_repeat_the_body() -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode(b'{"secret-name": secret-value}')
    assert "secret" not in str(refused.value)


def test_brackets_inside_texts_are_not_structure() -> None:
    text = "[{:" * MAX_STRUCTURE
    assert decode(b'["' + text.encode() + b'"]') == [text]


def test_escaped_quotes_do_not_hide_structure() -> None:
    body = b'["\\"", ' + b"[]," * MAX_STRUCTURE + b"1]"
    with pytest.raises(InvalidRequest, match=str(MAX_STRUCTURE)):
        decode(body)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b'"' + b'\\"' * 1_500_000, id="escaped quotes in a text that never ends"),
        pytest.param(b'"' + b"\\\\" * 1_500_000, id="escaped backslashes in a text that never ends"),
        pytest.param(b'"' + b"a" * 3_000_000 + b"\\", id="a backslash as the last byte"),
        pytest.param(b'""' * 1_500_000, id="empty texts"),
        pytest.param(b'"\\' * 1_500_000, id="quotes and backslashes"),
    ],
)
def test_looking_for_structure_takes_time_linear_in_the_body(tail: bytes) -> None:
    """In quadratic time this would take hours and hold the interpreter all the while."""
    with pytest.raises(InvalidRequest):
        decode(b"[" * MAX_STRUCTURE + b":" + tail)
